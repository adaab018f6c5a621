-- Propagation: what arrived along lineage, what stops it, and the rules that say what travels.

SET LOCAL search_path = lily;

-- One row: the nearest root (then the smaller root, then the smaller edge) from which a tag, a term
-- or a value reaches an asset. `rule` is null where the tag's own definition says that it travels;
-- of two rules each keeps its row, because they may end at different places.
CREATE TABLE propagated (
  tenant  int NOT NULL,
  guid    uuid NOT NULL,
  field   text NOT NULL,                -- tag, term, asset_owner, description, metadata.<key>
  name    text NOT NULL DEFAULT '',     -- the tag or term
  value   text NOT NULL DEFAULT '',     -- of the tag; else the value itself, as JSON for metadata
  root    uuid NOT NULL,
  depth   int NOT NULL,
  via     uuid NOT NULL,                -- the last edge of the way
  rule    uuid
);
CREATE UNIQUE INDEX propagated_one ON propagated (tenant, guid, field, name, md5(value), rule)
  NULLS NOT DISTINCT;
-- Not the tenant first: while nobody has counted the rows, it would look as good as the key.
CREATE INDEX propagated_root ON propagated (root, tenant);
SELECT protect('propagated');

-- What does not pass an edge, by name: it outlives that the tag is taken away and set again, and
-- that the edge goes and comes back. What a rule set and a person lifted is kept as lifted.
CREATE TABLE block (
  tenant  int NOT NULL,
  edge    uuid NOT NULL,
  name    text NOT NULL,                -- a tag or term; or asset_owner, description, metadata.<key>
  origin  text NOT NULL CHECK (origin IN ('person', 'rule')),
  by      text NOT NULL,
  reason  text NOT NULL DEFAULT '',
  at      timestamptz NOT NULL,
  lifted  boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant, edge, name)
);
SELECT protect('block');

CREATE TABLE propagation_rule (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  name        text NOT NULL,
  field       text NOT NULL,            -- tag, term, asset_owner, description, metadata.<key>
  names       text[] NOT NULL DEFAULT '{}',  -- which tags or terms; none is all
  edge_kinds  text[],                   -- null: as tags travel by default
  direction   text NOT NULL DEFAULT 'downstream' CHECK (direction IN ('downstream', 'upstream')),
  max_depth   int,
  roots       jsonb NOT NULL DEFAULT '{}',   -- which assets it starts from
  receivers   jsonb NOT NULL DEFAULT '{}',   -- which assets it may reach; others end the way
  on_conflict text NOT NULL DEFAULT 'when_empty' CHECK (on_conflict IN ('when_empty', 'always')),
  enabled     boolean NOT NULL DEFAULT true,
  version     int NOT NULL DEFAULT 1,
  created_at  timestamptz NOT NULL,
  created_by  text NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name)
);
SELECT protect('propagation_rule');

-- A reach that is too large for one transaction: applied in chunks, planned anew after a restart.
CREATE TABLE propagation_task (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  starts      uuid[] NOT NULL,          -- what has changed; everything behind it is recomputed
  up_starts   uuid[] NOT NULL DEFAULT '{}',  -- the same for what travels upstream
  whole       boolean NOT NULL DEFAULT false,  -- everything of the tenant is
  names       text[],                   -- only these tags, terms or fields; null is all
  cause       text NOT NULL,
  traceparent text NOT NULL DEFAULT '',
  position    bigint NOT NULL,          -- of the fact that asked for it
  size        int NOT NULL,             -- assets in reach, as far as counted
  state       text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done')),
  plans       int NOT NULL DEFAULT 0,
  chunks      int NOT NULL DEFAULT 0,
  changed     int NOT NULL DEFAULT 0,
  created_at  timestamptz NOT NULL,
  finished_at timestamptz,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX propagation_task_open ON propagation_task (tenant, size, created_at)
  WHERE state = 'waiting';
SELECT protect('propagation_task');

-- Counts tables that have doubled since they were counted last. Before the first count the planner
-- takes a whole tenant for one row, and an hour would pass where a second should.
CREATE FUNCTION take_stock() RETURNS int LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = lily, pg_temp AS $$
DECLARE
  grown regclass;
  counted int := 0;
BEGIN
  FOR grown IN
    SELECT c.oid FROM pg_class c
     WHERE c.relnamespace = 'lily'::regnamespace AND c.relkind = 'r'
       AND (c.relname IN ('edge', 'propagated', 'block') OR c.relname LIKE 'asset\_%')
       AND pg_relation_size(c.oid) / current_setting('block_size')::int
           > 2 * greatest(c.relpages, 4)
  LOOP
    EXECUTE format('ANALYZE %s', grown);
    counted := counted + 1;
  END LOOP;
  RETURN counted;
END $$;
REVOKE EXECUTE ON FUNCTION take_stock() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_stock() TO lily_system;

GRANT SELECT ON propagated TO lily_app;
GRANT DELETE ON propagated TO lily_app;  -- with an asset that is purged
GRANT SELECT, INSERT, UPDATE, DELETE ON propagated TO lily_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON block, propagation_rule TO lily_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON block TO lily_system;
GRANT SELECT ON propagation_rule TO lily_system;
GRANT SELECT ON propagation_task TO lily_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON propagation_task TO lily_system;
