-- What engines were told to keep from whom, what they say of it, and how it was before.

SET LOCAL search_path = lily;

CREATE TABLE protection (
  tenant      int NOT NULL,
  connection  uuid NOT NULL,
  guid        uuid NOT NULL,             -- the table
  object      text NOT NULL,             -- its qualified name, as the engine's crawler says it
  state       text NOT NULL DEFAULT 'pending' CHECK (state IN
    ('pending', 'applied', 'verified', 'failed', 'drifted', 'unenforceable', 'planned')),
  reason      text NOT NULL DEFAULT '',
  columns     jsonb NOT NULL DEFAULT '{}', -- per column: tags, effect, policies
  exempt      jsonb NOT NULL DEFAULT '{}', -- per column: who reads it in the clear
  findings    jsonb NOT NULL DEFAULT '[]',
  plan        jsonb NOT NULL DEFAULT '[]',
  fingerprint text NOT NULL DEFAULT '',
  attempts    int NOT NULL DEFAULT 0,
  asked_at    timestamptz NOT NULL,       -- since when it is wanted like this
  applied_at  timestamptz,
  verified_at timestamptz,
  next_at     timestamptz,                -- when it is tried, or looked at, again
  PRIMARY KEY (tenant, connection, guid)
);
CREATE INDEX protection_due ON protection (tenant, connection, next_at);
SELECT protect('protection');
SELECT veil('protection');

-- Written before an engine is touched; a row stays until what it tells is as it was.
CREATE TABLE protection_ledger (
  tenant      int NOT NULL,
  connection  uuid NOT NULL,
  object      text NOT NULL,
  kind        text NOT NULL,
  part        text NOT NULL DEFAULT '',
  grantee     text NOT NULL DEFAULT '',
  column_name text NOT NULL DEFAULT '',
  detail      jsonb NOT NULL DEFAULT '{}',
  at          timestamptz NOT NULL,
  PRIMARY KEY (tenant, connection, object, kind, part, grantee, column_name)
);
SELECT protect('protection_ledger');

GRANT SELECT, INSERT, UPDATE, DELETE ON protection, protection_ledger TO lily_system;
GRANT SELECT, UPDATE ON protection TO lily_app;
GRANT SELECT ON protection_ledger TO lily_app;
GRANT SELECT ON connection TO lily_system;

CREATE INDEX asset_own_tags ON asset USING gin (own_tags) WHERE own_tags IS NOT NULL;

-- The tenants of this transaction, whichever role it is of.
CREATE FUNCTION bound() RETURNS int[] LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN coalesce(current_setting('lily.tenants', true), '') <> ''
    THEN lily.tenants() ELSE ARRAY[lily.tenant()] END
$$;

-- The assets that bear one of these tags, found by the index on words.
CREATE FUNCTION bearing(tags text[]) RETURNS TABLE (guid uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT a.guid FROM asset a
   WHERE a.tenant = ANY (lily.bound()) AND cardinality(tags) > 0
     AND a.search @@ (SELECT string_agg(quote_literal('=tag:' || lower(t)), ' | ')
                        FROM unnest(tags) t)::tsquery
  UNION  -- what is not shown because another tag of its group is
  SELECT a.guid FROM asset a
   WHERE a.tenant = ANY (lily.bound()) AND a.own_tags IS NOT NULL AND a.own_tags && tags
$$;
