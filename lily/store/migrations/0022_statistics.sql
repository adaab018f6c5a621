-- Statistics are taken of what somebody asks for. A busy estate is looked through every 20 seconds,
-- and half of that went into documents, texts and moments that no query chooses by.

DO $$
DECLARE
  part regclass;
  name text;
BEGIN
  FOR part IN SELECT relid FROM pg_partition_tree('lily.asset') WHERE isleaf LOOP
    FOREACH name IN ARRAY ARRAY['description', 'metadata', 'details', 'statement', 'edited', 'cause',
        'log_offset', 'created_at', 'deleted_at', 'observed_at', 'applied_at'] LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', part, name);
    END LOOP;
    EXECUTE format('ALTER TABLE %s SET (autovacuum_analyze_scale_factor = 0.2)', part);
  END LOOP;
  FOREACH name IN ARRAY ARRAY['payload', 'salt', 'payload_hash', 'hash', 'cause', 'version'] LOOP
    EXECUTE format('ALTER TABLE lily.fact ALTER COLUMN %I SET STATISTICS 0', name);
  END LOOP;
  ALTER TABLE lily.fact SET (autovacuum_analyze_scale_factor = 0.2);
  -- Read once, in order, and deleted after: what is deleted is all that there is to tidy up.
  FOR part IN SELECT relid FROM pg_partition_tree('lily.log') WHERE isleaf LOOP
    FOREACH name IN ARRAY ARRAY['key', 'value', 'at'] LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', part, name);
    END LOOP;
    EXECUTE format('ALTER TABLE %s SET (autovacuum_analyze_scale_factor = 0.5,'
                   ' autovacuum_vacuum_insert_threshold = -1)', part);
  END LOOP;
END $$;
