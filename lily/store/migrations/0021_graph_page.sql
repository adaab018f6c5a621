-- The planner expects a thousand nodes in a page of lineage, for which it would rather read a whole
-- estate of ten thousand assets: each node is looked up by itself.

DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('lily.lineage_page'::regproc),
                  'JOIN lily.asset a ON a.tenant = me AND a.guid = guids[i];', $new$CROSS JOIN LATERAL (
      SELECT x.caller_id, x.guid, x.qualified_name, x.asset_name, x.asset_type, x.tags, x.deleted_by,
             x.layers
        FROM lily.asset x WHERE x.tenant = me AND x.guid = guids[i] OFFSET 0) a;$new$);
END $$;
