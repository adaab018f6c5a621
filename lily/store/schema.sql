-- What the migrations add up to. Written by `make schema`; never run.

CREATE SCHEMA lily;

ALTER SCHEMA lily OWNER TO lily_owner;

CREATE FUNCTION lily.assets_named(its_tenant integer, wanted tsquery, most integer) RETURNS TABLE(guid uuid, qualified_name text, asset_type text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    SET random_page_cost TO '1.1'
    SET jit TO 'off'
    AS $$
BEGIN
  IF its_tenant IS DISTINCT FROM nullif(current_setting('lily.tenant', true), '')::int
     AND its_tenant <> ALL (coalesce(nullif(current_setting('lily.tenants', true), ''), '{}')::int[])
  THEN
    RAISE EXCEPTION 'not bound to this tenant';
  END IF;
  RETURN QUERY SELECT a.guid, a.qualified_name, a.asset_type FROM asset a
    WHERE a.tenant = its_tenant AND a.lane = 'core' AND a.search @@ wanted
      AND a.deleted_by IS NULL AND a.archived_at IS NULL LIMIT most;
END $$;

ALTER FUNCTION lily.assets_named(its_tenant integer, wanted tsquery, most integer) OWNER TO lily_owner;

CREATE FUNCTION lily.bearing(tags text[]) RETURNS TABLE(guid uuid)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
  SELECT a.guid FROM asset a
   WHERE a.tenant = ANY (lily.bound()) AND cardinality(tags) > 0
     AND a.search @@ (SELECT string_agg(quote_literal('=tag:' || lower(t)), ' | ')
                        FROM unnest(tags) t)::tsquery
  UNION  -- what is not shown because another tag of its group is
  SELECT a.guid FROM asset a
   WHERE a.tenant = ANY (lily.bound()) AND a.own_tags IS NOT NULL AND a.own_tags && tags
$$;

ALTER FUNCTION lily.bearing(tags text[]) OWNER TO lily_owner;

CREATE FUNCTION lily.bound() RETURNS integer[]
    LANGUAGE sql STABLE
    AS $$
  SELECT CASE WHEN coalesce(current_setting('lily.tenants', true), '') <> ''
    THEN lily.tenants() ELSE ARRAY[lily.tenant()] END
$$;

ALTER FUNCTION lily.bound() OWNER TO lily_owner;

CREATE FUNCTION lily.fields_waiting(container text, most integer) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
  SELECT count(*)
    FROM (SELECT x.tenant, x.key FROM log x, applied a
           WHERE x.lane = 'fields' AND a.lane = 'fields' AND a.part = 0
             AND x."offset" > a.position
           ORDER BY x."offset" LIMIT most) l
   WHERE l.tenant = lily.tenant() AND starts_with(l.key, container || '#')
$$;

ALTER FUNCTION lily.fields_waiting(container text, most integer) OWNER TO lily_owner;

CREATE FUNCTION lily.halt(phase text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF phase = 'gone' THEN
    RAISE EXCEPTION 'the tenant has moved' USING ERRCODE = 'read_only_sql_transaction';
  END IF;
  RETURN set_config('transaction_read_only', 'on', true);
END $$;

ALTER FUNCTION lily.halt(phase text) OWNER TO lily_owner;

CREATE FUNCTION lily.has_column_edges(me integer, tables uuid[]) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
  SELECT EXISTS (SELECT FROM lily.edge x
                  WHERE x.tenant = me AND x.level = 'column' AND x.up_top = ANY (tables))
      OR EXISTS (SELECT FROM lily.edge x
                  WHERE x.tenant = me AND x.level = 'column' AND x.down_top = ANY (tables))
$$;

ALTER FUNCTION lily.has_column_edges(me integer, tables uuid[]) OWNER TO lily_owner;

CREATE TABLE lily.identity_provider (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    issuer text NOT NULL,
    audience text NOT NULL,
    client_id text DEFAULT ''::text NOT NULL,
    secret bytea,
    groups_claim text DEFAULT 'groups'::text NOT NULL,
    name_claim text DEFAULT 'sub'::text NOT NULL,
    roles jsonb NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.identity_provider FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.identity_provider OWNER TO lily_owner;

CREATE FUNCTION lily.identity_providers(its_issuer text) RETURNS SETOF lily.identity_provider
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
  SELECT * FROM identity_provider WHERE issuer = its_issuer AND enabled ORDER BY tenant, id LIMIT 50
$$;

ALTER FUNCTION lily.identity_providers(its_issuer text) OWNER TO lily_owner;

CREATE FUNCTION lily.lanes_behind(most integer) RETURNS TABLE(lane text, "position" bigint, applied_at timestamp with time zone, newest timestamp with time zone, waiting bigint, oldest timestamp with time zone, own_newest timestamp with time zone, own_waiting bigint, own_oldest timestamp with time zone)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
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

ALTER FUNCTION lily.lanes_behind(most integer) OWNER TO lily_owner;

CREATE FUNCTION lily.lineage_implied(me integer, frontier uuid[], down boolean, labels text[], gone boolean) RETURNS TABLE(node uuid, next uuid, id uuid, implied boolean)
    LANGUAGE sql STABLE
    AS $$
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

ALTER FUNCTION lily.lineage_implied(me integer, frontier uuid[], down boolean, labels text[], gone boolean) OWNER TO lily_owner;

CREATE FUNCTION lily.lineage_page(me integer, root uuid, up boolean, down boolean, deepest integer, fields boolean, labels text[], kinds text[], gone boolean, most integer, page integer, after_depth integer, after_guid uuid) RETURNS TABLE(nodes json, edges json, implied json, more boolean, cut boolean)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
#variable_conflict use_column
DECLARE
  enough int := CASE WHEN kinds IS NULL AND NOT (up AND down) THEN page END;
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
    CROSS JOIN LATERAL (
      SELECT x.caller_id, x.guid, x.qualified_name, x.asset_name, x.asset_type, x.tags, x.deleted_by,
             x.layers
        FROM lily.asset x WHERE x.tenant = me AND x.guid = guids[i] OFFSET 0) a;
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

ALTER FUNCTION lily.lineage_page(me integer, root uuid, up boolean, down boolean, deepest integer, fields boolean, labels text[], kinds text[], gone boolean, most integer, page integer, after_depth integer, after_guid uuid) OWNER TO lily_owner;

CREATE FUNCTION lily.lineage_stated(me integer, frontier uuid[], down boolean, fields boolean, labels text[], gone boolean) RETURNS TABLE(node uuid, next uuid, id uuid, implied boolean)
    LANGUAGE sql STABLE
    AS $$
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

ALTER FUNCTION lily.lineage_stated(me integer, frontier uuid[], down boolean, fields boolean, labels text[], gone boolean) OWNER TO lily_owner;

CREATE FUNCTION lily.lineage_walk(me integer, root uuid, down boolean, deepest integer, fields boolean, labels text[], gone boolean, most integer, past integer DEFAULT 0, enough integer DEFAULT NULL::integer) RETURNS TABLE(guid uuid, depth integer)
    LANGUAGE plpgsql STABLE ROWS 200
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
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

ALTER FUNCTION lily.lineage_walk(me integer, root uuid, down boolean, deepest integer, fields boolean, labels text[], gone boolean, most integer, past integer, enough integer) OWNER TO lily_owner;

CREATE FUNCTION lily.many(list uuid[]) RETURNS SETOF uuid
    LANGUAGE plpgsql IMMUTABLE ROWS 2000
    AS $$ BEGIN RETURN QUERY SELECT unnest(list); END $$;

ALTER FUNCTION lily.many(list uuid[]) OWNER TO lily_owner;

CREATE FUNCTION lily.protect(name regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', name);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', name);
  EXECUTE format('CREATE POLICY app ON %s TO lily_app
    USING (tenant = (SELECT lily.tenant())) WITH CHECK (tenant = (SELECT lily.tenant()))', name);
  EXECUTE format('CREATE POLICY system ON %s TO lily_system
    USING (tenant = ANY ((SELECT lily.tenants())::int[]))
    WITH CHECK (tenant = ANY ((SELECT lily.tenants())::int[]))', name);
  -- Search functions run as the owner and read the tenant themselves (see 0002).
  EXECUTE format('CREATE POLICY owner ON %s TO lily_owner USING (true) WITH CHECK (true)', name);
END $$;

ALTER FUNCTION lily.protect(name regclass) OWNER TO lily_owner;

CREATE FUNCTION lily.reached(reach jsonb, its_guid text, its_type text, chain text[], its_tags text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
  SELECT coalesce((reach -> 'everything')::boolean, false)
      OR reach -> 'assets' ? its_guid
      OR reach -> 'types' ? its_type
      OR reach -> 'under' ?| chain
      OR reach -> 'tags' ?| its_tags
$$;

ALTER FUNCTION lily.reached(reach jsonb, its_guid text, its_type text, chain text[], its_tags text[]) OWNER TO lily_owner;

CREATE FUNCTION lily.reserve_offsets(lines bigint, OUT core bigint, OUT fields bigint) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(7106407);  -- FENCE in log/postgres.py
  core := nextval('log_core_offset');
  fields := nextval('log_fields_offset');
  PERFORM setval('log_core_offset', core + lines), setval('log_fields_offset', fields + lines);
END $$;

ALTER FUNCTION lily.reserve_offsets(lines bigint, OUT core bigint, OUT fields bigint) OWNER TO lily_owner;

CREATE FUNCTION lily.search(wanted tsquery, exact tsquery, in_name tsquery, in_path tsquery, since timestamp with time zone, shown text, after_mode text, after_rank integer, after_name text, after_guid uuid, page integer, OUT mode text, OUT total integer, OUT total_is_exact boolean, OUT facets jsonb, OUT ranks integer[], OUT names text[], OUT guids uuid[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    SET random_page_cost TO '1.1'
    SET jit TO 'off'
    AS $_$
DECLARE
  ranked_most CONSTANT int := 2000;
  counted CONSTANT int := 1000;
  condition text := lily.search_condition(wanted, since, shown);
  most int := counted;
  beyond uuid := '00000000-0000-0000-0000-000000000000';
  nobody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
  section int;
  named boolean;
  step uuid[];
BEGIN
  IF after_mode = 'ranked' THEN
    most := 1000000;
  ELSIF after_mode IS NULL
    AND lily.search_estimate(condition, wanted, since) < ranked_most THEN
    most := ranked_most;
  END IF;
  -- Rank = 2 * how well it matches + lane; only worked out where all matches are at hand.
  EXECUTE format($sql$
    WITH hit AS MATERIALIZED (
      SELECT a.guid, a.lane, a.asset_name, a.asset_type, a.asset_owner, a.data_source, a.tags,
             a.search
        FROM asset a WHERE %s LIMIT %s),
    sample AS (SELECT asset_type, asset_owner, data_source, tags FROM hit LIMIT %s),
    value AS (
      SELECT 'asset_type' AS kind, asset_type AS value, count(*) AS n FROM sample GROUP BY 2
      UNION ALL SELECT 'data_source', data_source, count(*) FROM sample
        WHERE data_source IS NOT NULL GROUP BY 2
      UNION ALL SELECT 'owner', asset_owner, count(*) FROM sample
        WHERE asset_owner IS NOT NULL GROUP BY 2
      UNION ALL SELECT 'tag', t, count(*) FROM sample, unnest(tags) t GROUP BY 2),
    top AS (
      SELECT *, row_number() OVER (PARTITION BY kind ORDER BY n DESC, value COLLATE "C") AS place
        FROM value),
    facet AS (
      SELECT kind, jsonb_object_agg(value, n) AS counts FROM top WHERE place <= 50 GROUP BY kind),
    ranked AS (
      SELECT guid, left(asset_name, 200) COLLATE "C" AS name,
             (lane = 'fields')::int + 2 * CASE WHEN $5 IS NULL THEN 0
               WHEN search @@ $4 THEN 0 WHEN search @@ $5 THEN 1
               WHEN search @@ $6 THEN 2 ELSE 3 END AS rank
        FROM hit WHERE (SELECT count(*) FROM hit) <= %s),
    page AS (
      SELECT rank, name, guid FROM ranked
       WHERE $7 IS NULL OR (rank, name, guid) > ($7, $8 COLLATE "C", $9)
       ORDER BY rank, name, guid LIMIT $10)
    SELECT (SELECT count(*) FROM hit),
           (SELECT coalesce(jsonb_object_agg(kind, counts), '{}') FROM facet),
           (SELECT array_agg(rank ORDER BY rank, name, guid) FROM page),
           (SELECT array_agg(name ORDER BY rank, name, guid) FROM page),
           (SELECT array_agg(guid ORDER BY rank, name, guid) FROM page)
  $sql$, condition, most + 1, counted, most)
    INTO total, facets, ranks, names, guids
    USING lily.tenant(), wanted, since, exact, in_name, in_path,
          CASE WHEN after_mode = 'ranked' THEN after_rank END, after_name, after_guid, page;
  total_is_exact := total <= most;
  IF after_mode IS DISTINCT FROM 'listed' AND total_is_exact THEN
    mode := 'ranked';
    RETURN;
  END IF;
  mode := 'listed';
  ranks := '{}'; names := '{}'; guids := '{}';
  IF exact IS NOT NULL THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM asset a WHERE %s)', condition)
      INTO named USING lily.tenant(), exact, since;
    exact := CASE WHEN named THEN exact END;
  END IF;
  -- Sections: exact names in core, in fields, then the rest of core, of fields.
  FOR section IN SELECT generate_series(coalesce(after_rank, 0), 3) LOOP
    CONTINUE WHEN section < 2 AND exact IS NULL;
    beyond := CASE WHEN section = after_rank THEN after_guid ELSE nobody END;
    step := array(SELECT lily.search_section(
      condition, CASE section % 2 WHEN 0 THEN 'core' ELSE 'fields' END,
      CASE WHEN section < 2 THEN exact
           WHEN exact IS NOT NULL THEN wanted && !!exact ELSE wanted END,
      since, beyond, page - cardinality(guids)));
    ranks := ranks || array_fill(section, ARRAY[cardinality(step)]);
    guids := guids || step;
    EXIT WHEN cardinality(guids) >= page;
  END LOOP;
END $_$;

ALTER FUNCTION lily.search(wanted tsquery, exact tsquery, in_name tsquery, in_path tsquery, since timestamp with time zone, shown text, after_mode text, after_rank integer, after_name text, after_guid uuid, page integer, OUT mode text, OUT total integer, OUT total_is_exact boolean, OUT facets jsonb, OUT ranks integer[], OUT names text[], OUT guids uuid[]) OWNER TO lily_owner;

CREATE FUNCTION lily.search_condition(wanted tsquery, since timestamp with time zone, shown text) RETURNS text
    LANGUAGE sql STABLE
    AS $_$
  SELECT 'a.tenant = $1'
    || CASE WHEN wanted IS NULL THEN '' ELSE ' AND a.search @@ $2' END
    || CASE WHEN since IS NULL THEN '' ELSE ' AND a.updated_at >= $3' END
    || CASE shown
       WHEN 'live' THEN ' AND a.deleted_by IS NULL AND a.archived_at IS NULL
         AND NOT EXISTS (SELECT FROM asset p WHERE p.tenant = $1 AND p.lane = ''core''
           AND p.guid = a.parent AND a.lane = ''fields''
           AND (p.deleted_by IS NOT NULL OR p.archived_at IS NOT NULL))'
       WHEN 'gone' THEN ' AND a.guid IN (
         SELECT d.guid FROM asset d WHERE d.tenant = $1 AND d.deleted_by IS NOT NULL
         UNION ALL
         SELECT c.guid FROM asset p JOIN asset c
             ON c.tenant = $1 AND c.parent = p.guid AND c.lane = ''fields''
          WHERE p.tenant = $1 AND p.lane = ''core'' AND p.deleted_by IS NOT NULL)'
       ELSE ' AND (a.archived_at IS NULL OR a.deleted_by IS NOT NULL)
         AND NOT EXISTS (SELECT FROM asset p WHERE p.tenant = $1 AND p.lane = ''core''
           AND p.guid = a.parent AND a.lane = ''fields''
           AND p.deleted_by IS NULL AND p.archived_at IS NOT NULL)'
       END
    || CASE WHEN sees_everything() THEN '' ELSE ' AND visible(a.tenant, a.guid, a.asset_type,
         a.parent, a.tags || coalesce(a.own_tags, ''{}''))' END
$_$;

ALTER FUNCTION lily.search_condition(wanted tsquery, since timestamp with time zone, shown text) OWNER TO lily_owner;

CREATE FUNCTION lily.search_estimate(condition text, wanted tsquery, since timestamp with time zone) RETURNS double precision
    LANGUAGE plpgsql
    AS $$
DECLARE plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) SELECT FROM asset a WHERE ' || condition
    INTO plan USING lily.tenant(), wanted, since;
  RETURN (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float;
END $$;

ALTER FUNCTION lily.search_estimate(condition text, wanted tsquery, since timestamp with time zone) OWNER TO lily_owner;

CREATE FUNCTION lily.search_section(condition text, its_lane text, wanted tsquery, since timestamp with time zone, beyond uuid, page integer) RETURNS SETOF uuid
    LANGUAGE plpgsql
    AS $_$
DECLARE
  budget CONSTANT int := 5000;
  many CONSTANT int := 20000;
  place text := condition || format(' AND a.lane = %L', its_lane);
  ahead text := ' AND a.guid > $4';
  matching float := lily.search_estimate(place, wanted, since);
  rows float := lily.search_estimate(format('a.tenant = $1 AND a.lane = %L', its_lane), null, null);
  walk float := page * rows / greatest(matching, 1);  -- how far until a page is full
  found uuid[];
BEGIN
  IF walk < least(matching, budget) THEN
    EXECUTE format(
      'SELECT array(SELECT a.guid FROM (SELECT * FROM asset w WHERE w.tenant = $1
         AND w.lane = %L AND w.guid > $4 ORDER BY w.guid LIMIT %s) a
        WHERE %s ORDER BY a.guid LIMIT $5)', its_lane, budget, condition)
      INTO found USING lily.tenant(), wanted, since, beyond, page;
    IF cardinality(found) = page THEN
      RETURN QUERY SELECT unnest(found);
      RETURN;
    END IF;
  END IF;
  EXECUTE format('SELECT array(SELECT a.guid FROM asset a WHERE %s LIMIT %s)', place, many + 1)
    INTO found USING lily.tenant(), wanted, since;
  IF cardinality(found) <= many THEN
    RETURN QUERY SELECT g FROM unnest(found) g WHERE g > beyond ORDER BY g LIMIT page;
  ELSE
    RETURN QUERY EXECUTE format(
      'SELECT a.guid FROM asset a WHERE %s ORDER BY a.guid LIMIT $5', place || ahead)
      USING lily.tenant(), wanted, since, beyond, page;
  END IF;
END $_$;

ALTER FUNCTION lily.search_section(condition text, its_lane text, wanted tsquery, since timestamp with time zone, beyond uuid, page integer) OWNER TO lily_owner;

CREATE FUNCTION lily.sees_everything() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT coalesce(current_setting('lily.sight', true), '') = '' $$;

ALTER FUNCTION lily.sees_everything() OWNER TO lily_owner;

CREATE FUNCTION lily.take_stock() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
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

ALTER FUNCTION lily.take_stock() OWNER TO lily_owner;

CREATE FUNCTION lily.tenant() RETURNS integer
    LANGUAGE sql STABLE
    AS $$ SELECT current_setting('lily.tenant')::int $$;

ALTER FUNCTION lily.tenant() OWNER TO lily_owner;

CREATE FUNCTION lily.tenants() RETURNS integer[]
    LANGUAGE sql STABLE
    AS $$ SELECT current_setting('lily.tenants')::int[] $$;

ALTER FUNCTION lily.tenants() OWNER TO lily_owner;

CREATE FUNCTION lily.tidy_search() RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
  SELECT coalesce(sum(gin_clean_pending_list(s.relid)), 0)
    FROM pg_partition_tree('asset_search') s
    JOIN pg_index i ON i.indexrelid = s.relid
    JOIN pg_partition_tree('asset_core') t ON t.relid = i.indrelid
   WHERE s.isleaf
$$;

ALTER FUNCTION lily.tidy_search() OWNER TO lily_owner;

CREATE FUNCTION lily.veil(name regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  EXECUTE format('CREATE POLICY sight ON %s AS RESTRICTIVE FOR SELECT TO lily_app
    USING ((SELECT lily.sees_everything()) OR guid IS NULL OR lily.visible(tenant, guid))', name);
END $$;

ALTER FUNCTION lily.veil(name regclass) OWNER TO lily_owner;

CREATE FUNCTION lily.visible(its_tenant integer, its_guid uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
  SELECT coalesce((
    SELECT visible(a.tenant, a.guid, a.asset_type, a.parent, a.tags || coalesce(a.own_tags, '{}'))
      FROM asset a WHERE a.tenant = its_tenant AND a.guid = its_guid LIMIT 1), false)
$$;

ALTER FUNCTION lily.visible(its_tenant integer, its_guid uuid) OWNER TO lily_owner;

CREATE FUNCTION lily.visible(its_tenant integer, its_guid uuid, its_type text, its_parent uuid, its_tags text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
DECLARE
  sight CONSTANT jsonb := current_setting('lily.sight');
  chain text[] := ARRAY[its_guid::text];
  tags text[] := its_tags;
  above uuid := its_parent;
  level record;
BEGIN
  FOR step IN 1..32 LOOP
    EXIT WHEN above IS NULL OR above::text = ANY (chain);
    chain := chain || above::text;
    SELECT a.parent, a.tags || coalesce(a.own_tags, '{}') AS tags INTO level
      FROM asset a WHERE a.tenant = its_tenant AND a.guid = above LIMIT 1;
    EXIT WHEN NOT FOUND;
    tags := tags || level.tags;
    above := level.parent;
  END LOOP;
  RETURN reached(sight -> 'allowed', its_guid::text, its_type, chain, tags)
     AND NOT reached(sight -> 'denied', its_guid::text, its_type, chain, tags);
END $$;

ALTER FUNCTION lily.visible(its_tenant integer, its_guid uuid, its_type text, its_parent uuid, its_tags text[]) OWNER TO lily_owner;

CREATE FUNCTION lily.webhook_claims(its_plugin text, its_account text) RETURNS TABLE(tenant integer, connection uuid)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'lily', 'pg_temp'
    AS $$
  SELECT c.tenant, c.connection FROM webhook_claim c
   WHERE c.plugin = its_plugin AND c.account = its_account ORDER BY c.tenant, c.connection LIMIT 50
$$;

ALTER FUNCTION lily.webhook_claims(its_plugin text, its_account text) OWNER TO lily_owner;

CREATE TABLE lily.applied (
    lane text NOT NULL,
    part integer DEFAULT 0 NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    batch uuid,
    at timestamp with time zone DEFAULT now() NOT NULL,
    observed timestamp with time zone,
    epoch bigint DEFAULT 0 NOT NULL
);

ALTER TABLE lily.applied OWNER TO lily_owner;

CREATE TABLE lily.archived (
    lane text NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE lily.archived OWNER TO lily_owner;

CREATE TABLE lily.asset (
    tenant integer NOT NULL,
    lane text NOT NULL,
    guid uuid NOT NULL,
    qualified_name text NOT NULL,
    caller_id text,
    asset_name text NOT NULL,
    asset_type text NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    details jsonb,
    version integer NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    feed_position bigint NOT NULL,
    cause text NOT NULL,
    source text NOT NULL,
    log_offset bigint NOT NULL,
    layers smallint DEFAULT 0 NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector NOT NULL,
    own_tags text[],
    own_terms text[]
)
PARTITION BY LIST (lane);

ALTER TABLE ONLY lily.asset FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset OWNER TO lily_owner;

CREATE TABLE lily.asset_alias (
    tenant integer NOT NULL,
    alias text NOT NULL,
    guid uuid NOT NULL
);

ALTER TABLE ONLY lily.asset_alias FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_alias OWNER TO lily_owner;

CREATE TABLE lily.asset_core (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
PARTITION BY HASH (guid);

ALTER TABLE ONLY lily.asset_core FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_core OWNER TO lily_owner;

CREATE TABLE lily.asset_core_0 (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
WITH (toast_tuple_target='4080', autovacuum_analyze_scale_factor='0.2', autovacuum_vacuum_threshold='100000', autovacuum_vacuum_insert_threshold='200000');
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN tenant SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN lane SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN guid SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN qualified_name SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN caller_id SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN asset_name SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN asset_type SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN asset_owner SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN parent SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN data_source SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN external_id SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN tags SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN business_terms SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN details SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN version SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN deleted_by SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN deleted_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN archived_at SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN expires_at SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN created_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN updated_at SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN observed_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN applied_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN feed_position SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN source SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN log_offset SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN layers SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN statement SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN edited SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN search SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN own_tags SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_0 ALTER COLUMN own_terms SET STATISTICS 20;

ALTER TABLE ONLY lily.asset_core_0 FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_core_0 OWNER TO lily_owner;

CREATE TABLE lily.asset_core_1 (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
WITH (toast_tuple_target='4080', autovacuum_analyze_scale_factor='0.2', autovacuum_vacuum_threshold='100000', autovacuum_vacuum_insert_threshold='200000');
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN tenant SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN lane SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN guid SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN qualified_name SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN caller_id SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN asset_name SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN asset_type SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN asset_owner SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN parent SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN data_source SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN external_id SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN tags SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN business_terms SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN details SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN version SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN deleted_by SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN deleted_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN archived_at SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN expires_at SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN created_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN updated_at SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN observed_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN applied_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN feed_position SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN source SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN log_offset SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN layers SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN statement SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN edited SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN search SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN own_tags SET STATISTICS 20;
ALTER TABLE ONLY lily.asset_core_1 ALTER COLUMN own_terms SET STATISTICS 20;

ALTER TABLE ONLY lily.asset_core_1 FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_core_1 OWNER TO lily_owner;

CREATE TABLE lily.asset_fields (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
PARTITION BY HASH (guid);

ALTER TABLE ONLY lily.asset_fields FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields OWNER TO lily_owner;

CREATE TABLE lily.asset_fields_0 (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
WITH (autovacuum_analyze_scale_factor='0.2');
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN details SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN deleted_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN created_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN observed_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN applied_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN log_offset SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN statement SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_0 ALTER COLUMN edited SET STATISTICS 0;

ALTER TABLE ONLY lily.asset_fields_0 FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_0 OWNER TO lily_owner;

CREATE TABLE lily.asset_fields_1 (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
WITH (autovacuum_analyze_scale_factor='0.2');
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN details SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN deleted_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN created_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN observed_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN applied_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN log_offset SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN statement SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_1 ALTER COLUMN edited SET STATISTICS 0;

ALTER TABLE ONLY lily.asset_fields_1 FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_1 OWNER TO lily_owner;

CREATE TABLE lily.asset_fields_2 (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
WITH (autovacuum_analyze_scale_factor='0.2');
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN details SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN deleted_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN created_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN observed_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN applied_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN log_offset SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN statement SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_2 ALTER COLUMN edited SET STATISTICS 0;

ALTER TABLE ONLY lily.asset_fields_2 FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_2 OWNER TO lily_owner;

CREATE TABLE lily.asset_fields_3 (
    tenant integer CONSTRAINT asset_tenant_not_null NOT NULL,
    lane text CONSTRAINT asset_lane_not_null NOT NULL,
    guid uuid CONSTRAINT asset_guid_not_null NOT NULL,
    qualified_name text CONSTRAINT asset_qualified_name_not_null NOT NULL,
    caller_id text,
    asset_name text CONSTRAINT asset_asset_name_not_null NOT NULL,
    asset_type text CONSTRAINT asset_asset_type_not_null NOT NULL,
    asset_owner text,
    description text,
    parent uuid,
    data_source text,
    external_id text,
    tags text[] DEFAULT '{}'::text[] CONSTRAINT asset_tags_not_null NOT NULL,
    business_terms text[] DEFAULT '{}'::text[] CONSTRAINT asset_business_terms_not_null NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb CONSTRAINT asset_metadata_not_null NOT NULL,
    details jsonb,
    version integer CONSTRAINT asset_version_not_null NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    archived_at timestamp with time zone,
    expires_at timestamp with time zone,
    created_at timestamp with time zone CONSTRAINT asset_created_at_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT asset_updated_at_not_null NOT NULL,
    observed_at timestamp with time zone CONSTRAINT asset_observed_at_not_null NOT NULL,
    applied_at timestamp with time zone CONSTRAINT asset_applied_at_not_null NOT NULL,
    feed_position bigint CONSTRAINT asset_feed_position_not_null NOT NULL,
    cause text CONSTRAINT asset_cause_not_null NOT NULL,
    source text CONSTRAINT asset_source_not_null NOT NULL,
    log_offset bigint CONSTRAINT asset_log_offset_not_null NOT NULL,
    layers smallint DEFAULT 0 CONSTRAINT asset_layers_not_null NOT NULL,
    statement jsonb,
    edited jsonb,
    search tsvector CONSTRAINT asset_search_not_null NOT NULL,
    own_tags text[],
    own_terms text[]
)
WITH (autovacuum_analyze_scale_factor='0.2');
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN metadata SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN details SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN deleted_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN created_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN observed_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN applied_at SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN log_offset SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN statement SET STATISTICS 0;
ALTER TABLE ONLY lily.asset_fields_3 ALTER COLUMN edited SET STATISTICS 0;

ALTER TABLE ONLY lily.asset_fields_3 FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_3 OWNER TO lily_owner;

CREATE TABLE lily.asset_source (
    tenant integer NOT NULL,
    guid uuid NOT NULL,
    source text NOT NULL,
    statement jsonb NOT NULL
);

ALTER TABLE ONLY lily.asset_source FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_source OWNER TO lily_owner;

CREATE TABLE lily.block (
    tenant integer NOT NULL,
    edge uuid NOT NULL,
    name text NOT NULL,
    origin text NOT NULL,
    by text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    at timestamp with time zone NOT NULL,
    lifted boolean DEFAULT false NOT NULL,
    CONSTRAINT block_origin_check CHECK ((origin = ANY (ARRAY['person'::text, 'rule'::text])))
);

ALTER TABLE ONLY lily.block FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.block OWNER TO lily_owner;

CREATE TABLE lily.cell (
    name text NOT NULL,
    url bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE lily.cell OWNER TO lily_owner;

CREATE TABLE lily.channel_token (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    sealed bytea,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.channel_token FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.channel_token OWNER TO lily_owner;

CREATE TABLE lily.circle (
    tenant integer NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    members text[] DEFAULT '{}'::text[] NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT circle_kind_check CHECK ((kind = ANY (ARRAY['group'::text, 'role'::text])))
);

ALTER TABLE ONLY lily.circle FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.circle OWNER TO lily_owner;

CREATE TABLE lily.connection (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    plugin text NOT NULL,
    uses text[] NOT NULL,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    secrets bytea,
    schedule text,
    ordinal integer DEFAULT 0 NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.connection FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.connection OWNER TO lily_owner;

CREATE TABLE lily.consumer (
    name text NOT NULL,
    tenant integer NOT NULL,
    "position" bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY lily.consumer FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.consumer OWNER TO lily_owner;

CREATE TABLE lily.crawl_capture (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    revision bigint NOT NULL,
    plugin text NOT NULL,
    options jsonb NOT NULL,
    secrets bytea,
    cursor jsonb,
    worker uuid,
    beat_at timestamp with time zone,
    error text DEFAULT ''::text NOT NULL
);

ALTER TABLE ONLY lily.crawl_capture FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_capture OWNER TO lily_owner;

CREATE TABLE lily.crawl_run (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    number bigint NOT NULL,
    connection uuid NOT NULL,
    state text NOT NULL,
    cause text NOT NULL,
    by text NOT NULL,
    scope text,
    attempt integer DEFAULT 0 NOT NULL,
    not_before timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    beat_at timestamp with time zone,
    worker uuid,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL,
    cursor jsonb,
    error text DEFAULT ''::text NOT NULL,
    CONSTRAINT crawl_run_cause_check CHECK ((cause = ANY (ARRAY['schedule'::text, 'request'::text, 'capture'::text]))),
    CONSTRAINT crawl_run_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'partial'::text, 'failed'::text, 'cancelled'::text])))
);

ALTER TABLE ONLY lily.crawl_run FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_run OWNER TO lily_owner;

ALTER TABLE lily.crawl_run ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.crawl_run_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.crawl_seen (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    guid uuid NOT NULL,
    run bigint NOT NULL,
    hash bytea NOT NULL,
    qualified_name text NOT NULL,
    edge text
)
WITH (fillfactor='60');

ALTER TABLE ONLY lily.crawl_seen FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_seen OWNER TO lily_owner;

CREATE TABLE lily.crawl_state (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    schedule text NOT NULL,
    due_at timestamp with time zone,
    pass bigint,
    cursor jsonb
);

ALTER TABLE ONLY lily.crawl_state FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_state OWNER TO lily_owner;

CREATE TABLE lily.dead_letter (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    cause text NOT NULL,
    lane text NOT NULL,
    log_offset bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    stage text NOT NULL,
    plugin text DEFAULT ''::text NOT NULL,
    reason text NOT NULL,
    key text DEFAULT ''::text NOT NULL,
    source text DEFAULT ''::text NOT NULL,
    raw text NOT NULL,
    state text DEFAULT 'parked'::text NOT NULL,
    settled_at timestamp with time zone,
    settled_by text,
    CONSTRAINT dead_letter_state_check CHECK ((state = ANY (ARRAY['parked'::text, 'replayed'::text, 'dropped'::text])))
);

ALTER TABLE ONLY lily.dead_letter FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.dead_letter OWNER TO lily_owner;

CREATE TABLE lily.delivery (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    number bigint NOT NULL,
    notice uuid NOT NULL,
    subscription uuid,
    connection uuid NOT NULL,
    notification_id text,
    thread text,
    state text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    tries integer DEFAULT 0 NOT NULL,
    due_at timestamp with time zone NOT NULL,
    worker uuid,
    unsure boolean DEFAULT false NOT NULL,
    status integer,
    reason text DEFAULT ''::text NOT NULL,
    last_at timestamp with time zone,
    settled_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL
)
WITH (fillfactor='60');

ALTER TABLE ONLY lily.delivery FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.delivery OWNER TO lily_owner;

CREATE TABLE lily.delivery_attempt (
    tenant integer NOT NULL,
    delivery uuid NOT NULL,
    number integer NOT NULL,
    at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    status integer,
    millis real NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    calls json NOT NULL
);

ALTER TABLE ONLY lily.delivery_attempt FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.delivery_attempt OWNER TO lily_owner;

ALTER TABLE lily.delivery ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.delivery_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.departure (
    number integer NOT NULL,
    phase text NOT NULL,
    CONSTRAINT departure_phase_check CHECK ((phase = ANY (ARRAY['closing'::text, 'held'::text, 'closed'::text, 'gone'::text])))
);

ALTER TABLE lily.departure OWNER TO lily_owner;

CREATE TABLE lily.edge (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    upstream uuid NOT NULL,
    downstream uuid NOT NULL,
    type text NOT NULL,
    level text NOT NULL,
    up_top uuid NOT NULL,
    down_top uuid NOT NULL,
    implies uuid,
    process text,
    transformation text,
    masking boolean DEFAULT false NOT NULL,
    origin text NOT NULL,
    properties jsonb,
    source text NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    log_offset bigint NOT NULL,
    layers smallint DEFAULT 0 NOT NULL,
    version integer NOT NULL,
    deleted_by text,
    deleted_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    cause text NOT NULL,
    feed_position bigint NOT NULL,
    CONSTRAINT edge_deleted_by_check CHECK ((deleted_by = ANY (ARRAY['source'::text, 'person'::text]))),
    CONSTRAINT edge_level_check CHECK ((level = ANY (ARRAY['table'::text, 'column'::text]))),
    CONSTRAINT edge_origin_check CHECK ((origin = ANY (ARRAY['source'::text, 'person'::text])))
);

ALTER TABLE ONLY lily.edge FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.edge OWNER TO lily_owner;

CREATE TABLE lily.edge_claim (
    tenant integer NOT NULL,
    edge uuid NOT NULL,
    source text NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    log_offset bigint NOT NULL,
    gone boolean NOT NULL,
    stated jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE ONLY lily.edge_claim FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.edge_claim OWNER TO lily_owner;

CREATE TABLE lily.fact (
    tenant integer NOT NULL,
    "position" bigint NOT NULL,
    kind text NOT NULL,
    at timestamp with time zone NOT NULL,
    guid uuid,
    version integer DEFAULT 0 NOT NULL,
    cause text NOT NULL,
    payload text,
    salt bytea,
    payload_hash bytea NOT NULL,
    hash bytea NOT NULL
)
WITH (autovacuum_analyze_scale_factor='0.2', autovacuum_vacuum_insert_threshold='1000000');
ALTER TABLE ONLY lily.fact ALTER COLUMN tenant SET STATISTICS 20;
ALTER TABLE ONLY lily.fact ALTER COLUMN "position" SET STATISTICS 20;
ALTER TABLE ONLY lily.fact ALTER COLUMN kind SET STATISTICS 20;
ALTER TABLE ONLY lily.fact ALTER COLUMN at SET STATISTICS 20;
ALTER TABLE ONLY lily.fact ALTER COLUMN guid SET STATISTICS 20;
ALTER TABLE ONLY lily.fact ALTER COLUMN version SET STATISTICS 0;
ALTER TABLE ONLY lily.fact ALTER COLUMN cause SET STATISTICS 0;
ALTER TABLE ONLY lily.fact ALTER COLUMN payload SET STATISTICS 0;
ALTER TABLE ONLY lily.fact ALTER COLUMN salt SET STATISTICS 0;
ALTER TABLE ONLY lily.fact ALTER COLUMN payload_hash SET STATISTICS 0;
ALTER TABLE ONLY lily.fact ALTER COLUMN hash SET STATISTICS 0;

ALTER TABLE ONLY lily.fact FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.fact OWNER TO lily_owner;

CREATE TABLE lily.feed_head (
    tenant integer NOT NULL,
    "position" bigint NOT NULL,
    hash bytea NOT NULL
);

ALTER TABLE ONLY lily.feed_head FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.feed_head OWNER TO lily_owner;

CREATE TABLE lily.idempotency (
    tenant integer NOT NULL,
    subject text NOT NULL,
    key text NOT NULL,
    request bytea NOT NULL,
    status integer,
    headers jsonb,
    body bytea,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY lily.idempotency FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.idempotency OWNER TO lily_owner;

CREATE TABLE lily.incident (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    number bigint NOT NULL,
    guid uuid,
    source text NOT NULL,
    external_id text DEFAULT ''::text NOT NULL,
    rule text DEFAULT ''::text NOT NULL,
    title text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    severity text NOT NULL,
    state text NOT NULL,
    url text DEFAULT ''::text NOT NULL,
    owner text DEFAULT ''::text NOT NULL,
    names text[] DEFAULT '{}'::text[] NOT NULL,
    candidates uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT incident_severity_check CHECK ((severity = ANY (ARRAY['critical'::text, 'high'::text, 'medium'::text, 'low'::text]))),
    CONSTRAINT incident_state_check CHECK ((state = ANY (ARRAY['open'::text, 'acknowledged'::text, 'resolved'::text, 'suppressed'::text])))
);

ALTER TABLE ONLY lily.incident FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.incident OWNER TO lily_owner;

CREATE TABLE lily.incident_event (
    tenant integer NOT NULL,
    incident uuid NOT NULL,
    number bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    by text NOT NULL,
    via text NOT NULL,
    changes jsonb DEFAULT '{}'::jsonb NOT NULL,
    comment text DEFAULT ''::text NOT NULL
);

ALTER TABLE ONLY lily.incident_event FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.incident_event OWNER TO lily_owner;

ALTER TABLE lily.incident_event ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.incident_event_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.incident_external (
    tenant integer NOT NULL,
    source text NOT NULL,
    external_id text NOT NULL,
    incident uuid NOT NULL,
    closed boolean DEFAULT false NOT NULL,
    spoke_at timestamp with time zone NOT NULL,
    spoke_at_offset bigint NOT NULL
);

ALTER TABLE ONLY lily.incident_external FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.incident_external OWNER TO lily_owner;

ALTER TABLE lily.incident ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.incident_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.job (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    state text DEFAULT 'queued'::text NOT NULL,
    stage text DEFAULT 'receiving'::text NOT NULL,
    format text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    lines bigint,
    by text NOT NULL,
    traceparent text DEFAULT ''::text NOT NULL,
    core_offset bigint DEFAULT 0 NOT NULL,
    fields_offset bigint DEFAULT 0 NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    accepted_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    runner uuid,
    beat_at timestamp with time zone,
    CONSTRAINT job_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'running'::text, 'succeeded'::text, 'partial'::text, 'failed'::text, 'cancelled'::text])))
);

ALTER TABLE ONLY lily.job FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.job OWNER TO lily_owner;

CREATE TABLE lily.job_chunk (
    tenant integer NOT NULL,
    job uuid NOT NULL,
    lane text NOT NULL,
    part integer NOT NULL,
    chunk integer NOT NULL,
    accepted integer DEFAULT 0 NOT NULL,
    rejected integer DEFAULT 0 NOT NULL,
    created integer DEFAULT 0 NOT NULL,
    updated integer DEFAULT 0 NOT NULL,
    unchanged integer DEFAULT 0 NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.job_chunk FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.job_chunk OWNER TO lily_owner;

CREATE TABLE lily.job_error (
    tenant integer NOT NULL,
    job uuid NOT NULL,
    line bigint NOT NULL,
    reason text NOT NULL
);

ALTER TABLE ONLY lily.job_error FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.job_error OWNER TO lily_owner;

CREATE TABLE lily.lease (
    duty text NOT NULL,
    holder uuid NOT NULL,
    epoch bigint NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    place text NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL
);

ALTER TABLE lily.lease OWNER TO lily_owner;

CREATE TABLE lily.lineage_job (
    tenant integer NOT NULL,
    source text NOT NULL,
    at timestamp with time zone NOT NULL,
    log_offset bigint NOT NULL
);

ALTER TABLE ONLY lily.lineage_job FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.lineage_job OWNER TO lily_owner;

CREATE VIEW lily.live_edge WITH (security_invoker='true') AS
 SELECT e.tenant,
    e.id,
    e.upstream,
    e.downstream,
    e.type,
    e.transformation,
    e.masking,
    false AS implied
   FROM ((lily.edge e
     JOIN lily.asset u ON (((u.tenant = e.tenant) AND (u.guid = e.upstream) AND (u.deleted_by IS NULL) AND (u.archived_at IS NULL))))
     JOIN lily.asset d ON (((d.tenant = e.tenant) AND (d.guid = e.downstream) AND (d.deleted_by IS NULL) AND (d.archived_at IS NULL))))
  WHERE ((e.deleted_by IS NULL) AND ((e.level = 'table'::text) OR (NOT (EXISTS ( SELECT
           FROM lily.asset t
          WHERE ((t.tenant = e.tenant) AND (t.guid = ANY (ARRAY[e.up_top, e.down_top])) AND ((t.deleted_by IS NOT NULL) OR (t.archived_at IS NOT NULL))))))))
UNION ALL
 SELECT c.tenant,
    c.implies AS id,
    c.up_top AS upstream,
    c.down_top AS downstream,
    c.type,
    NULL::text AS transformation,
    bool_and(c.masking) AS masking,
    true AS implied
   FROM ((((lily.edge c
     JOIN lily.asset u ON (((u.tenant = c.tenant) AND (u.guid = c.upstream) AND (u.deleted_by IS NULL) AND (u.archived_at IS NULL))))
     JOIN lily.asset d ON (((d.tenant = c.tenant) AND (d.guid = c.downstream) AND (d.deleted_by IS NULL) AND (d.archived_at IS NULL))))
     JOIN lily.asset ut ON (((ut.tenant = c.tenant) AND (ut.guid = c.up_top) AND (ut.deleted_by IS NULL) AND (ut.archived_at IS NULL))))
     JOIN lily.asset dt ON (((dt.tenant = c.tenant) AND (dt.guid = c.down_top) AND (dt.deleted_by IS NULL) AND (dt.archived_at IS NULL))))
  WHERE ((c.deleted_by IS NULL) AND (c.level = 'column'::text) AND (NOT (EXISTS ( SELECT
           FROM lily.edge t
          WHERE ((t.tenant = c.tenant) AND (t.id = c.implies) AND (t.deleted_by IS NULL))))))
  GROUP BY c.tenant, c.implies, c.up_top, c.down_top, c.type;

ALTER VIEW lily.live_edge OWNER TO lily_owner;

CREATE TABLE lily.log (
    lane text NOT NULL,
    "offset" bigint NOT NULL,
    tenant integer NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    key text NOT NULL,
    value text NOT NULL
)
PARTITION BY LIST (lane);

ALTER TABLE lily.log OWNER TO lily_owner;

CREATE TABLE lily.log_core (
    lane text CONSTRAINT log_lane_not_null NOT NULL,
    "offset" bigint CONSTRAINT log_offset_not_null NOT NULL,
    tenant integer CONSTRAINT log_tenant_not_null NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() CONSTRAINT log_at_not_null NOT NULL,
    key text CONSTRAINT log_key_not_null NOT NULL,
    value text CONSTRAINT log_value_not_null NOT NULL
)
WITH (autovacuum_analyze_scale_factor='0.5', autovacuum_vacuum_insert_threshold='-1');
ALTER TABLE ONLY lily.log_core ALTER COLUMN lane SET STATISTICS 10;
ALTER TABLE ONLY lily.log_core ALTER COLUMN "offset" SET STATISTICS 10;
ALTER TABLE ONLY lily.log_core ALTER COLUMN tenant SET STATISTICS 10;
ALTER TABLE ONLY lily.log_core ALTER COLUMN at SET STATISTICS 0;
ALTER TABLE ONLY lily.log_core ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE ONLY lily.log_core ALTER COLUMN value SET STATISTICS 0;

ALTER TABLE lily.log_core OWNER TO lily_owner;

CREATE SEQUENCE lily.log_core_offset
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE lily.log_core_offset OWNER TO lily_owner;

CREATE TABLE lily.log_fields (
    lane text CONSTRAINT log_lane_not_null NOT NULL,
    "offset" bigint CONSTRAINT log_offset_not_null NOT NULL,
    tenant integer CONSTRAINT log_tenant_not_null NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() CONSTRAINT log_at_not_null NOT NULL,
    key text CONSTRAINT log_key_not_null NOT NULL,
    value text CONSTRAINT log_value_not_null NOT NULL
)
WITH (autovacuum_analyze_scale_factor='0.5', autovacuum_vacuum_insert_threshold='-1');
ALTER TABLE ONLY lily.log_fields ALTER COLUMN lane SET STATISTICS 10;
ALTER TABLE ONLY lily.log_fields ALTER COLUMN "offset" SET STATISTICS 10;
ALTER TABLE ONLY lily.log_fields ALTER COLUMN tenant SET STATISTICS 10;
ALTER TABLE ONLY lily.log_fields ALTER COLUMN at SET STATISTICS 0;
ALTER TABLE ONLY lily.log_fields ALTER COLUMN key SET STATISTICS 0;
ALTER TABLE ONLY lily.log_fields ALTER COLUMN value SET STATISTICS 0;

ALTER TABLE lily.log_fields OWNER TO lily_owner;

CREATE SEQUENCE lily.log_fields_offset
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE lily.log_fields_offset OWNER TO lily_owner;

CREATE TABLE lily.login_failure (
    tenant integer NOT NULL,
    username text NOT NULL,
    address text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY lily.login_failure FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.login_failure OWNER TO lily_owner;

CREATE TABLE lily.migration (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE lily.migration OWNER TO postgres;

CREATE TABLE lily.move (
    number integer NOT NULL,
    source text NOT NULL,
    target text NOT NULL,
    isolation text NOT NULL,
    before text NOT NULL,
    step text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    by text NOT NULL,
    cause text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT move_step_check CHECK ((step = ANY (ARRAY['closing'::text, 'copying'::text, 'switching'::text, 'opening'::text, 'clearing'::text, 'aborting'::text, 'failed'::text])))
);

ALTER TABLE lily.move OWNER TO lily_owner;

CREATE TABLE lily.notice (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    number bigint NOT NULL,
    subscription uuid,
    "position" bigint DEFAULT 0 NOT NULL,
    recipient text DEFAULT ''::text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    guid uuid,
    content json NOT NULL,
    at timestamp with time zone NOT NULL,
    read_at timestamp with time zone
);

ALTER TABLE ONLY lily.notice FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.notice OWNER TO lily_owner;

CREATE TABLE lily.notice_mute (
    tenant integer NOT NULL,
    recipient text NOT NULL,
    about text NOT NULL,
    until timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.notice_mute FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.notice_mute OWNER TO lily_owner;

ALTER TABLE lily.notice ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.notice_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.outlet (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    paused_until timestamp with time zone,
    spent_until timestamp with time zone,
    gone_revision bigint,
    reason text DEFAULT ''::text NOT NULL
);

ALTER TABLE ONLY lily.outlet FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.outlet OWNER TO lily_owner;

CREATE TABLE lily.person (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    username text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    password text NOT NULL,
    role text NOT NULL,
    platform boolean DEFAULT false NOT NULL,
    active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY lily.person FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.person OWNER TO lily_owner;

CREATE TABLE lily.policy (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    effect text NOT NULL,
    action text NOT NULL,
    subjects jsonb NOT NULL,
    resource_kind text NOT NULL,
    resource_id text DEFAULT ''::text NOT NULL,
    conditions jsonb DEFAULT '{}'::jsonb NOT NULL,
    mask jsonb,
    row_filter text DEFAULT ''::text NOT NULL,
    exempt_groups text[] DEFAULT '{}'::text[] NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    gone boolean DEFAULT false NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT policy_action_check CHECK ((action = ANY (ARRAY['READ'::text, 'WRITE'::text, 'DELETE'::text]))),
    CONSTRAINT policy_effect_check CHECK ((effect = ANY (ARRAY['allow'::text, 'deny'::text, 'mask'::text, 'filter'::text]))),
    CONSTRAINT policy_resource_kind_check CHECK ((resource_kind = ANY (ARRAY['asset'::text, 'under'::text, 'tag'::text, 'type'::text, 'everything'::text])))
);

ALTER TABLE ONLY lily.policy FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.policy OWNER TO lily_owner;

CREATE TABLE lily.process (
    id uuid NOT NULL,
    role text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    beat_at timestamp with time zone NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE lily.process OWNER TO lily_owner;

CREATE TABLE lily.producer_key (
    tenant integer NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    secret bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone
);

ALTER TABLE ONLY lily.producer_key FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.producer_key OWNER TO lily_owner;

CREATE TABLE lily.propagated (
    tenant integer NOT NULL,
    guid uuid NOT NULL,
    field text NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    value text DEFAULT ''::text NOT NULL,
    root uuid NOT NULL,
    depth integer NOT NULL,
    via uuid NOT NULL,
    rule uuid
);

ALTER TABLE ONLY lily.propagated FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.propagated OWNER TO lily_owner;

CREATE TABLE lily.propagation_rule (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    field text NOT NULL,
    names text[] DEFAULT '{}'::text[] NOT NULL,
    edge_kinds text[],
    direction text DEFAULT 'downstream'::text NOT NULL,
    max_depth integer,
    roots jsonb DEFAULT '{}'::jsonb NOT NULL,
    receivers jsonb DEFAULT '{}'::jsonb NOT NULL,
    on_conflict text DEFAULT 'when_empty'::text NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    plugin text DEFAULT ''::text NOT NULL,
    options jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT propagation_rule_direction_check CHECK ((direction = ANY (ARRAY['downstream'::text, 'upstream'::text]))),
    CONSTRAINT propagation_rule_on_conflict_check CHECK ((on_conflict = ANY (ARRAY['when_empty'::text, 'always'::text])))
);

ALTER TABLE ONLY lily.propagation_rule FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.propagation_rule OWNER TO lily_owner;

CREATE TABLE lily.propagation_task (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    starts uuid[] NOT NULL,
    up_starts uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    whole boolean DEFAULT false NOT NULL,
    names text[],
    cause text NOT NULL,
    traceparent text DEFAULT ''::text NOT NULL,
    "position" bigint NOT NULL,
    size integer NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    plans integer DEFAULT 0 NOT NULL,
    chunks integer DEFAULT 0 NOT NULL,
    changed integer DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    CONSTRAINT propagation_task_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'done'::text])))
);

ALTER TABLE ONLY lily.propagation_task FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.propagation_task OWNER TO lily_owner;

CREATE TABLE lily.protection (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    guid uuid NOT NULL,
    object text NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    columns jsonb DEFAULT '{}'::jsonb NOT NULL,
    exempt jsonb DEFAULT '{}'::jsonb NOT NULL,
    findings jsonb DEFAULT '[]'::jsonb NOT NULL,
    plan jsonb DEFAULT '[]'::jsonb NOT NULL,
    fingerprint text DEFAULT ''::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    applied_at timestamp with time zone,
    verified_at timestamp with time zone,
    next_at timestamp with time zone,
    CONSTRAINT protection_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'applied'::text, 'verified'::text, 'failed'::text, 'drifted'::text, 'unenforceable'::text, 'planned'::text])))
);

ALTER TABLE ONLY lily.protection FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.protection OWNER TO lily_owner;

CREATE TABLE lily.protection_ledger (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    object text NOT NULL,
    kind text NOT NULL,
    part text DEFAULT ''::text NOT NULL,
    grantee text DEFAULT ''::text NOT NULL,
    column_name text DEFAULT ''::text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.protection_ledger FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.protection_ledger OWNER TO lily_owner;

CREATE TABLE lily.remote_handle (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    key text NOT NULL,
    handle jsonb NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.remote_handle FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.remote_handle OWNER TO lily_owner;

CREATE TABLE lily.revocation (
    number bigint NOT NULL,
    id uuid NOT NULL,
    before timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL
);

ALTER TABLE lily.revocation OWNER TO lily_owner;

ALTER TABLE lily.revocation ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.revocation_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.rule_attachment (
    tenant integer NOT NULL,
    source text NOT NULL,
    rule text NOT NULL,
    guid uuid NOT NULL,
    by text NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.rule_attachment FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.rule_attachment OWNER TO lily_owner;

CREATE TABLE lily.run (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    job_namespace text NOT NULL,
    job_name text NOT NULL,
    state text NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    updated_at timestamp with time zone NOT NULL,
    parent jsonb,
    facets jsonb DEFAULT '{}'::jsonb NOT NULL,
    inputs jsonb DEFAULT '[]'::jsonb NOT NULL,
    outputs jsonb DEFAULT '[]'::jsonb NOT NULL,
    error text,
    said jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE ONLY lily.run FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.run OWNER TO lily_owner;

CREATE TABLE lily.scraper_policy (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    scraper_group text NOT NULL,
    allowed_columns text[] NOT NULL,
    created_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.scraper_policy FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.scraper_policy OWNER TO lily_owner;

CREATE TABLE lily.service_account (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    secret text NOT NULL,
    role text NOT NULL,
    active boolean DEFAULT true NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY lily.service_account FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.service_account OWNER TO lily_owner;

CREATE TABLE lily.signal_key (
    tenant integer NOT NULL,
    key text NOT NULL,
    at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.signal_key FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.signal_key OWNER TO lily_owner;

CREATE TABLE lily.subscription (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    match jsonb NOT NULL,
    connection uuid,
    template jsonb,
    owner text NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    muted_until timestamp with time zone,
    since bigint NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);

ALTER TABLE ONLY lily.subscription FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.subscription OWNER TO lily_owner;

CREATE TABLE lily.tag_assignment (
    tenant integer NOT NULL,
    guid uuid NOT NULL,
    tag text NOT NULL,
    origin text NOT NULL,
    by text NOT NULL,
    state text DEFAULT 'active'::text NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text DEFAULT 'tag'::text NOT NULL,
    value text DEFAULT ''::text NOT NULL,
    valid_from timestamp with time zone,
    valid_until timestamp with time zone,
    settled text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT tag_assignment_kind_check CHECK ((kind = ANY (ARRAY['tag'::text, 'term'::text]))),
    CONSTRAINT tag_assignment_origin_check CHECK ((origin = ANY (ARRAY['person'::text, 'rule'::text, 'steward'::text]))),
    CONSTRAINT tag_assignment_state_check CHECK ((state = ANY (ARRAY['active'::text, 'suggested'::text, 'rejected'::text, 'scheduled'::text, 'expired'::text])))
);

ALTER TABLE ONLY lily.tag_assignment FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.tag_assignment OWNER TO lily_owner;

CREATE TABLE lily.tag_builtin (
    name text CONSTRAINT tag_def_name_not_null NOT NULL,
    description text DEFAULT ''::text CONSTRAINT tag_def_description_not_null NOT NULL,
    colour text,
    exclusive_group text,
    rank integer DEFAULT 0 CONSTRAINT tag_def_rank_not_null NOT NULL,
    propagates boolean DEFAULT false CONSTRAINT tag_def_propagates_not_null NOT NULL,
    edge_kinds text[],
    max_depth integer,
    precedence text DEFAULT 'source'::text CONSTRAINT tag_def_precedence_not_null NOT NULL,
    first_use boolean DEFAULT false CONSTRAINT tag_def_first_use_not_null NOT NULL,
    version integer DEFAULT 1 CONSTRAINT tag_def_version_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT tag_def_created_at_not_null NOT NULL,
    created_by text CONSTRAINT tag_def_created_by_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT tag_def_updated_at_not_null NOT NULL
);

ALTER TABLE lily.tag_builtin OWNER TO lily_owner;

CREATE TABLE lily.tag_def (
    tenant integer NOT NULL,
    name text NOT NULL,
    description text DEFAULT ''::text NOT NULL,
    colour text,
    exclusive_group text,
    rank integer DEFAULT 0 NOT NULL,
    propagates boolean DEFAULT false NOT NULL,
    edge_kinds text[],
    max_depth integer,
    precedence text DEFAULT 'source'::text NOT NULL,
    first_use boolean DEFAULT false NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT tag_def_precedence_check CHECK ((precedence = ANY (ARRAY['source'::text, 'person'::text, 'restrictive'::text])))
);

ALTER TABLE ONLY lily.tag_def FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.tag_def OWNER TO lily_owner;

CREATE VIEW lily.tag_definition WITH (security_invoker='true') AS
 SELECT d.tenant,
    d.name,
    d.description,
    d.colour,
    d.exclusive_group,
    d.rank,
    d.propagates,
    d.edge_kinds,
    d.max_depth,
    d.precedence,
    d.first_use,
    d.version,
    d.created_at,
    d.created_by,
    d.updated_at,
    (EXISTS ( SELECT
           FROM lily.tag_builtin b
          WHERE (b.name = d.name))) AS builtin
   FROM lily.tag_def d
UNION ALL
 SELECT h.tenant,
    b.name,
    b.description,
    b.colour,
    b.exclusive_group,
    b.rank,
    b.propagates,
    b.edge_kinds,
    b.max_depth,
    b.precedence,
    b.first_use,
    b.version,
    b.created_at,
    b.created_by,
    b.updated_at,
    true AS builtin
   FROM (lily.feed_head h
     CROSS JOIN lily.tag_builtin b)
  WHERE (NOT (EXISTS ( SELECT
           FROM lily.tag_def d
          WHERE ((d.tenant = h.tenant) AND (d.name = b.name)))));

ALTER VIEW lily.tag_definition OWNER TO lily_owner;

CREATE TABLE lily.tag_settings (
    tenant integer NOT NULL,
    unknown_tags text DEFAULT 'create'::text NOT NULL,
    unknown_terms text DEFAULT 'create'::text NOT NULL,
    revision bigint DEFAULT 1 NOT NULL,
    refold text[],
    refold_cause text DEFAULT ''::text NOT NULL,
    CONSTRAINT tag_settings_unknown_tags_check CHECK ((unknown_tags = ANY (ARRAY['create'::text, 'refuse'::text]))),
    CONSTRAINT tag_settings_unknown_terms_check CHECK ((unknown_terms = ANY (ARRAY['create'::text, 'refuse'::text])))
);

ALTER TABLE ONLY lily.tag_settings FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.tag_settings OWNER TO lily_owner;

CREATE TABLE lily.tenant (
    number integer NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    cell text NOT NULL,
    isolation text DEFAULT 'pooled'::text NOT NULL,
    state text DEFAULT 'active'::text NOT NULL,
    settings jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    moved_at timestamp with time zone,
    CONSTRAINT tenant_isolation_check CHECK ((isolation = ANY (ARRAY['pooled'::text, 'dedicated'::text]))),
    CONSTRAINT tenant_state_check CHECK ((state = ANY (ARRAY['active'::text, 'suspended'::text, 'moving'::text])))
);

ALTER TABLE lily.tenant OWNER TO lily_owner;

ALTER TABLE lily.tenant ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME lily.tenant_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE lily.term_def (
    tenant integer CONSTRAINT tag_def_tenant_not_null NOT NULL,
    name text CONSTRAINT tag_def_name_not_null NOT NULL,
    description text DEFAULT ''::text CONSTRAINT tag_def_description_not_null NOT NULL,
    colour text,
    exclusive_group text,
    rank integer DEFAULT 0 CONSTRAINT tag_def_rank_not_null NOT NULL,
    propagates boolean DEFAULT false CONSTRAINT tag_def_propagates_not_null NOT NULL,
    edge_kinds text[],
    max_depth integer,
    precedence text DEFAULT 'source'::text CONSTRAINT tag_def_precedence_not_null NOT NULL,
    first_use boolean DEFAULT false CONSTRAINT tag_def_first_use_not_null NOT NULL,
    version integer DEFAULT 1 CONSTRAINT tag_def_version_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT tag_def_created_at_not_null NOT NULL,
    created_by text CONSTRAINT tag_def_created_by_not_null NOT NULL,
    updated_at timestamp with time zone CONSTRAINT tag_def_updated_at_not_null NOT NULL,
    CONSTRAINT tag_def_precedence_check CHECK ((precedence = ANY (ARRAY['source'::text, 'person'::text, 'restrictive'::text])))
);

ALTER TABLE ONLY lily.term_def FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.term_def OWNER TO lily_owner;

CREATE VIEW lily.term_definition WITH (security_invoker='true') AS
 SELECT tenant,
    name,
    description,
    colour,
    exclusive_group,
    rank,
    propagates,
    edge_kinds,
    max_depth,
    precedence,
    first_use,
    version,
    created_at,
    created_by,
    updated_at,
    false AS builtin
   FROM lily.term_def;

ALTER VIEW lily.term_definition OWNER TO lily_owner;

CREATE TABLE lily.token (
    tenant integer NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    subject uuid NOT NULL,
    name text DEFAULT ''::text NOT NULL,
    digest bytea NOT NULL,
    role text,
    session uuid,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    used_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT token_kind_check CHECK ((kind = ANY (ARRAY['personal'::text, 'refresh'::text])))
);

ALTER TABLE ONLY lily.token FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.token OWNER TO lily_owner;

CREATE TABLE lily.token_key (
    kid text NOT NULL,
    private bytea NOT NULL,
    public jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone
);

ALTER TABLE lily.token_key OWNER TO lily_owner;

CREATE TABLE lily.tombstone (
    tenant integer NOT NULL,
    guid uuid NOT NULL,
    observed_at timestamp with time zone NOT NULL,
    at timestamp with time zone NOT NULL,
    by text NOT NULL
);

ALTER TABLE ONLY lily.tombstone FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.tombstone OWNER TO lily_owner;

CREATE TABLE lily.webhook_claim (
    tenant integer NOT NULL,
    plugin text NOT NULL,
    account text NOT NULL,
    connection uuid NOT NULL
);

ALTER TABLE ONLY lily.webhook_claim FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.webhook_claim OWNER TO lily_owner;

CREATE TABLE lily.webhook_endpoint (
    tenant integer NOT NULL,
    connection uuid NOT NULL,
    token text NOT NULL,
    previous_options jsonb,
    previous_secrets bytea,
    previous_until timestamp with time zone
);

ALTER TABLE ONLY lily.webhook_endpoint FORCE ROW LEVEL SECURITY;

ALTER TABLE lily.webhook_endpoint OWNER TO lily_owner;

ALTER TABLE ONLY lily.asset ATTACH PARTITION lily.asset_core FOR VALUES IN ('core');

ALTER TABLE ONLY lily.asset_core ATTACH PARTITION lily.asset_core_0 FOR VALUES WITH (modulus 2, remainder 0);

ALTER TABLE ONLY lily.asset_core ATTACH PARTITION lily.asset_core_1 FOR VALUES WITH (modulus 2, remainder 1);

ALTER TABLE ONLY lily.asset ATTACH PARTITION lily.asset_fields FOR VALUES IN ('fields');

ALTER TABLE ONLY lily.asset_fields ATTACH PARTITION lily.asset_fields_0 FOR VALUES WITH (modulus 4, remainder 0);

ALTER TABLE ONLY lily.asset_fields ATTACH PARTITION lily.asset_fields_1 FOR VALUES WITH (modulus 4, remainder 1);

ALTER TABLE ONLY lily.asset_fields ATTACH PARTITION lily.asset_fields_2 FOR VALUES WITH (modulus 4, remainder 2);

ALTER TABLE ONLY lily.asset_fields ATTACH PARTITION lily.asset_fields_3 FOR VALUES WITH (modulus 4, remainder 3);

ALTER TABLE ONLY lily.log ATTACH PARTITION lily.log_core FOR VALUES IN ('core');

ALTER TABLE ONLY lily.log ATTACH PARTITION lily.log_fields FOR VALUES IN ('fields');

ALTER TABLE ONLY lily.applied
    ADD CONSTRAINT applied_pkey PRIMARY KEY (lane, part);

ALTER TABLE ONLY lily.archived
    ADD CONSTRAINT archived_pkey PRIMARY KEY (lane);

ALTER TABLE ONLY lily.asset_alias
    ADD CONSTRAINT asset_alias_pkey PRIMARY KEY (tenant, alias);

ALTER TABLE ONLY lily.asset
    ADD CONSTRAINT asset_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_core
    ADD CONSTRAINT asset_core_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_core_0
    ADD CONSTRAINT asset_core_0_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_core_1
    ADD CONSTRAINT asset_core_1_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_fields
    ADD CONSTRAINT asset_fields_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_fields_0
    ADD CONSTRAINT asset_fields_0_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_fields_1
    ADD CONSTRAINT asset_fields_1_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_fields_2
    ADD CONSTRAINT asset_fields_2_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_fields_3
    ADD CONSTRAINT asset_fields_3_pkey PRIMARY KEY (tenant, guid, lane);

ALTER TABLE ONLY lily.asset_source
    ADD CONSTRAINT asset_source_pkey PRIMARY KEY (tenant, guid, source);

ALTER TABLE ONLY lily.block
    ADD CONSTRAINT block_pkey PRIMARY KEY (tenant, edge, name);

ALTER TABLE ONLY lily.cell
    ADD CONSTRAINT cell_pkey PRIMARY KEY (name);

ALTER TABLE ONLY lily.channel_token
    ADD CONSTRAINT channel_token_pkey PRIMARY KEY (tenant, connection);

ALTER TABLE ONLY lily.circle
    ADD CONSTRAINT circle_pkey PRIMARY KEY (tenant, kind, name);

ALTER TABLE ONLY lily.connection
    ADD CONSTRAINT connection_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.connection
    ADD CONSTRAINT connection_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY lily.consumer
    ADD CONSTRAINT consumer_pkey PRIMARY KEY (name, tenant);

ALTER TABLE ONLY lily.crawl_capture
    ADD CONSTRAINT crawl_capture_pkey PRIMARY KEY (tenant, connection);

ALTER TABLE ONLY lily.crawl_run
    ADD CONSTRAINT crawl_run_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.crawl_seen
    ADD CONSTRAINT crawl_seen_pkey PRIMARY KEY (tenant, connection, guid);

ALTER TABLE ONLY lily.crawl_state
    ADD CONSTRAINT crawl_state_pkey PRIMARY KEY (tenant, connection);

ALTER TABLE ONLY lily.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.delivery_attempt
    ADD CONSTRAINT delivery_attempt_pkey PRIMARY KEY (tenant, delivery, number);

ALTER TABLE ONLY lily.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (tenant, id);

ALTER TABLE lily.delivery
    ADD CONSTRAINT delivery_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'sending'::text, 'delivered'::text, 'dead'::text, 'cancelled'::text, 'withheld'::text]))) NOT VALID;

ALTER TABLE ONLY lily.departure
    ADD CONSTRAINT departure_pkey PRIMARY KEY (number);

ALTER TABLE ONLY lily.edge_claim
    ADD CONSTRAINT edge_claim_pkey PRIMARY KEY (tenant, edge, source);

ALTER TABLE ONLY lily.edge
    ADD CONSTRAINT edge_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.fact
    ADD CONSTRAINT fact_pkey PRIMARY KEY (tenant, "position");

ALTER TABLE ONLY lily.feed_head
    ADD CONSTRAINT feed_head_pkey PRIMARY KEY (tenant);

ALTER TABLE ONLY lily.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (tenant, subject, key);

ALTER TABLE ONLY lily.identity_provider
    ADD CONSTRAINT identity_provider_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.identity_provider
    ADD CONSTRAINT identity_provider_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY lily.incident_event
    ADD CONSTRAINT incident_event_pkey PRIMARY KEY (tenant, incident, number);

ALTER TABLE ONLY lily.incident_external
    ADD CONSTRAINT incident_external_pkey PRIMARY KEY (tenant, source, external_id);

ALTER TABLE ONLY lily.incident
    ADD CONSTRAINT incident_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.job_chunk
    ADD CONSTRAINT job_chunk_pkey PRIMARY KEY (tenant, job, lane, part, chunk);

ALTER TABLE ONLY lily.job_error
    ADD CONSTRAINT job_error_pkey PRIMARY KEY (tenant, job, line);

ALTER TABLE ONLY lily.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (duty);

ALTER TABLE ONLY lily.lineage_job
    ADD CONSTRAINT lineage_job_pkey PRIMARY KEY (tenant, source);

ALTER TABLE ONLY lily.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (lane, "offset");

ALTER TABLE ONLY lily.log_core
    ADD CONSTRAINT log_core_pkey PRIMARY KEY (lane, "offset");

ALTER TABLE ONLY lily.log_fields
    ADD CONSTRAINT log_fields_pkey PRIMARY KEY (lane, "offset");

ALTER TABLE ONLY lily.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY lily.move
    ADD CONSTRAINT move_pkey PRIMARY KEY (number);

ALTER TABLE ONLY lily.notice_mute
    ADD CONSTRAINT notice_mute_pkey PRIMARY KEY (tenant, recipient, about);

ALTER TABLE ONLY lily.notice
    ADD CONSTRAINT notice_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.outlet
    ADD CONSTRAINT outlet_pkey PRIMARY KEY (tenant, connection);

ALTER TABLE ONLY lily.person
    ADD CONSTRAINT person_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.person
    ADD CONSTRAINT person_tenant_username_key UNIQUE (tenant, username);

ALTER TABLE ONLY lily.policy
    ADD CONSTRAINT policy_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.process
    ADD CONSTRAINT process_pkey PRIMARY KEY (id);

ALTER TABLE ONLY lily.producer_key
    ADD CONSTRAINT producer_key_id_key UNIQUE (id);

ALTER TABLE ONLY lily.producer_key
    ADD CONSTRAINT producer_key_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.propagation_rule
    ADD CONSTRAINT propagation_rule_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.propagation_rule
    ADD CONSTRAINT propagation_rule_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY lily.propagation_task
    ADD CONSTRAINT propagation_task_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.protection_ledger
    ADD CONSTRAINT protection_ledger_pkey PRIMARY KEY (tenant, connection, object, kind, part, grantee, column_name);

ALTER TABLE ONLY lily.protection
    ADD CONSTRAINT protection_pkey PRIMARY KEY (tenant, connection, guid);

ALTER TABLE ONLY lily.remote_handle
    ADD CONSTRAINT remote_handle_pkey PRIMARY KEY (tenant, connection, key);

ALTER TABLE ONLY lily.revocation
    ADD CONSTRAINT revocation_pkey PRIMARY KEY (number);

ALTER TABLE ONLY lily.rule_attachment
    ADD CONSTRAINT rule_attachment_pkey PRIMARY KEY (tenant, source, rule);

ALTER TABLE ONLY lily.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.scraper_policy
    ADD CONSTRAINT scraper_policy_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.service_account
    ADD CONSTRAINT service_account_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.service_account
    ADD CONSTRAINT service_account_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY lily.signal_key
    ADD CONSTRAINT signal_key_pkey PRIMARY KEY (tenant, key);

ALTER TABLE ONLY lily.subscription
    ADD CONSTRAINT subscription_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.subscription
    ADD CONSTRAINT subscription_tenant_name_key UNIQUE (tenant, name);

ALTER TABLE ONLY lily.tag_assignment
    ADD CONSTRAINT tag_assignment_pkey PRIMARY KEY (tenant, guid, kind, tag, origin, by);

ALTER TABLE ONLY lily.tag_builtin
    ADD CONSTRAINT tag_builtin_pkey PRIMARY KEY (name);

ALTER TABLE ONLY lily.tag_def
    ADD CONSTRAINT tag_def_pkey PRIMARY KEY (tenant, name);

ALTER TABLE ONLY lily.tag_settings
    ADD CONSTRAINT tag_settings_pkey PRIMARY KEY (tenant);

ALTER TABLE ONLY lily.tenant
    ADD CONSTRAINT tenant_id_key UNIQUE (id);

ALTER TABLE ONLY lily.tenant
    ADD CONSTRAINT tenant_name_key UNIQUE (name);

ALTER TABLE ONLY lily.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (number);

ALTER TABLE ONLY lily.term_def
    ADD CONSTRAINT term_def_pkey PRIMARY KEY (tenant, name);

ALTER TABLE ONLY lily.token_key
    ADD CONSTRAINT token_key_pkey PRIMARY KEY (kid);

ALTER TABLE ONLY lily.token
    ADD CONSTRAINT token_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY lily.token
    ADD CONSTRAINT token_tenant_digest_key UNIQUE (tenant, digest);

ALTER TABLE ONLY lily.tombstone
    ADD CONSTRAINT tombstone_pkey PRIMARY KEY (tenant, guid);

ALTER TABLE ONLY lily.webhook_claim
    ADD CONSTRAINT webhook_claim_pkey PRIMARY KEY (tenant, connection);

ALTER TABLE ONLY lily.webhook_endpoint
    ADD CONSTRAINT webhook_endpoint_pkey PRIMARY KEY (tenant, connection);

ALTER TABLE ONLY lily.webhook_endpoint
    ADD CONSTRAINT webhook_endpoint_tenant_token_key UNIQUE (tenant, token);

CREATE INDEX asset_alias_guid ON lily.asset_alias USING btree (tenant, guid);

CREATE INDEX asset_own_tags ON ONLY lily.asset USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_core_own_tags_idx ON ONLY lily.asset_core USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_core_0_own_tags_idx ON lily.asset_core_0 USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_search ON ONLY lily.asset USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_core_search_idx ON ONLY lily.asset_core USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_core_0_search_idx ON lily.asset_core_0 USING gin (search) WITH (gin_pending_list_limit='16384');

CREATE INDEX asset_expiry ON ONLY lily.asset USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_core_tenant_expires_at_idx ON ONLY lily.asset_core USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_core_0_tenant_expires_at_idx ON lily.asset_core_0 USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_hidden ON ONLY lily.asset USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_core_tenant_guid_idx ON ONLY lily.asset_core USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_core_0_tenant_guid_idx ON lily.asset_core_0 USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_parent ON ONLY lily.asset USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_core_tenant_parent_guid_idx ON ONLY lily.asset_core USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_core_0_tenant_parent_guid_idx ON lily.asset_core_0 USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_updated ON ONLY lily.asset USING brin (updated_at);

CREATE INDEX asset_core_updated_at_idx ON ONLY lily.asset_core USING brin (updated_at);

CREATE INDEX asset_core_0_updated_at_idx ON lily.asset_core_0 USING brin (updated_at);

CREATE INDEX asset_core_1_own_tags_idx ON lily.asset_core_1 USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_core_1_search_idx ON lily.asset_core_1 USING gin (search) WITH (gin_pending_list_limit='16384');

CREATE INDEX asset_core_1_tenant_expires_at_idx ON lily.asset_core_1 USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_core_1_tenant_guid_idx ON lily.asset_core_1 USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_core_1_tenant_parent_guid_idx ON lily.asset_core_1 USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_core_1_updated_at_idx ON lily.asset_core_1 USING brin (updated_at);

CREATE INDEX asset_fields_own_tags_idx ON ONLY lily.asset_fields USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_fields_0_own_tags_idx ON lily.asset_fields_0 USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_fields_search_idx ON ONLY lily.asset_fields USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_fields_0_search_idx ON lily.asset_fields_0 USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_fields_tenant_expires_at_idx ON ONLY lily.asset_fields USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_fields_0_tenant_expires_at_idx ON lily.asset_fields_0 USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_fields_tenant_guid_idx ON ONLY lily.asset_fields USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_fields_0_tenant_guid_idx ON lily.asset_fields_0 USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_fields_tenant_parent_guid_idx ON ONLY lily.asset_fields USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_fields_0_tenant_parent_guid_idx ON lily.asset_fields_0 USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_fields_updated_at_idx ON ONLY lily.asset_fields USING brin (updated_at);

CREATE INDEX asset_fields_0_updated_at_idx ON lily.asset_fields_0 USING brin (updated_at);

CREATE INDEX asset_fields_1_own_tags_idx ON lily.asset_fields_1 USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_fields_1_search_idx ON lily.asset_fields_1 USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_fields_1_tenant_expires_at_idx ON lily.asset_fields_1 USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_fields_1_tenant_guid_idx ON lily.asset_fields_1 USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_fields_1_tenant_parent_guid_idx ON lily.asset_fields_1 USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_fields_1_updated_at_idx ON lily.asset_fields_1 USING brin (updated_at);

CREATE INDEX asset_fields_2_own_tags_idx ON lily.asset_fields_2 USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_fields_2_search_idx ON lily.asset_fields_2 USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_fields_2_tenant_expires_at_idx ON lily.asset_fields_2 USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_fields_2_tenant_guid_idx ON lily.asset_fields_2 USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_fields_2_tenant_parent_guid_idx ON lily.asset_fields_2 USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_fields_2_updated_at_idx ON lily.asset_fields_2 USING brin (updated_at);

CREATE INDEX asset_fields_3_own_tags_idx ON lily.asset_fields_3 USING gin (own_tags) WHERE (own_tags IS NOT NULL);

CREATE INDEX asset_fields_3_search_idx ON lily.asset_fields_3 USING gin (search) WITH (gin_pending_list_limit='1024');

CREATE INDEX asset_fields_3_tenant_expires_at_idx ON lily.asset_fields_3 USING btree (tenant, expires_at) WHERE (expires_at IS NOT NULL);

CREATE INDEX asset_fields_3_tenant_guid_idx ON lily.asset_fields_3 USING btree (tenant, guid) WHERE ((deleted_by IS NOT NULL) OR (archived_at IS NOT NULL));

CREATE INDEX asset_fields_3_tenant_parent_guid_idx ON lily.asset_fields_3 USING btree (tenant, parent, guid) WHERE (parent IS NOT NULL);

CREATE INDEX asset_fields_3_updated_at_idx ON lily.asset_fields_3 USING brin (updated_at);

CREATE INDEX crawl_run_history ON lily.crawl_run USING btree (tenant, connection, number);

CREATE UNIQUE INDEX crawl_run_one ON lily.crawl_run USING btree (tenant, connection) WHERE ((state = 'running'::text) AND (cause <> 'capture'::text));

CREATE INDEX crawl_run_open ON lily.crawl_run USING btree (tenant, not_before) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE UNIQUE INDEX dead_letter_cause ON lily.dead_letter USING btree (tenant, cause);

CREATE INDEX dead_letter_state ON lily.dead_letter USING btree (tenant, state, at, id);

CREATE INDEX delivery_due ON lily.delivery USING btree (tenant, connection, due_at, number) WHERE (state = 'waiting'::text);

CREATE UNIQUE INDEX delivery_name ON lily.delivery USING btree (tenant, notification_id) WHERE (notification_id IS NOT NULL);

CREATE INDEX delivery_page ON lily.delivery USING btree (tenant, number);

CREATE INDEX delivery_sending ON lily.delivery USING btree (worker) WHERE (state = 'sending'::text);

CREATE INDEX delivery_thread ON lily.delivery USING btree (tenant, connection, thread, number) WHERE ((thread IS NOT NULL) AND (state = ANY (ARRAY['waiting'::text, 'sending'::text])));

CREATE INDEX edge_claim_job ON lily.edge_claim USING btree (tenant, source) WHERE (source ~~ 'job:%'::text);

CREATE INDEX edge_down_top ON lily.edge USING btree (tenant, down_top, up_top, type) WHERE (level = 'column'::text);

CREATE INDEX edge_downstream ON lily.edge USING btree (tenant, downstream, upstream);

CREATE INDEX edge_implies ON lily.edge USING btree (tenant, implies) WHERE (implies IS NOT NULL);

CREATE INDEX edge_job ON lily.edge USING btree (tenant, source) WHERE (source ~~ 'job:%'::text);

CREATE INDEX edge_up_top ON lily.edge USING btree (tenant, up_top, down_top, type) WHERE (level = 'column'::text);

CREATE INDEX edge_upstream ON lily.edge USING btree (tenant, upstream, downstream);

CREATE INDEX fact_asset ON lily.fact USING btree (tenant, guid, "position") WHERE (guid IS NOT NULL);

CREATE INDEX idempotency_at_idx ON lily.idempotency USING btree (at);

CREATE INDEX identity_provider_issuer ON lily.identity_provider USING btree (issuer);

CREATE INDEX incident_asset ON lily.incident USING btree (tenant, guid) WHERE (guid IS NOT NULL);

CREATE INDEX incident_external_incident ON lily.incident_external USING btree (tenant, incident);

CREATE INDEX incident_live ON lily.incident USING btree (tenant, guid) WHERE (state = ANY (ARRAY['open'::text, 'acknowledged'::text]));

CREATE INDEX incident_page ON lily.incident USING btree (tenant, number);

CREATE INDEX incident_parked ON lily.incident USING btree (tenant, number) WHERE ((guid IS NULL) AND (state <> 'resolved'::text));

CREATE UNIQUE INDEX incident_rule ON lily.incident USING btree (tenant, source, rule, COALESCE(guid, '00000000-0000-0000-0000-000000000000'::uuid)) WHERE ((rule <> ''::text) AND (state <> 'resolved'::text));

CREATE INDEX job_newest ON lily.job USING btree (tenant, accepted_at DESC, id DESC);

CREATE INDEX job_waiting ON lily.job USING btree (accepted_at) WHERE (state = ANY (ARRAY['queued'::text, 'running'::text]));

CREATE INDEX login_failure_tenant_address_at_idx ON lily.login_failure USING btree (tenant, address, at);

CREATE INDEX login_failure_tenant_username_at_idx ON lily.login_failure USING btree (tenant, username, at);

CREATE INDEX notice_at ON lily.notice USING btree (tenant, at);

CREATE INDEX notice_inbox ON lily.notice USING btree (tenant, recipient, number) WHERE (recipient <> ''::text);

CREATE INDEX notice_unread ON lily.notice USING btree (tenant, recipient) WHERE ((recipient <> ''::text) AND (read_at IS NULL));

CREATE INDEX policy_resource ON lily.policy USING btree (tenant, resource_kind, resource_id);

CREATE UNIQUE INDEX propagated_one ON lily.propagated USING btree (tenant, guid, field, name, md5(value), rule) NULLS NOT DISTINCT;

CREATE INDEX propagated_root ON lily.propagated USING btree (root, tenant);

CREATE INDEX propagation_task_open ON lily.propagation_task USING btree (tenant, size, created_at) WHERE (state = 'waiting'::text);

CREATE INDEX protection_due ON lily.protection USING btree (tenant, connection, next_at);

CREATE INDEX run_job ON lily.run USING btree (tenant, job_namespace, job_name, updated_at DESC, id);

CREATE INDEX run_recent ON lily.run USING btree (tenant, updated_at DESC, id);

CREATE INDEX signal_key_at ON lily.signal_key USING btree (tenant, at);

CREATE INDEX tag_assignment_due ON lily.tag_assignment USING btree (tenant, (
CASE state
    WHEN 'scheduled'::text THEN valid_from
    ELSE valid_until
END)) WHERE (((state = 'scheduled'::text) AND (valid_from IS NOT NULL)) OR ((state = 'active'::text) AND (valid_until IS NOT NULL)));

CREATE INDEX tag_assignment_name ON lily.tag_assignment USING btree (tenant, kind, tag);

CREATE INDEX tag_assignment_suggested ON lily.tag_assignment USING btree (tenant, guid, tag, by) WHERE (state = 'suggested'::text);

CREATE INDEX tenant_moved ON lily.tenant USING btree (moved_at) WHERE (moved_at IS NOT NULL);

CREATE INDEX token_tenant_subject_idx ON lily.token USING btree (tenant, subject);

CREATE INDEX webhook_claim_account ON lily.webhook_claim USING btree (plugin, account);

ALTER INDEX lily.asset_core_own_tags_idx ATTACH PARTITION lily.asset_core_0_own_tags_idx;

ALTER INDEX lily.asset_core_pkey ATTACH PARTITION lily.asset_core_0_pkey;

ALTER INDEX lily.asset_core_search_idx ATTACH PARTITION lily.asset_core_0_search_idx;

ALTER INDEX lily.asset_core_tenant_expires_at_idx ATTACH PARTITION lily.asset_core_0_tenant_expires_at_idx;

ALTER INDEX lily.asset_core_tenant_guid_idx ATTACH PARTITION lily.asset_core_0_tenant_guid_idx;

ALTER INDEX lily.asset_core_tenant_parent_guid_idx ATTACH PARTITION lily.asset_core_0_tenant_parent_guid_idx;

ALTER INDEX lily.asset_core_updated_at_idx ATTACH PARTITION lily.asset_core_0_updated_at_idx;

ALTER INDEX lily.asset_core_own_tags_idx ATTACH PARTITION lily.asset_core_1_own_tags_idx;

ALTER INDEX lily.asset_core_pkey ATTACH PARTITION lily.asset_core_1_pkey;

ALTER INDEX lily.asset_core_search_idx ATTACH PARTITION lily.asset_core_1_search_idx;

ALTER INDEX lily.asset_core_tenant_expires_at_idx ATTACH PARTITION lily.asset_core_1_tenant_expires_at_idx;

ALTER INDEX lily.asset_core_tenant_guid_idx ATTACH PARTITION lily.asset_core_1_tenant_guid_idx;

ALTER INDEX lily.asset_core_tenant_parent_guid_idx ATTACH PARTITION lily.asset_core_1_tenant_parent_guid_idx;

ALTER INDEX lily.asset_core_updated_at_idx ATTACH PARTITION lily.asset_core_1_updated_at_idx;

ALTER INDEX lily.asset_own_tags ATTACH PARTITION lily.asset_core_own_tags_idx;

ALTER INDEX lily.asset_pkey ATTACH PARTITION lily.asset_core_pkey;

ALTER INDEX lily.asset_search ATTACH PARTITION lily.asset_core_search_idx;

ALTER INDEX lily.asset_expiry ATTACH PARTITION lily.asset_core_tenant_expires_at_idx;

ALTER INDEX lily.asset_hidden ATTACH PARTITION lily.asset_core_tenant_guid_idx;

ALTER INDEX lily.asset_parent ATTACH PARTITION lily.asset_core_tenant_parent_guid_idx;

ALTER INDEX lily.asset_updated ATTACH PARTITION lily.asset_core_updated_at_idx;

ALTER INDEX lily.asset_fields_own_tags_idx ATTACH PARTITION lily.asset_fields_0_own_tags_idx;

ALTER INDEX lily.asset_fields_pkey ATTACH PARTITION lily.asset_fields_0_pkey;

ALTER INDEX lily.asset_fields_search_idx ATTACH PARTITION lily.asset_fields_0_search_idx;

ALTER INDEX lily.asset_fields_tenant_expires_at_idx ATTACH PARTITION lily.asset_fields_0_tenant_expires_at_idx;

ALTER INDEX lily.asset_fields_tenant_guid_idx ATTACH PARTITION lily.asset_fields_0_tenant_guid_idx;

ALTER INDEX lily.asset_fields_tenant_parent_guid_idx ATTACH PARTITION lily.asset_fields_0_tenant_parent_guid_idx;

ALTER INDEX lily.asset_fields_updated_at_idx ATTACH PARTITION lily.asset_fields_0_updated_at_idx;

ALTER INDEX lily.asset_fields_own_tags_idx ATTACH PARTITION lily.asset_fields_1_own_tags_idx;

ALTER INDEX lily.asset_fields_pkey ATTACH PARTITION lily.asset_fields_1_pkey;

ALTER INDEX lily.asset_fields_search_idx ATTACH PARTITION lily.asset_fields_1_search_idx;

ALTER INDEX lily.asset_fields_tenant_expires_at_idx ATTACH PARTITION lily.asset_fields_1_tenant_expires_at_idx;

ALTER INDEX lily.asset_fields_tenant_guid_idx ATTACH PARTITION lily.asset_fields_1_tenant_guid_idx;

ALTER INDEX lily.asset_fields_tenant_parent_guid_idx ATTACH PARTITION lily.asset_fields_1_tenant_parent_guid_idx;

ALTER INDEX lily.asset_fields_updated_at_idx ATTACH PARTITION lily.asset_fields_1_updated_at_idx;

ALTER INDEX lily.asset_fields_own_tags_idx ATTACH PARTITION lily.asset_fields_2_own_tags_idx;

ALTER INDEX lily.asset_fields_pkey ATTACH PARTITION lily.asset_fields_2_pkey;

ALTER INDEX lily.asset_fields_search_idx ATTACH PARTITION lily.asset_fields_2_search_idx;

ALTER INDEX lily.asset_fields_tenant_expires_at_idx ATTACH PARTITION lily.asset_fields_2_tenant_expires_at_idx;

ALTER INDEX lily.asset_fields_tenant_guid_idx ATTACH PARTITION lily.asset_fields_2_tenant_guid_idx;

ALTER INDEX lily.asset_fields_tenant_parent_guid_idx ATTACH PARTITION lily.asset_fields_2_tenant_parent_guid_idx;

ALTER INDEX lily.asset_fields_updated_at_idx ATTACH PARTITION lily.asset_fields_2_updated_at_idx;

ALTER INDEX lily.asset_fields_own_tags_idx ATTACH PARTITION lily.asset_fields_3_own_tags_idx;

ALTER INDEX lily.asset_fields_pkey ATTACH PARTITION lily.asset_fields_3_pkey;

ALTER INDEX lily.asset_fields_search_idx ATTACH PARTITION lily.asset_fields_3_search_idx;

ALTER INDEX lily.asset_fields_tenant_expires_at_idx ATTACH PARTITION lily.asset_fields_3_tenant_expires_at_idx;

ALTER INDEX lily.asset_fields_tenant_guid_idx ATTACH PARTITION lily.asset_fields_3_tenant_guid_idx;

ALTER INDEX lily.asset_fields_tenant_parent_guid_idx ATTACH PARTITION lily.asset_fields_3_tenant_parent_guid_idx;

ALTER INDEX lily.asset_fields_updated_at_idx ATTACH PARTITION lily.asset_fields_3_updated_at_idx;

ALTER INDEX lily.asset_own_tags ATTACH PARTITION lily.asset_fields_own_tags_idx;

ALTER INDEX lily.asset_pkey ATTACH PARTITION lily.asset_fields_pkey;

ALTER INDEX lily.asset_search ATTACH PARTITION lily.asset_fields_search_idx;

ALTER INDEX lily.asset_expiry ATTACH PARTITION lily.asset_fields_tenant_expires_at_idx;

ALTER INDEX lily.asset_hidden ATTACH PARTITION lily.asset_fields_tenant_guid_idx;

ALTER INDEX lily.asset_parent ATTACH PARTITION lily.asset_fields_tenant_parent_guid_idx;

ALTER INDEX lily.asset_updated ATTACH PARTITION lily.asset_fields_updated_at_idx;

ALTER INDEX lily.log_pkey ATTACH PARTITION lily.log_core_pkey;

ALTER INDEX lily.log_pkey ATTACH PARTITION lily.log_fields_pkey;

ALTER TABLE ONLY lily.move
    ADD CONSTRAINT move_number_fkey FOREIGN KEY (number) REFERENCES lily.tenant(number);

ALTER TABLE ONLY lily.move
    ADD CONSTRAINT move_source_fkey FOREIGN KEY (source) REFERENCES lily.cell(name);

ALTER TABLE ONLY lily.move
    ADD CONSTRAINT move_target_fkey FOREIGN KEY (target) REFERENCES lily.cell(name);

ALTER TABLE ONLY lily.tenant
    ADD CONSTRAINT tenant_cell_fkey FOREIGN KEY (cell) REFERENCES lily.cell(name);

ALTER TABLE ONLY lily.webhook_endpoint
    ADD CONSTRAINT webhook_endpoint_tenant_connection_fkey FOREIGN KEY (tenant, connection) REFERENCES lily.connection(tenant, id) ON DELETE CASCADE;

CREATE POLICY app ON lily.asset TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_alias TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_core TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_core_0 TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_core_1 TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_fields TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_fields_0 TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_fields_1 TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_fields_2 TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_fields_3 TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.asset_source TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.block TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.channel_token TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.circle TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.connection TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.consumer TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.crawl_capture TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.crawl_run TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.crawl_seen TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.crawl_state TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.dead_letter TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.delivery TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.delivery_attempt TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.edge TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.edge_claim TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.fact TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.feed_head TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.idempotency TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.identity_provider TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.incident TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.incident_event TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.incident_external TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.job TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.job_chunk TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.job_error TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.lineage_job TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.login_failure TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.notice TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.notice_mute TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.outlet TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.person TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.policy TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.producer_key TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.propagated TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.propagation_rule TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.propagation_task TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.protection TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.protection_ledger TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.remote_handle TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.rule_attachment TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.run TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.scraper_policy TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.service_account TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.signal_key TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.subscription TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.tag_assignment TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.tag_def TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.tag_settings TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.term_def TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.token TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.tombstone TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.webhook_claim TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

CREATE POLICY app ON lily.webhook_endpoint TO lily_app USING ((tenant = ( SELECT lily.tenant() AS tenant))) WITH CHECK ((tenant = ( SELECT lily.tenant() AS tenant)));

ALTER TABLE lily.asset ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_alias ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_core ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_core_0 ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_core_1 ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_0 ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_1 ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_2 ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_fields_3 ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.asset_source ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.block ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.channel_token ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.circle ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.connection ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.consumer ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_capture ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_run ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_seen ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.crawl_state ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.dead_letter ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.delivery ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.delivery_attempt ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.edge ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.edge_claim ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.fact ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.feed_head ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.idempotency ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.identity_provider ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.incident ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.incident_event ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.incident_external ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.job ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.job_chunk ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.job_error ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.lineage_job ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.login_failure ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.notice ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.notice_mute ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.outlet ENABLE ROW LEVEL SECURITY;

CREATE POLICY owner ON lily.asset TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_alias TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_core TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_core_0 TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_core_1 TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_fields TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_fields_0 TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_fields_1 TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_fields_2 TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_fields_3 TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.asset_source TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.block TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.channel_token TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.circle TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.connection TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.consumer TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.crawl_capture TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.crawl_run TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.crawl_seen TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.crawl_state TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.dead_letter TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.delivery TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.delivery_attempt TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.edge TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.edge_claim TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.fact TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.feed_head TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.idempotency TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.identity_provider TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.incident TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.incident_event TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.incident_external TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.job TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.job_chunk TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.job_error TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.lineage_job TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.login_failure TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.notice TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.notice_mute TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.outlet TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.person TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.policy TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.producer_key TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.propagated TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.propagation_rule TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.propagation_task TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.protection TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.protection_ledger TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.remote_handle TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.rule_attachment TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.run TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.scraper_policy TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.service_account TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.signal_key TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.subscription TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.tag_assignment TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.tag_def TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.tag_settings TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.term_def TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.token TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.tombstone TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.webhook_claim TO lily_owner USING (true) WITH CHECK (true);

CREATE POLICY owner ON lily.webhook_endpoint TO lily_owner USING (true) WITH CHECK (true);

ALTER TABLE lily.person ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.policy ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.producer_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.propagated ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.propagation_rule ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.propagation_task ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.protection ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.protection_ledger ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.remote_handle ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.rule_attachment ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.run ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.scraper_policy ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.service_account ENABLE ROW LEVEL SECURITY;

CREATE POLICY sight ON lily.asset AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR lily.visible(tenant, guid, asset_type, parent, (tags || COALESCE(own_tags, '{}'::text[])))));

CREATE POLICY sight ON lily.asset_alias AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

CREATE POLICY sight ON lily.asset_source AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

CREATE POLICY sight ON lily.edge AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (lily.visible(tenant, upstream) AND lily.visible(tenant, downstream))));

CREATE POLICY sight ON lily.fact AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR (lily.visible(tenant, guid) AND ((kind !~~ 'Edge%'::text) OR lily.visible(tenant, ((((payload)::jsonb -> 'after'::text) ->> 'upstream'::text))::uuid)))));

CREATE POLICY sight ON lily.incident AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

CREATE POLICY sight ON lily.notice AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

CREATE POLICY sight ON lily.propagated AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

CREATE POLICY sight ON lily.protection AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

CREATE POLICY sight ON lily.tag_assignment AS RESTRICTIVE FOR SELECT TO lily_app USING ((( SELECT lily.sees_everything() AS sees_everything) OR (guid IS NULL) OR lily.visible(tenant, guid)));

ALTER TABLE lily.signal_key ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.subscription ENABLE ROW LEVEL SECURITY;

CREATE POLICY system ON lily.asset TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_alias TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_core TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_core_0 TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_core_1 TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_fields TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_fields_0 TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_fields_1 TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_fields_2 TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_fields_3 TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.asset_source TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.block TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.channel_token TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.circle TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.connection TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.consumer TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.crawl_capture TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.crawl_run TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.crawl_seen TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.crawl_state TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.dead_letter TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.delivery TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.delivery_attempt TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.edge TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.edge_claim TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.fact TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.feed_head TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.idempotency TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.identity_provider TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.incident TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.incident_event TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.incident_external TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.job TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.job_chunk TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.job_error TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.lineage_job TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.login_failure TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.notice TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.notice_mute TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.outlet TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.person TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.policy TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.producer_key TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.propagated TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.propagation_rule TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.propagation_task TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.protection TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.protection_ledger TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.remote_handle TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.rule_attachment TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.run TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.scraper_policy TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.service_account TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.signal_key TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.subscription TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.tag_assignment TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.tag_def TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.tag_settings TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.term_def TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.token TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.tombstone TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.webhook_claim TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

CREATE POLICY system ON lily.webhook_endpoint TO lily_system USING ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[]))) WITH CHECK ((tenant = ANY (( SELECT lily.tenants() AS tenants)::integer[])));

ALTER TABLE lily.tag_assignment ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.tag_def ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.tag_settings ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.term_def ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.token ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.tombstone ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.webhook_claim ENABLE ROW LEVEL SECURITY;

ALTER TABLE lily.webhook_endpoint ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA lily TO lily_app;
GRANT USAGE ON SCHEMA lily TO lily_system;

REVOKE ALL ON FUNCTION lily.assets_named(its_tenant integer, wanted tsquery, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.assets_named(its_tenant integer, wanted tsquery, most integer) TO lily_app;
GRANT ALL ON FUNCTION lily.assets_named(its_tenant integer, wanted tsquery, most integer) TO lily_system;

REVOKE ALL ON FUNCTION lily.fields_waiting(container text, most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.fields_waiting(container text, most integer) TO lily_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.identity_provider TO lily_app;

REVOKE ALL ON FUNCTION lily.identity_providers(its_issuer text) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.identity_providers(its_issuer text) TO lily_app;

REVOKE ALL ON FUNCTION lily.lanes_behind(most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.lanes_behind(most integer) TO lily_app;

REVOKE ALL ON FUNCTION lily.reserve_offsets(lines bigint, OUT core bigint, OUT fields bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.reserve_offsets(lines bigint, OUT core bigint, OUT fields bigint) TO lily_system;

REVOKE ALL ON FUNCTION lily.search(wanted tsquery, exact tsquery, in_name tsquery, in_path tsquery, since timestamp with time zone, shown text, after_mode text, after_rank integer, after_name text, after_guid uuid, page integer, OUT mode text, OUT total integer, OUT total_is_exact boolean, OUT facets jsonb, OUT ranks integer[], OUT names text[], OUT guids uuid[]) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.search(wanted tsquery, exact tsquery, in_name tsquery, in_path tsquery, since timestamp with time zone, shown text, after_mode text, after_rank integer, after_name text, after_guid uuid, page integer, OUT mode text, OUT total integer, OUT total_is_exact boolean, OUT facets jsonb, OUT ranks integer[], OUT names text[], OUT guids uuid[]) TO lily_app;

REVOKE ALL ON FUNCTION lily.search_condition(wanted tsquery, since timestamp with time zone, shown text) FROM PUBLIC;

REVOKE ALL ON FUNCTION lily.search_estimate(condition text, wanted tsquery, since timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION lily.search_section(condition text, its_lane text, wanted tsquery, since timestamp with time zone, beyond uuid, page integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION lily.take_stock() FROM PUBLIC;
GRANT ALL ON FUNCTION lily.take_stock() TO lily_system;

REVOKE ALL ON FUNCTION lily.tidy_search() FROM PUBLIC;
GRANT ALL ON FUNCTION lily.tidy_search() TO lily_system;

REVOKE ALL ON FUNCTION lily.webhook_claims(its_plugin text, its_account text) FROM PUBLIC;
GRANT ALL ON FUNCTION lily.webhook_claims(its_plugin text, its_account text) TO lily_app;

GRANT SELECT ON TABLE lily.applied TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.applied TO lily_system;

GRANT SELECT ON TABLE lily.archived TO lily_app;
GRANT SELECT,UPDATE ON TABLE lily.archived TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.asset TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.asset TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.asset_alias TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.asset_alias TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.asset_source TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.asset_source TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.block TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.block TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.cell TO lily_app;
GRANT SELECT ON TABLE lily.cell TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.channel_token TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.circle TO lily_app;
GRANT SELECT ON TABLE lily.circle TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.connection TO lily_app;
GRANT SELECT ON TABLE lily.connection TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.consumer TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.consumer TO lily_system;

GRANT SELECT ON TABLE lily.crawl_capture TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.crawl_capture TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.crawl_run TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.crawl_run TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.crawl_seen TO lily_system;

GRANT SELECT ON TABLE lily.crawl_state TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.crawl_state TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.dead_letter TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.dead_letter TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.delivery TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.delivery TO lily_system;

GRANT SELECT ON TABLE lily.delivery_attempt TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.delivery_attempt TO lily_system;

GRANT SELECT ON TABLE lily.departure TO lily_app;
GRANT SELECT ON TABLE lily.departure TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.edge TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.edge TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.edge_claim TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.edge_claim TO lily_system;

GRANT SELECT,INSERT ON TABLE lily.fact TO lily_app;
GRANT SELECT,INSERT ON TABLE lily.fact TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.feed_head TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.feed_head TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.idempotency TO lily_app;
GRANT SELECT,DELETE ON TABLE lily.idempotency TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.incident TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.incident TO lily_system;

GRANT SELECT,INSERT ON TABLE lily.incident_event TO lily_app;
GRANT SELECT,INSERT ON TABLE lily.incident_event TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.incident_external TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.incident_external TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.job TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.job TO lily_system;

GRANT SELECT ON TABLE lily.job_chunk TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.job_chunk TO lily_system;

GRANT SELECT ON TABLE lily.job_error TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.job_error TO lily_system;

GRANT SELECT ON TABLE lily.lease TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.lease TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.lineage_job TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.lineage_job TO lily_system;

GRANT SELECT ON TABLE lily.live_edge TO lily_app;
GRANT SELECT ON TABLE lily.live_edge TO lily_system;

GRANT INSERT ON TABLE lily.log TO lily_app;
GRANT SELECT,INSERT,DELETE ON TABLE lily.log TO lily_system;

GRANT SELECT,DELETE ON TABLE lily.log_core TO lily_system;

GRANT USAGE ON SEQUENCE lily.log_core_offset TO lily_app;
GRANT USAGE ON SEQUENCE lily.log_core_offset TO lily_system;

GRANT SELECT,DELETE ON TABLE lily.log_fields TO lily_system;

GRANT USAGE ON SEQUENCE lily.log_fields_offset TO lily_app;
GRANT USAGE ON SEQUENCE lily.log_fields_offset TO lily_system;

GRANT SELECT,INSERT,DELETE ON TABLE lily.login_failure TO lily_app;
GRANT SELECT,DELETE ON TABLE lily.login_failure TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.move TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.move TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.notice TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.notice TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.notice_mute TO lily_app;
GRANT SELECT ON TABLE lily.notice_mute TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.outlet TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.outlet TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.person TO lily_app;

GRANT SELECT(tenant) ON TABLE lily.person TO lily_system;

GRANT SELECT(username) ON TABLE lily.person TO lily_system;

GRANT SELECT(role) ON TABLE lily.person TO lily_system;

GRANT SELECT(active) ON TABLE lily.person TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.policy TO lily_app;
GRANT SELECT ON TABLE lily.policy TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.process TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.process TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.producer_key TO lily_app;
GRANT SELECT ON TABLE lily.producer_key TO lily_system;

GRANT SELECT,DELETE ON TABLE lily.propagated TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.propagated TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.propagation_rule TO lily_app;
GRANT SELECT ON TABLE lily.propagation_rule TO lily_system;

GRANT SELECT ON TABLE lily.propagation_task TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.propagation_task TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.protection TO lily_system;
GRANT SELECT,UPDATE ON TABLE lily.protection TO lily_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.protection_ledger TO lily_system;
GRANT SELECT ON TABLE lily.protection_ledger TO lily_app;

GRANT SELECT ON TABLE lily.remote_handle TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.remote_handle TO lily_system;

GRANT SELECT,INSERT ON TABLE lily.revocation TO lily_app;
GRANT SELECT,DELETE ON TABLE lily.revocation TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.rule_attachment TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.rule_attachment TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.run TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.run TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.scraper_policy TO lily_app;
GRANT SELECT ON TABLE lily.scraper_policy TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.service_account TO lily_app;

GRANT SELECT(tenant) ON TABLE lily.service_account TO lily_system;

GRANT SELECT(name) ON TABLE lily.service_account TO lily_system;

GRANT SELECT(role) ON TABLE lily.service_account TO lily_system;

GRANT SELECT(active) ON TABLE lily.service_account TO lily_system;

GRANT SELECT,INSERT ON TABLE lily.signal_key TO lily_app;
GRANT SELECT,INSERT,DELETE ON TABLE lily.signal_key TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.subscription TO lily_app;
GRANT SELECT ON TABLE lily.subscription TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.tag_assignment TO lily_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.tag_assignment TO lily_system;

GRANT SELECT ON TABLE lily.tag_builtin TO lily_app;
GRANT SELECT ON TABLE lily.tag_builtin TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.tag_def TO lily_app;
GRANT SELECT,INSERT ON TABLE lily.tag_def TO lily_system;

GRANT SELECT ON TABLE lily.tag_definition TO lily_app;
GRANT SELECT ON TABLE lily.tag_definition TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.tag_settings TO lily_app;
GRANT SELECT ON TABLE lily.tag_settings TO lily_system;

GRANT UPDATE(refold) ON TABLE lily.tag_settings TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.tenant TO lily_app;
GRANT SELECT ON TABLE lily.tenant TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.term_def TO lily_app;
GRANT SELECT,INSERT ON TABLE lily.term_def TO lily_system;

GRANT SELECT ON TABLE lily.term_definition TO lily_app;
GRANT SELECT ON TABLE lily.term_definition TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.token TO lily_app;
GRANT SELECT,DELETE ON TABLE lily.token TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.token_key TO lily_app;
GRANT SELECT ON TABLE lily.token_key TO lily_system;

GRANT SELECT,INSERT,UPDATE ON TABLE lily.tombstone TO lily_app;
GRANT SELECT,INSERT,UPDATE ON TABLE lily.tombstone TO lily_system;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.webhook_claim TO lily_app;

GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE lily.webhook_endpoint TO lily_app;
