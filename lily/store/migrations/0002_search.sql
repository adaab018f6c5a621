-- Search. Operators like @@ lose their index under row security, so these functions run as the
-- owner, who sees every row, and bind the tenant themselves: nobody can name another one.

SET LOCAL search_path = lily;

-- What is out of sight. Fields follow their parent, and look here for it.
CREATE INDEX asset_hidden ON asset (tenant, guid)
  WHERE deleted_by IS NOT NULL OR archived_at IS NOT NULL;

-- Which rows a search means, as the text of a condition on `asset a`. $1 tenant, $2 tsquery,
-- $3 updated since. Nothing of the caller is in the text but the choice of its parts.
CREATE FUNCTION search_condition(wanted tsquery, since timestamptz, shown text)
RETURNS text LANGUAGE sql IMMUTABLE AS $$
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
$$;

-- How many rows the planner expects: good enough to choose a way, never shown.
CREATE FUNCTION search_estimate(condition text, wanted tsquery, since timestamptz)
RETURNS float LANGUAGE plpgsql VOLATILE AS $$
DECLARE plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) SELECT FROM asset a WHERE ' || condition
    INTO plan USING lily.tenant(), wanted, since;
  RETURN (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float;
END $$;

-- The next rows of one lane by guid. Many matches are found soon by walking the primary key, few
-- by the index on words; a wrong guess costs a bounded walk or a bounded bitmap, not a table.
CREATE FUNCTION search_section(
  condition text, its_lane text, wanted tsquery, since timestamptz, beyond uuid, page int
) RETURNS SETOF uuid LANGUAGE plpgsql VOLATILE AS $$
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
END $$;

-- A page of a search. Up to 2,000 matches are ranked: exact name, all words in the name, in the
-- qualified name, anywhere; then lane, name, guid. More are listed: exact names first, then the
-- rest, each by lane and guid. A page that follows another keeps its way (`after_mode`), so that
-- walking all pages meets every match once. `exact` is the whole name and the filters.
CREATE FUNCTION search(
  wanted tsquery, exact tsquery, in_name tsquery, in_path tsquery,
  since timestamptz, shown text,
  after_mode text, after_rank int, after_name text, after_guid uuid, page int,
  OUT mode text, OUT total int, OUT total_is_exact boolean, OUT facets jsonb,
  OUT ranks int[], OUT names text[], OUT guids uuid[]
) LANGUAGE plpgsql VOLATILE SECURITY DEFINER
  SET search_path = lily, pg_temp SET random_page_cost = 1.1 SET jit = off AS $$
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
END $$;

REVOKE ALL ON FUNCTION search_condition, search_estimate, search_section, search FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search TO lily_app;
