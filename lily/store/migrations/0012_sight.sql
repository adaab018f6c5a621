-- What a caller may not see is not there: policies of the API's role look at every row, also of
-- what hangs on an asset. `lily.sight` is set with the tenant for each transaction of a request;
-- empty means that the caller sees everything, which costs nothing.

SET LOCAL search_path = lily;

CREATE FUNCTION sees_everything() RETURNS boolean LANGUAGE sql STABLE
  AS $$ SELECT coalesce(current_setting('lily.sight', true), '') = '' $$;

CREATE FUNCTION reached(reach jsonb, its_guid text, its_type text, chain text[], its_tags text[])
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((reach -> 'everything')::boolean, false)
      OR reach -> 'assets' ? its_guid
      OR reach -> 'types' ? its_type
      OR reach -> 'under' ?| chain
      OR reach -> 'tags' ?| its_tags
$$;

-- Reads the containers as the schema's owner: that they are hidden themselves must not matter.
CREATE FUNCTION visible(its_tenant int, its_guid uuid, its_type text, its_parent uuid, its_tags text[])
RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
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

-- For rows that only name an asset; what is no longer there shows to who sees everything.
CREATE FUNCTION visible(its_tenant int, its_guid uuid)
RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT coalesce((
    SELECT visible(a.tenant, a.guid, a.asset_type, a.parent, a.tags || coalesce(a.own_tags, '{}'))
      FROM asset a WHERE a.tenant = its_tenant AND a.guid = its_guid LIMIT 1), false)
$$;

CREATE POLICY sight ON asset AS RESTRICTIVE FOR SELECT TO lily_app
  USING ((SELECT sees_everything()) OR visible(tenant, guid, asset_type, parent, tags || coalesce(own_tags, '{}')));

-- Gives a table whose rows hang on an asset the same look.
CREATE FUNCTION veil(name regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE POLICY sight ON %s AS RESTRICTIVE FOR SELECT TO lily_app
    USING ((SELECT lily.sees_everything()) OR guid IS NULL OR lily.visible(tenant, guid))', name);
END $$;
SELECT veil(name::regclass) FROM unnest('{asset_source,asset_alias,tag_assignment,propagated,incident,notice}'::text[]) name;

-- A fact of an edge names both ends.
CREATE POLICY sight ON fact AS RESTRICTIVE FOR SELECT TO lily_app
  USING ((SELECT sees_everything()) OR guid IS NULL OR (visible(tenant, guid) AND (kind NOT LIKE 'Edge%'
    OR visible(tenant, (payload::jsonb -> 'after' ->> 'upstream')::uuid))));

CREATE POLICY sight ON edge AS RESTRICTIVE FOR SELECT TO lily_app
  USING ((SELECT sees_everything()) OR (visible(tenant, upstream) AND visible(tenant, downstream)));

-- Search reads as the owner, so it looks for itself.
CREATE OR REPLACE FUNCTION search_condition(wanted tsquery, since timestamptz, shown text)
RETURNS text LANGUAGE sql STABLE AS $$
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
$$;
