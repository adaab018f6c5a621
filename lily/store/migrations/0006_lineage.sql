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
CREATE INDEX edge_implies ON edge (tenant, implies) WHERE implies IS NOT NULL;
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
-- edges imply. An implied edge has the id that it would have if somebody said it. Whoever walks it
-- asks for one node at a time, LATERAL (SELECT … WHERE upstream = … OFFSET 0): a join with the view
-- would work out the whole graph first.
CREATE VIEW live_edge WITH (security_invoker = true) AS
  SELECT e.tenant, e.id, e.upstream, e.downstream, e.type, e.transformation, e.masking,
         false AS implied
    FROM edge e
    JOIN asset u ON u.tenant = e.tenant AND u.guid = e.upstream
     AND u.deleted_by IS NULL AND u.archived_at IS NULL
    JOIN asset d ON d.tenant = e.tenant AND d.guid = e.downstream
     AND d.deleted_by IS NULL AND d.archived_at IS NULL
   WHERE e.deleted_by IS NULL
     AND (e.level = 'table' OR NOT EXISTS (
       SELECT FROM asset t WHERE t.tenant = e.tenant AND t.guid IN (e.up_top, e.down_top)
          AND (t.deleted_by IS NOT NULL OR t.archived_at IS NOT NULL)))
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

-- Walking the graph -----------------------------------------------------------------------------
-- Tables walk over table edges and the implied ones, columns over the edges of columns. `fields`
-- says which; `labels` and `gone` which edges count.

-- A list as rows, of which there may be many: what is joined with it is hashed, never looped over.
CREATE FUNCTION many(list uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql IMMUTABLE ROWS 2000
  AS $$ BEGIN RETURN QUERY SELECT unnest(list); END $$;

-- One step from every node of the frontier, over edges that somebody stated. Both ends still have
-- to be looked at.
CREATE FUNCTION lineage_stated(
  me int, frontier uuid[], down boolean, fields boolean, labels text[], gone boolean
) RETURNS TABLE (node uuid, next uuid, id uuid, implied boolean) LANGUAGE sql STABLE AS $$
  SELECT f, e.downstream, e.id, false
    FROM unnest(frontier) f JOIN lily.edge e ON e.tenant = me AND e.upstream = f
   WHERE down AND (fields OR e.level = 'table') AND (gone OR e.deleted_by IS NULL)
     AND (labels IS NULL OR e.type = ANY (labels))
  UNION ALL
  SELECT f, e.upstream, e.id, false
    FROM unnest(frontier) f JOIN lily.edge e ON e.tenant = me AND e.downstream = f
   WHERE NOT down AND (fields OR e.level = 'table') AND (gone OR e.deleted_by IS NULL)
     AND (labels IS NULL OR e.type = ANY (labels))
$$;

-- Whether any of these tables has columns with edges: most walks can do without the next one.
CREATE FUNCTION has_column_edges(me int, tables uuid[]) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM lily.edge x
                  WHERE x.tenant = me AND x.level = 'column' AND x.up_top = ANY (tables))
      OR EXISTS (SELECT FROM lily.edge x
                  WHERE x.tenant = me AND x.level = 'column' AND x.down_top = ANY (tables))
$$;

-- The same over edges between tables that those of their columns imply.
CREATE FUNCTION lineage_implied(
  me int, frontier uuid[], down boolean, labels text[], gone boolean
) RETURNS TABLE (node uuid, next uuid, id uuid, implied boolean) LANGUAGE sql STABLE AS $$
  SELECT f, p.down_top, c.implies, true
    FROM unnest(frontier) f
   CROSS JOIN LATERAL (SELECT DISTINCT x.down_top, x.type FROM lily.edge x
     WHERE x.tenant = me AND x.up_top = f AND x.level = 'column') p
   CROSS JOIN LATERAL (SELECT x.implies FROM lily.edge x
     WHERE x.tenant = me AND x.up_top = f AND x.down_top = p.down_top AND x.type = p.type
       AND x.level = 'column' AND (gone OR (x.deleted_by IS NULL
       AND EXISTS (SELECT FROM lily.asset a WHERE a.tenant = me AND a.guid = x.upstream
                      AND a.deleted_by IS NULL AND a.archived_at IS NULL)
       AND EXISTS (SELECT FROM lily.asset a WHERE a.tenant = me AND a.guid = x.downstream
                      AND a.deleted_by IS NULL AND a.archived_at IS NULL))) LIMIT 1) c
   WHERE down AND (labels IS NULL OR p.type = ANY (labels))
     AND NOT EXISTS (SELECT FROM lily.edge t WHERE t.tenant = me AND t.id = c.implies
                        AND (gone OR t.deleted_by IS NULL))
  UNION ALL
  SELECT f, p.up_top, c.implies, true
    FROM unnest(frontier) f
   CROSS JOIN LATERAL (SELECT DISTINCT x.up_top, x.type FROM lily.edge x
     WHERE x.tenant = me AND x.down_top = f AND x.level = 'column') p
   CROSS JOIN LATERAL (SELECT x.implies FROM lily.edge x
     WHERE x.tenant = me AND x.down_top = f AND x.up_top = p.up_top AND x.type = p.type
       AND x.level = 'column' AND (gone OR (x.deleted_by IS NULL
       AND EXISTS (SELECT FROM lily.asset a WHERE a.tenant = me AND a.guid = x.upstream
                      AND a.deleted_by IS NULL AND a.archived_at IS NULL)
       AND EXISTS (SELECT FROM lily.asset a WHERE a.tenant = me AND a.guid = x.downstream
                      AND a.deleted_by IS NULL AND a.archived_at IS NULL))) LIMIT 1) c
   WHERE NOT down AND (labels IS NULL OR p.type = ANY (labels))
     AND NOT EXISTS (SELECT FROM lily.edge t WHERE t.tenant = me AND t.id = c.implies
                        AND (gone OR t.deleted_by IS NULL))
$$;

-- Breadth first, each node once, at its least depth. Stops at `most` nodes (then the last row has
-- no guid), and behind the depth `past` as soon as `enough` nodes lie behind it.
CREATE FUNCTION lineage_walk(
  me int, root uuid, down boolean, deepest int, fields boolean, labels text[], gone boolean,
  most int, past int DEFAULT 0, enough int DEFAULT NULL
) RETURNS TABLE (guid uuid, depth int) LANGUAGE plpgsql STABLE ROWS 200
-- Planning anew for each frontier would take ten times as long as the walk itself.
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  seen uuid[] := ARRAY[root];
  frontier uuid[] := ARRAY[root];
  fresh uuid[];
  beyond int := 0;
BEGIN
  RETURN QUERY SELECT root, 0;
  FOR far IN 1..deepest LOOP
    IF fields THEN
      SELECT array_agg(n.guid) INTO fresh FROM (
        SELECT a.guid
          FROM (SELECT s.next FROM lily.lineage_stated(me, frontier, down, true, labels, gone) s
                EXCEPT SELECT unnest(seen)) x
          JOIN lily.asset a ON a.tenant = me AND a.guid = x.next
         WHERE gone OR (a.deleted_by IS NULL AND a.archived_at IS NULL
           AND (a.lane = 'core' OR NOT EXISTS (
             SELECT FROM lily.asset p WHERE p.tenant = me AND p.guid = a.parent
                AND p.lane = 'core' AND (p.deleted_by IS NOT NULL OR p.archived_at IS NOT NULL))))
         ORDER BY a.guid LIMIT most - cardinality(seen) + 1) n;
    ELSIF lily.has_column_edges(me, frontier) THEN
      SELECT array_agg(n.guid) INTO fresh FROM (
        SELECT a.guid
          FROM ((SELECT s.next FROM lily.lineage_stated(me, frontier, down, false, labels, gone) s
                 UNION
                 SELECT i.next FROM lily.lineage_implied(me, frontier, down, labels, gone) i)
                EXCEPT SELECT unnest(seen)) x
          JOIN lily.asset a ON a.tenant = me AND a.guid = x.next AND a.lane = 'core'
         WHERE gone OR (a.deleted_by IS NULL AND a.archived_at IS NULL)
         ORDER BY a.guid LIMIT most - cardinality(seen) + 1) n;
    ELSE
      SELECT array_agg(n.guid) INTO fresh FROM (
        SELECT a.guid
          FROM (SELECT s.next FROM lily.lineage_stated(me, frontier, down, false, labels, gone) s
                EXCEPT SELECT unnest(seen)) x
          JOIN lily.asset a ON a.tenant = me AND a.guid = x.next AND a.lane = 'core'
         WHERE gone OR (a.deleted_by IS NULL AND a.archived_at IS NULL)
         ORDER BY a.guid LIMIT most - cardinality(seen) + 1) n;
    END IF;
    EXIT WHEN fresh IS NULL;
    IF cardinality(seen) + cardinality(fresh) > most THEN
      RETURN QUERY SELECT unnest(fresh[:most - cardinality(seen)]), far;
      RETURN QUERY SELECT NULL::uuid, far;
      RETURN;
    END IF;
    RETURN QUERY SELECT unnest(fresh), far;
    seen := seen || fresh;
    frontier := fresh;
    IF far > past THEN
      beyond := beyond + cardinality(fresh);
    END IF;
    EXIT WHEN beyond > enough;
  END LOOP;
END $$;

-- One page of the graph around an asset, by depth, then guid; an edge comes with the later of its
-- ends. `more` says that nodes follow, `cut` that the walk hit its limit.
CREATE FUNCTION lineage_page(
  me int, root uuid, up boolean, down boolean, deepest int, fields boolean, labels text[],
  kinds text[], gone boolean, most int, page int, after_depth int, after_guid uuid
) RETURNS TABLE (nodes json, edges json, implied json, more boolean, cut boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  enough int := CASE WHEN kinds IS NULL THEN page END;
  guids uuid[]; depths int[]; ways int[];  -- what is shown, in order, up to the end of the page
  downs uuid[]; ups uuid[];                -- from where the walk went on
  first int; last int;
BEGIN
  WITH w AS MATERIALIZED (
    SELECT d.guid, d.depth, 1 AS way
      FROM lily.lineage_walk(me, root, true, deepest, fields, labels, gone, most,
                             after_depth, enough) d WHERE down
    UNION ALL
    SELECT u.guid, u.depth, 2
      FROM lily.lineage_walk(me, root, false, deepest, fields, labels, gone, most,
                             after_depth, enough) u WHERE up),
  n AS (SELECT w.guid, min(w.depth) AS depth, bit_or(w.way) AS way FROM w
         WHERE w.guid IS NOT NULL GROUP BY w.guid),
  k AS (SELECT n.* FROM n
         WHERE kinds IS NULL OR n.depth = 0 OR EXISTS (
           SELECT FROM lily.asset a WHERE a.tenant = me AND a.guid = n.guid
              AND a.asset_type = ANY (kinds)))
  SELECT array_agg(k.guid ORDER BY k.depth, k.guid), array_agg(k.depth ORDER BY k.depth, k.guid),
         array_agg(k.way ORDER BY k.depth, k.guid),
         (SELECT array_agg(w.guid) FROM w WHERE w.way = 1 AND w.depth < deepest
             AND w.guid IS NOT NULL),
         (SELECT array_agg(w.guid) FROM w WHERE w.way = 2 AND w.depth < deepest
             AND w.guid IS NOT NULL),
         EXISTS (SELECT FROM w WHERE w.guid IS NULL),
         count(*) FILTER (WHERE (k.depth, k.guid) <= (after_depth, after_guid)) + 1
    INTO guids, depths, ways, downs, ups, cut, first FROM k;
  last := first + page - 1;
  more := cardinality(guids) > last;
  guids := guids[:last];
  SELECT coalesce(json_agg(json_build_array(a.caller_id, a.guid, a.qualified_name, a.asset_name,
           a.asset_type, depths[i], ways[i], a.tags, a.deleted_by IS NOT NULL,
           CASE WHEN a.layers & 16 = 0 THEN NULL WHEN EXISTS (
             SELECT FROM lily.incident n WHERE n.tenant = me AND n.guid = a.guid
              AND n.state IN ('open', 'acknowledged') AND n.severity IN ('critical', 'high'))
           THEN 'failing' ELSE 'degraded' END) ORDER BY i), '[]')
    INTO nodes
    FROM generate_series(first, cardinality(guids)) i
    JOIN lily.asset a ON a.tenant = me AND a.guid = guids[i];
  WITH s AS MATERIALIZED (
    SELECT d.node AS up, d.next AS down, d.id
      FROM lily.lineage_stated(me, downs, true, fields, labels, gone) d
    UNION
    SELECT u.next, u.node, u.id
      FROM lily.lineage_stated(me, ups, false, fields, labels, gone) u),
  v AS MATERIALIZED (SELECT m.g, m.n FROM lily.many(guids) WITH ORDINALITY AS m (g, n))
  SELECT coalesce(json_agg(json_build_array(e.id, e.upstream, e.downstream, false, e.type, e.level,
           e.process, e.transformation, e.masking, e.origin, e.properties, e.source, e.deleted_by,
           e.updated_at) ORDER BY e.upstream, e.downstream, e.id), '[]')
    INTO edges
    FROM s JOIN v x ON x.g = s.up JOIN v y ON y.g = s.down
    JOIN lily.edge e ON e.tenant = me AND e.id = s.id
   WHERE greatest(x.n, y.n) >= first;
  IF NOT fields AND lily.has_column_edges(me, downs || ups) THEN
    WITH s AS MATERIALIZED (
      SELECT d.node AS up, d.next AS down, d.id
        FROM lily.lineage_implied(me, downs, true, labels, gone) d
      UNION
      SELECT u.next, u.node, u.id FROM lily.lineage_implied(me, ups, false, labels, gone) u),
    v AS MATERIALIZED (SELECT m.g, m.n FROM lily.many(guids) WITH ORDINALITY AS m (g, n))
    SELECT coalesce(json_agg(json_build_array(s.id, s.up, s.down, true,
             (SELECT c.type FROM lily.edge c WHERE c.tenant = me AND c.implies = s.id LIMIT 1),
             NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
             ORDER BY s.up, s.down, s.id), '[]')
      INTO implied
      FROM s JOIN v x ON x.g = s.up JOIN v y ON y.g = s.down
     WHERE greatest(x.n, y.n) >= first;
  END IF;
  RETURN NEXT;
END $$;

-- What a crawl sees beside assets: an edge, as the observation that ends it.
ALTER TABLE crawl_seen ADD COLUMN edge text;

GRANT SELECT, INSERT, UPDATE ON edge, edge_claim, lineage_job TO lily_app, lily_system;
GRANT DELETE ON edge, edge_claim, lineage_job TO lily_system;
GRANT SELECT, INSERT, UPDATE ON run TO lily_app, lily_system;
GRANT DELETE ON run TO lily_system;
GRANT SELECT ON live_edge TO lily_app, lily_system;
