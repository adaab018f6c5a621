-- How often a busy estate is swept.

SET LOCAL search_path = lily;

-- A sweep of facts after so many new ones only makes old pages cheaper to leave alone: they change
-- when a person is erased and never else, and nobody reads them by an index alone. One of assets
-- looks through the whole search index, so it comes when there is more to take away. Both came
-- within the first minute of a stream, and took a fortieth of two cores from it.
DO $$
DECLARE
  part regclass;
BEGIN
  ALTER TABLE fact SET (autovacuum_vacuum_insert_threshold = 1000000);
  FOR part IN SELECT relid FROM pg_partition_tree('lily.asset_core') WHERE isleaf LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_threshold = 100000,'
                   ' autovacuum_vacuum_insert_threshold = 200000)', part);
  END LOOP;
END $$;
