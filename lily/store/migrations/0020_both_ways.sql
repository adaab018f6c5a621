-- A page of a walk both ways shows which ways lead to a node, and edges between what was found either
-- way. A walk that ends as soon as a page is full may not have come to the second way yet.

DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('lily.lineage_page'::regproc),
                  'WHEN kinds IS NULL THEN', 'WHEN kinds IS NULL AND NOT (up AND down) THEN');
END $$;
