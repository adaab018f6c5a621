-- Signals: what other tools say of assets, the incidents that it makes, and how tools get in.

SET LOCAL search_path = lily;

CREATE TABLE incident (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  number      bigint GENERATED ALWAYS AS IDENTITY,  -- later incidents have greater numbers
  guid        uuid,                     -- the asset; null while nobody knows which
  source      text NOT NULL,            -- the tool that raised it
  external_id text NOT NULL DEFAULT '', -- its first id there
  rule        text NOT NULL DEFAULT '',
  title       text NOT NULL,
  description text NOT NULL DEFAULT '',
  severity    text NOT NULL CHECK (severity IN ('critical', 'high', 'medium', 'low')),
  state       text NOT NULL CHECK (state IN ('open', 'acknowledged', 'resolved', 'suppressed')),
  url         text NOT NULL DEFAULT '',
  owner       text NOT NULL DEFAULT '',
  names       text[] NOT NULL DEFAULT '{}',  -- what the tool calls the asset, best first
  candidates  uuid[] NOT NULL DEFAULT '{}',  -- the assets that it may mean, when it is not clear
  details     jsonb NOT NULL DEFAULT '{}',
  version     int NOT NULL DEFAULT 1,
  opened_at   timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX incident_asset ON incident (tenant, guid) WHERE guid IS NOT NULL;
CREATE INDEX incident_parked ON incident (tenant, number)
  WHERE guid IS NULL AND state <> 'resolved';
CREATE INDEX incident_live ON incident (tenant, guid) WHERE state IN ('open', 'acknowledged');
CREATE INDEX incident_page ON incident (tenant, number);
-- One at a time for an asset and a rule; what follows joins it.
CREATE UNIQUE INDEX incident_rule ON incident
  (tenant, source, rule, coalesce(guid, '00000000-0000-0000-0000-000000000000'))
  WHERE rule <> '' AND state <> 'resolved';
SELECT protect('incident');

-- The ids that a tool gave what is one incident here; it is over when all of them are.
CREATE TABLE incident_external (
  tenant      int NOT NULL,
  source      text NOT NULL,
  external_id text NOT NULL,
  incident    uuid NOT NULL,
  closed      boolean NOT NULL DEFAULT false,
  spoke_at    timestamptz NOT NULL,     -- the newest word on it; older ones change nothing
  spoke_at_offset bigint NOT NULL,
  PRIMARY KEY (tenant, source, external_id)
);
CREATE INDEX incident_external_incident ON incident_external (tenant, incident);
SELECT protect('incident_external');

CREATE TABLE incident_event (
  tenant      int NOT NULL,
  incident    uuid NOT NULL,
  number      bigint GENERATED ALWAYS AS IDENTITY,
  at          timestamptz NOT NULL,
  kind        text NOT NULL,            -- opened, state, changed, seen, attached, comment
  by          text NOT NULL,
  via         text NOT NULL,            -- where it came from: a tool, or person
  changes     jsonb NOT NULL DEFAULT '{}',
  comment     text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant, incident, number)
);
SELECT protect('incident_event');

-- Once a person says which asset a rule is about, what comes of that rule follows.
CREATE TABLE rule_attachment (
  tenant      int NOT NULL,
  source      text NOT NULL,
  rule        text NOT NULL,
  guid        uuid NOT NULL,
  by          text NOT NULL,
  at          timestamptz NOT NULL,
  PRIMARY KEY (tenant, source, rule)
);
SELECT protect('rule_attachment');

-- Messages that were heard: one that comes twice has one effect.
CREATE TABLE signal_key (
  tenant      int NOT NULL,
  key         text NOT NULL,
  at          timestamptz NOT NULL,
  PRIMARY KEY (tenant, key)
);
CREATE INDEX signal_key_at ON signal_key (tenant, at);
SELECT protect('signal_key');

-- Where a tool calls: `token` is the unguessable part of the address. After a change of options
-- the ones before stay good for a while, so that both sides need not change at once.
CREATE TABLE webhook_endpoint (
  tenant      int NOT NULL,
  connection  uuid NOT NULL,
  token       text NOT NULL,
  previous_options jsonb,
  previous_secrets bytea,               -- sealed like the connection's own
  previous_until timestamptz,
  PRIMARY KEY (tenant, connection),
  UNIQUE (tenant, token),
  FOREIGN KEY (tenant, connection) REFERENCES connection (tenant, id) ON DELETE CASCADE
);
SELECT protect('webhook_endpoint');

-- Home: which tenants say that an account of a tool is theirs. A hint; the signature decides.
CREATE TABLE webhook_claim (
  tenant      int NOT NULL,
  plugin      text NOT NULL,
  account     text NOT NULL,
  connection  uuid NOT NULL,
  PRIMARY KEY (tenant, connection)
);
CREATE INDEX webhook_claim_account ON webhook_claim (plugin, account);
SELECT protect('webhook_claim');

CREATE FUNCTION webhook_claims(its_plugin text, its_account text)
RETURNS TABLE (tenant int, connection uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT c.tenant, c.connection FROM webhook_claim c
   WHERE c.plugin = its_plugin AND c.account = its_account ORDER BY c.tenant, c.connection LIMIT 50
$$;

-- Home: whose word on people a tenant takes beside its own.
CREATE TABLE identity_provider (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  name        text NOT NULL,
  issuer      text NOT NULL,
  audience    text NOT NULL,            -- of access tokens that are shown to us
  client_id   text NOT NULL DEFAULT '', -- for logins; none without it
  secret      bytea,                    -- sealed
  groups_claim text NOT NULL DEFAULT 'groups',
  name_claim  text NOT NULL DEFAULT 'sub',
  roles       jsonb NOT NULL,           -- group: role; whoever is in none has no role
  enabled     boolean NOT NULL DEFAULT true,
  created_at  timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name)
);
CREATE INDEX identity_provider_issuer ON identity_provider (issuer);
SELECT protect('identity_provider');

-- A token names its issuer before anybody knows the tenant.
CREATE FUNCTION identity_providers(its_issuer text)
RETURNS SETOF identity_provider
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = lily, pg_temp AS $$
  SELECT * FROM identity_provider WHERE issuer = its_issuer AND enabled ORDER BY tenant, id LIMIT 50
$$;

-- Assets in whose name or qualified name all these words are. Runs as the owner, for the index
-- (see 0002), and only for a tenant that this transaction is bound to.
CREATE FUNCTION assets_named(its_tenant int, wanted tsquery, most int)
RETURNS TABLE (guid uuid, qualified_name text, asset_type text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
  SET search_path = lily, pg_temp SET random_page_cost = 1.1 SET jit = off AS $$
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

REVOKE ALL ON FUNCTION assets_named, webhook_claims, identity_providers FROM PUBLIC;
GRANT EXECUTE ON FUNCTION assets_named TO lily_app, lily_system;
GRANT EXECUTE ON FUNCTION webhook_claims, identity_providers TO lily_app;

GRANT SELECT, INSERT, UPDATE ON incident, incident_external, rule_attachment
  TO lily_app, lily_system;
GRANT SELECT, INSERT ON incident_event, signal_key TO lily_app, lily_system;
GRANT DELETE ON signal_key TO lily_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON webhook_endpoint, webhook_claim, identity_provider
  TO lily_app;
