-- Crawlers: their runs, where each stands, and what was last sent for every asset they see.
-- And how far each lane is behind, without a look into the log.

SET LOCAL search_path = lily;

CREATE TABLE crawl_run (
  tenant       int NOT NULL,
  id           uuid NOT NULL,
  number       bigint GENERATED ALWAYS AS IDENTITY,  -- later runs have greater numbers
  connection   uuid NOT NULL,
  state        text NOT NULL CHECK (state IN
    ('queued', 'running', 'succeeded', 'partial', 'failed', 'cancelled')),
  cause        text NOT NULL CHECK (cause IN ('schedule', 'request', 'capture')),
  by           text NOT NULL,
  scope        text,                    -- the subtree, by qualified name; null is everything
  attempt      int NOT NULL DEFAULT 0,
  not_before   timestamptz NOT NULL,
  created_at   timestamptz NOT NULL,
  started_at   timestamptz,
  finished_at  timestamptz,
  beat_at      timestamptz,
  worker       uuid,                    -- the process that runs it, and nobody else
  counts       jsonb NOT NULL DEFAULT '{}',
  cursor       jsonb,                   -- where it stopped, if it did not reach the end
  error        text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant, id)
);
-- One at a time. What a capture reports is a table or two, and must not wait for a long crawl.
CREATE UNIQUE INDEX crawl_run_one ON crawl_run (tenant, connection)
  WHERE state = 'running' AND cause <> 'capture';
CREATE INDEX crawl_run_open ON crawl_run (tenant, not_before) WHERE state IN ('queued', 'running');
CREATE INDEX crawl_run_history ON crawl_run (tenant, connection, number);
SELECT protect('crawl_run');

CREATE TABLE crawl_state (
  tenant       int NOT NULL,
  connection   uuid NOT NULL,
  schedule     text NOT NULL,
  due_at       timestamptz,             -- null: only when asked
  pass         bigint,                  -- number of the run that began the reading under way
  cursor       jsonb,                   -- everything before it is in the log
  PRIMARY KEY (tenant, connection)
);
SELECT protect('crawl_state');

-- Updated in place by every crawl: half-empty pages keep the new version beside the old one.
CREATE TABLE crawl_seen (
  tenant         int NOT NULL,
  connection     uuid NOT NULL,
  guid           uuid NOT NULL,
  run            bigint NOT NULL,       -- the last one that saw it
  hash           bytea NOT NULL,        -- of the statement that was sent
  qualified_name text NOT NULL,
  PRIMARY KEY (tenant, connection, guid)
) WITH (fillfactor = 60);
SELECT protect('crawl_seen');

-- A row exists while something of ours is, or may be, installed in a source.
CREATE TABLE crawl_capture (
  tenant       int NOT NULL,
  connection   uuid NOT NULL,
  revision     bigint NOT NULL,
  plugin       text NOT NULL,
  options      jsonb NOT NULL,          -- its own copy: the connection may be gone
  secrets      bytea,                   -- sealed
  cursor       jsonb,
  worker       uuid,
  beat_at      timestamptz,
  error        text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant, connection)
);
SELECT protect('crawl_capture');

GRANT SELECT, INSERT, UPDATE ON crawl_run TO lily_app, lily_system;
GRANT DELETE ON crawl_run TO lily_system;
GRANT SELECT ON crawl_state, crawl_capture TO lily_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON crawl_state, crawl_seen, crawl_capture TO lily_system;

-- Lag ------------------------------------------------------------------------------------------
-- The log is closed to the API. These tell how much waits and since when, never what it is.

CREATE FUNCTION lanes_behind(most int)
RETURNS TABLE (
  lane text, "position" bigint, applied_at timestamptz, newest timestamptz,
  waiting bigint, oldest timestamptz,
  own_newest timestamptz, own_waiting bigint, own_oldest timestamptz
) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT a.lane, a.position, a.at, a.observed, w.waiting, w.oldest,
         n.newest, w.own_waiting, w.own_oldest
    FROM applied a
   CROSS JOIN LATERAL (
     SELECT count(*) AS waiting, min(l.at) AS oldest,
            count(*) FILTER (WHERE l.tenant = lily.tenant()) AS own_waiting,
            min(l.at) FILTER (WHERE l.tenant = lily.tenant()) AS own_oldest
       FROM (SELECT x.tenant, x.at FROM log x WHERE x.lane = a.lane AND x."offset" > a.position
              ORDER BY x."offset" LIMIT most) l) w
   CROSS JOIN LATERAL (
     SELECT max(l.at) AS newest
       FROM (SELECT x.tenant, x.at FROM log x WHERE x.lane = a.lane AND x."offset" <= a.position
              ORDER BY x."offset" DESC LIMIT 10000) l
      WHERE l.tenant = lily.tenant()) n
   WHERE a.part = 0
$$;

CREATE FUNCTION fields_waiting(container text, most int) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT count(*)
    FROM (SELECT x.tenant, x.key FROM log x, applied a
           WHERE x.lane = 'fields' AND a.lane = 'fields' AND a.part = 0
             AND x."offset" > a.position
           ORDER BY x."offset" LIMIT most) l
   WHERE l.tenant = lily.tenant() AND starts_with(l.key, container || '#')
$$;

REVOKE EXECUTE ON FUNCTION lanes_behind(int), fields_waiting(text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lanes_behind(int), fields_waiting(text, int) TO lily_app;
