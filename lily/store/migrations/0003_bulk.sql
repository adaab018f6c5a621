-- Files of assets: a job each, its chunks as guards and as counts, its refused lines.

SET LOCAL search_path = lily;

CREATE TABLE job (
  tenant        int NOT NULL,
  id            uuid NOT NULL,
  state         text NOT NULL DEFAULT 'queued'
                CHECK (state IN ('queued', 'running', 'succeeded', 'partial', 'failed', 'cancelled')),
  stage         text NOT NULL DEFAULT 'receiving',  -- receiving, waiting, converting, core, fields, done
  format        text NOT NULL,
  name          text NOT NULL DEFAULT '',
  bytes         bigint NOT NULL DEFAULT 0,
  lines         bigint,                 -- null until it is known
  by            text NOT NULL,
  traceparent   text NOT NULL DEFAULT '',
  core_offset   bigint NOT NULL DEFAULT 0,    -- a line's place in its lane is this + its number
  fields_offset bigint NOT NULL DEFAULT 0,
  reason        text NOT NULL DEFAULT '',
  accepted_at   timestamptz NOT NULL,
  started_at    timestamptz,
  finished_at   timestamptz,
  runner        uuid,
  beat_at       timestamptz,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX job_waiting ON job (accepted_at) WHERE state IN ('queued', 'running');
CREATE INDEX job_newest ON job (tenant, accepted_at DESC, id DESC);
SELECT protect('job');

-- Written in the transaction of the rows that it counts: a chunk is applied once.
CREATE TABLE job_chunk (
  tenant    int NOT NULL,
  job       uuid NOT NULL,
  lane      text NOT NULL,
  part      int NOT NULL,
  chunk     int NOT NULL,
  accepted  int NOT NULL DEFAULT 0,
  rejected  int NOT NULL DEFAULT 0,
  created   int NOT NULL DEFAULT 0,
  updated   int NOT NULL DEFAULT 0,
  unchanged int NOT NULL DEFAULT 0,
  at        timestamptz NOT NULL,
  PRIMARY KEY (tenant, job, lane, part, chunk)
);
SELECT protect('job_chunk');

CREATE TABLE job_error (
  tenant    int NOT NULL,
  job       uuid NOT NULL,
  line      bigint NOT NULL,
  reason    text NOT NULL,
  PRIMARY KEY (tenant, job, line)
);
SELECT protect('job_error');

-- Places in both lanes for every line of a file: the later line of one asset is the newer one.
-- Appenders hold the fence shared, so no offset is handed out while the sequences jump.
CREATE FUNCTION reserve_offsets(lines bigint, OUT core bigint, OUT fields bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = lily, pg_temp AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7106407);  -- FENCE in log/postgres.py
  core := nextval('log_core_offset');
  fields := nextval('log_fields_offset');
  PERFORM setval('log_core_offset', core + lines), setval('log_fields_offset', fields + lines);
END $$;
REVOKE ALL ON FUNCTION reserve_offsets(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION reserve_offsets(bigint) TO lily_system;

GRANT SELECT, INSERT, UPDATE ON job TO lily_app, lily_system;
GRANT SELECT ON job_chunk, job_error TO lily_app;
GRANT SELECT, INSERT, UPDATE ON job_chunk, job_error TO lily_system;
GRANT DELETE ON job, job_chunk, job_error TO lily_system;
