-- What a busy estate costs beside its rows.

SET LOCAL search_path = lily;

-- How much of the log waits is asked all the time. The planner takes a third of the log for it, and
-- would read all of it to tell.
ALTER FUNCTION lanes_behind(int) SET enable_seqscan = off;
ALTER FUNCTION fields_waiting(text, int) SET enable_seqscan = off;

-- New words of the core lane wait in a list of their index until somebody sorts them in. Whoever
-- writes did it at every megabyte, in the middle of a batch; now the pipeline does it behind its
-- back (`tidy_search`), and the writer only where nobody else comes.
DO $$
DECLARE
  part regclass;
  name text;
BEGIN
  FOR part IN SELECT i.indexrelid FROM pg_partition_tree('lily.asset_core') t
                JOIN pg_index i ON i.indrelid = t.relid
                JOIN pg_partition_tree('lily.asset_search') s ON s.relid = i.indexrelid AND s.isleaf LOOP
    EXECUTE format('ALTER INDEX %s SET (gin_pending_list_limit = 16384)', part);
  END LOOP;
  -- A fifth of the sample tells the planner as much, and takes a fifth of the time. A small estate
  -- that grows and changes all the time would be swept every 20 seconds.
  FOR part IN SELECT relid FROM pg_partition_tree('lily.asset_core') WHERE isleaf LOOP
    FOR name IN SELECT attname FROM pg_attribute
                 WHERE attrelid = part AND attnum > 0 AND NOT attisdropped AND attstattarget IS NULL LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 20', part, name);
    END LOOP;
    EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_threshold = 50000,'
                   ' autovacuum_vacuum_insert_threshold = 50000)', part);
  END LOOP;
  FOR name IN SELECT attname FROM pg_attribute WHERE attrelid = 'lily.fact'::regclass
                 AND attnum > 0 AND NOT attisdropped AND attstattarget IS NULL LOOP
    EXECUTE format('ALTER TABLE fact ALTER COLUMN %I SET STATISTICS 20', name);
  END LOOP;
  ALTER TABLE fact SET (autovacuum_vacuum_insert_threshold = 50000);
  FOR part IN SELECT relid FROM pg_partition_tree('lily.log') WHERE isleaf LOOP
    FOREACH name IN ARRAY ARRAY['lane', 'offset', 'tenant'] LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 10', part, name);
    END LOOP;
  END LOOP;
END $$;

-- Only the owner of an index may have its list sorted in. Pages that were.
CREATE FUNCTION tidy_search() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT coalesce(sum(gin_clean_pending_list(s.relid)), 0)
    FROM pg_partition_tree('asset_search') s
    JOIN pg_index i ON i.indexrelid = s.relid
    JOIN pg_partition_tree('asset_core') t ON t.relid = i.indrelid
   WHERE s.isleaf
$$;

REVOKE EXECUTE ON FUNCTION tidy_search() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tidy_search() TO lily_system;
