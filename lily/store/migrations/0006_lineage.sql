-- Lineage: edges between assets, who claims them, what jobs said last, and their runs.

SET LOCAL search_path = lily;

-- The row shows the edge. While one source speaks of it, its claim is the row itself; as soon as a
-- second one or a person joins in (layers 1), every claim has a row in edge_claim, and this one
-- shows the newest that holds.
CREATE TABLE edge (
  tenant         int NOT NULL,
  id             uuid NOT NULL,         -- UUIDv5 of tenant, both ends and the type
  upstream       uuid NOT NULL,
  downstream     uuid NOT NULL,
  type           text NOT NULL,
  level          text NOT NULL CHECK (level IN ('table', 'column')),
  up_top         uuid NOT NULL,         -- the containers of a column edge's ends, else the ends
  down_top       uuid NOT NULL,
  implies        uuid,                  -- the id of the table edge that a column edge implies
  process        text,
  transformation text,
  masking        boolean NOT NULL DEFAULT false,
  origin         text NOT NULL CHECK (origin IN ('source', 'person')),
  properties     jsonb,
  source         text NOT NULL,
  observed_at    timestamptz NOT NULL,
  log_offset     bigint NOT NULL,
  layers         smallint NOT NULL DEFAULT 0,
  version        int NOT NULL,
  deleted_by     text CHECK (deleted_by IN ('source', 'person')),
  deleted_at     timestamptz,
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  cause          text NOT NULL,
  feed_position  bigint NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX edge_upstream ON edge (tenant, upstream, downstream);
CREATE INDEX edge_downstream ON edge (tenant, downstream, upstream);
-- A table has hundreds of column edges to few tables: these are read without a look at the rows.
CREATE INDEX edge_up_top ON edge (tenant, up_top, down_top, type) WHERE level = 'column';
CREATE INDEX edge_down_top ON edge (tenant, down_top, up_top, type) WHERE level = 'column';
-- What a job said before is looked up when it says something new.
CREATE INDEX edge_job ON edge (tenant, source) WHERE source LIKE 'job:%';
SELECT protect('edge');

CREATE TABLE edge_claim (
  tenant      int NOT NULL,
  edge        uuid NOT NULL,
  source      text NOT NULL,
  observed_at timestamptz NOT NULL,
  log_offset  bigint NOT NULL,
  gone        boolean NOT NULL,
  stated      jsonb NOT NULL DEFAULT '{}',  -- process, transformation, masking, properties
  PRIMARY KEY (tenant, edge, source)
);
CREATE INDEX edge_claim_job ON edge_claim (tenant, source) WHERE source LIKE 'job:%';
SELECT protect('edge_claim');

-- The newest complete statement of each job: what is older no longer counts.
CREATE TABLE lineage_job (
  tenant      int NOT NULL,
  source      text NOT NULL,
  at          timestamptz NOT NULL,
  log_offset  bigint NOT NULL,
  PRIMARY KEY (tenant, source)
);
SELECT protect('lineage_job');

-- Runs of jobs, as OpenLineage tells them.
CREATE TABLE run (
  tenant        int NOT NULL,
  id            uuid NOT NULL,
  job_namespace text NOT NULL,
  job_name      text NOT NULL,
  state         text NOT NULL,
  started_at    timestamptz,
  ended_at      timestamptz,
  updated_at    timestamptz NOT NULL,
  parent        jsonb,
  facets        jsonb NOT NULL DEFAULT '{}',
  inputs        jsonb NOT NULL DEFAULT '[]',
  outputs       jsonb NOT NULL DEFAULT '[]',
  error         text,
  said          jsonb NOT NULL DEFAULT '{}',  -- what its events said, as registers; held until it completes
  PRIMARY KEY (tenant, id)
);
CREATE INDEX run_job ON run (tenant, job_namespace, job_name, updated_at DESC, id);
CREATE INDEX run_recent ON run (tenant, updated_at DESC, id);
SELECT protect('run');

-- The graph: edges that hold between assets that are there, and the table edges which column
-- edges imply. An implied edge has the id that it would have if somebody said it.
CREATE VIEW live_edge WITH (security_invoker = true) AS
  SELECT e.tenant, e.id, e.upstream, e.downstream, e.type, e.transformation, e.masking,
         false AS implied
    FROM edge e
    JOIN asset u ON u.tenant = e.tenant AND u.guid = e.upstream
     AND u.deleted_by IS NULL AND u.archived_at IS NULL
    JOIN asset d ON d.tenant = e.tenant AND d.guid = e.downstream
     AND d.deleted_by IS NULL AND d.archived_at IS NULL
   WHERE e.deleted_by IS NULL
  UNION ALL
  SELECT c.tenant, c.implies, c.up_top, c.down_top, c.type, NULL, bool_and(c.masking), true
    FROM edge c
    JOIN asset u ON u.tenant = c.tenant AND u.guid = c.upstream
     AND u.deleted_by IS NULL AND u.archived_at IS NULL
    JOIN asset d ON d.tenant = c.tenant AND d.guid = c.downstream
     AND d.deleted_by IS NULL AND d.archived_at IS NULL
    JOIN asset ut ON ut.tenant = c.tenant AND ut.guid = c.up_top
     AND ut.deleted_by IS NULL AND ut.archived_at IS NULL
    JOIN asset dt ON dt.tenant = c.tenant AND dt.guid = c.down_top
     AND dt.deleted_by IS NULL AND dt.archived_at IS NULL
   WHERE c.deleted_by IS NULL AND c.level = 'column'
     AND NOT EXISTS (SELECT FROM edge t WHERE t.tenant = c.tenant AND t.id = c.implies
                        AND t.deleted_by IS NULL)
   GROUP BY c.tenant, c.implies, c.up_top, c.down_top, c.type;

-- What a crawl sees beside assets: the two names and the type of an edge.
ALTER TABLE crawl_seen ADD COLUMN edge text[];

GRANT SELECT, INSERT, UPDATE ON edge, edge_claim, lineage_job TO lily_app, lily_system;
GRANT DELETE ON edge, edge_claim, lineage_job TO lily_system;
GRANT SELECT, INSERT, UPDATE ON run TO lily_app, lily_system;
GRANT DELETE ON run TO lily_system;
GRANT SELECT ON live_edge TO lily_app, lily_system;
