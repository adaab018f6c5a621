-- The whole schema of a cell. The home database is a cell that also knows tenants and logins.
-- Runs as the schema's owner (lily_owner); roles exist already (see store/migrate.py).

CREATE SCHEMA IF NOT EXISTS lily;
SET LOCAL search_path = lily;
GRANT USAGE ON SCHEMA lily TO lily_app, lily_system;

-- The tenant of this transaction; an error when nobody set it, so that forgetting fails closed.
CREATE FUNCTION tenant() RETURNS int LANGUAGE sql STABLE
  AS $$ SELECT current_setting('lily.tenant')::int $$;
CREATE FUNCTION tenants() RETURNS int[] LANGUAGE sql STABLE
  AS $$ SELECT current_setting('lily.tenants')::int[] $$;

-- Gives a tenant table its three policies. Every table with a column `tenant` needs them (tested).
CREATE FUNCTION protect(name regclass) RETURNS void LANGUAGE plpgsql AS $$
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

-- Home: where tenants live and who may log in ------------------------------------------------

CREATE TABLE cell (
  name       text PRIMARY KEY,
  url        bytea,                     -- sealed; null is the home database itself
  created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO cell (name) VALUES ('home');

CREATE TABLE tenant (
  number     int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         uuid NOT NULL UNIQUE,
  name       text NOT NULL UNIQUE,
  cell       text NOT NULL REFERENCES cell,
  isolation  text NOT NULL DEFAULT 'pooled' CHECK (isolation IN ('pooled', 'dedicated')),
  state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended')),
  settings   jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE person (
  tenant     int NOT NULL,
  id         uuid NOT NULL,
  username   text NOT NULL,
  name       text NOT NULL DEFAULT '',
  password   text NOT NULL,             -- argon2id
  role       text NOT NULL,
  platform   boolean NOT NULL DEFAULT false,
  active     boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, username)
);
SELECT protect('person');

CREATE TABLE service_account (
  tenant     int NOT NULL,
  id         uuid NOT NULL,             -- also the client_id
  name       text NOT NULL,
  secret     text NOT NULL,             -- argon2id
  role       text NOT NULL,
  active     boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name)
);
SELECT protect('service_account');

-- Personal and refresh tokens: only their SHA-256 is kept.
CREATE TABLE token (
  tenant     int NOT NULL,
  id         uuid NOT NULL,
  kind       text NOT NULL CHECK (kind IN ('personal', 'refresh')),
  subject    uuid NOT NULL,
  name       text NOT NULL DEFAULT '',
  digest     bytea NOT NULL,
  role       text,                      -- a personal token may be weaker than its owner
  session    uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  used_at    timestamptz,
  revoked_at timestamptz,
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, digest)
);
CREATE INDEX ON token (tenant, subject);
SELECT protect('token');

CREATE TABLE token_key (
  kid        text PRIMARY KEY,
  private    bytea NOT NULL,            -- sealed
  public     jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  retired_at timestamptz                -- still verifies until the last token it signed expires
);

-- Every API process follows this list; ids are opaque, so it needs no tenant.
CREATE TABLE revocation (
  number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         uuid NOT NULL,             -- a token, a session, or a subject
  before     timestamptz NOT NULL,      -- what was issued up to this moment is refused
  until      timestamptz NOT NULL       -- after this nothing issued before can still be valid
);

CREATE TABLE login_failure (
  tenant     int NOT NULL,
  username   text NOT NULL,
  address    text NOT NULL,
  at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON login_failure (tenant, username, at);
CREATE INDEX ON login_failure (tenant, address, at);
SELECT protect('login_failure');

-- The event log ------------------------------------------------------------------------------
-- No row security: the API may only append, only the pipeline reads.

CREATE SEQUENCE log_core_offset;
CREATE SEQUENCE log_fields_offset;
CREATE TABLE log (
  lane       text NOT NULL,
  "offset"   bigint NOT NULL,
  tenant     int NOT NULL,
  at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  key        text NOT NULL,
  value      text NOT NULL,
  PRIMARY KEY (lane, "offset")
) PARTITION BY LIST (lane);
CREATE TABLE log_core PARTITION OF log FOR VALUES IN ('core');
CREATE TABLE log_fields PARTITION OF log FOR VALUES IN ('fields');

CREATE TABLE applied (
  lane       text NOT NULL,
  part       int NOT NULL DEFAULT 0,
  position   bigint NOT NULL DEFAULT 0,
  batch      uuid,                      -- the batch that moved it here
  at         timestamptz NOT NULL DEFAULT now(),
  observed   timestamptz,               -- append time of the newest applied observation
  PRIMARY KEY (lane, part)
);
INSERT INTO applied (lane) VALUES ('core'), ('fields');

-- Assets -------------------------------------------------------------------------------------
-- The columns are the view. `statement` is null while the view is exactly what its only source
-- said; it holds that source's own registers as soon as a person or a second source joins in.

CREATE TABLE asset (
  tenant         int NOT NULL,
  lane           text NOT NULL,
  guid           uuid NOT NULL,
  qualified_name text NOT NULL,
  caller_id      text,
  asset_name     text NOT NULL,
  asset_type     text NOT NULL,
  asset_owner    text,
  description    text,
  parent         uuid,
  data_source    text,
  external_id    text,
  tags           text[] NOT NULL DEFAULT '{}',
  business_terms text[] NOT NULL DEFAULT '{}',
  metadata       jsonb NOT NULL DEFAULT '{}',
  details        jsonb,
  version        int NOT NULL,
  deleted_by     text,                  -- source, person, retention, or parent:<guid>
  deleted_at     timestamptz,
  archived_at    timestamptz,
  expires_at     timestamptz,           -- last observed + retention period
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  observed_at    timestamptz NOT NULL,
  applied_at     timestamptz NOT NULL,
  feed_position  bigint NOT NULL,
  cause          text NOT NULL,         -- of the last stored change
  source         text NOT NULL,         -- whose statement lives in this row
  log_offset     bigint NOT NULL,
  layers         smallint NOT NULL DEFAULT 0,  -- 1 more sources, 2 edits, 4 assignments
  statement      jsonb,
  edited         jsonb,
  search         tsvector NOT NULL,
  PRIMARY KEY (tenant, guid, lane)
) PARTITION BY LIST (lane);
CREATE TABLE asset_core PARTITION OF asset FOR VALUES IN ('core') PARTITION BY HASH (guid);
-- Rows of core assets stay in one piece up to half a page: the search vector is read with them.
CREATE TABLE asset_core_0 PARTITION OF asset_core FOR VALUES WITH (MODULUS 2, REMAINDER 0)
  WITH (toast_tuple_target = 4080);
CREATE TABLE asset_core_1 PARTITION OF asset_core FOR VALUES WITH (MODULUS 2, REMAINDER 1)
  WITH (toast_tuple_target = 4080);
CREATE TABLE asset_fields PARTITION OF asset FOR VALUES IN ('fields') PARTITION BY HASH (guid);
CREATE TABLE asset_fields_0 PARTITION OF asset_fields FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE asset_fields_1 PARTITION OF asset_fields FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE asset_fields_2 PARTITION OF asset_fields FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE asset_fields_3 PARTITION OF asset_fields FOR VALUES WITH (MODULUS 4, REMAINDER 3);
-- A search reads the whole pending list of each partition: a short one costs writers 5 % more,
-- a long one (4 MB is the default) costs every search 15 ms; none at all, writers five times more.
CREATE INDEX asset_search ON asset USING gin (search) WITH (gin_pending_list_limit = 1024);
CREATE INDEX asset_parent ON asset (tenant, parent, guid) WHERE parent IS NOT NULL;
CREATE INDEX asset_expiry ON asset (tenant, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX asset_updated ON asset USING brin (updated_at);
SELECT protect('asset');
SELECT protect(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'lily' AND c.relname LIKE 'asset\_%' AND c.relkind IN ('r', 'p');

-- Statements of the second and further sources, and those that came before their asset.
CREATE TABLE asset_source (
  tenant     int NOT NULL,
  guid       uuid NOT NULL,
  source     text NOT NULL,
  statement  jsonb NOT NULL,
  PRIMARY KEY (tenant, guid, source)
);
SELECT protect('asset_source');

CREATE TABLE asset_alias (
  tenant     int NOT NULL,
  alias      text NOT NULL,
  guid       uuid NOT NULL,
  PRIMARY KEY (tenant, alias)
);
CREATE INDEX asset_alias_guid ON asset_alias (tenant, guid);
SELECT protect('asset_alias');

-- What is left of a purged asset: older observations of it stay ignored.
CREATE TABLE tombstone (
  tenant      int NOT NULL,
  guid        uuid NOT NULL,
  observed_at timestamptz NOT NULL,
  at          timestamptz NOT NULL,
  by          text NOT NULL,
  PRIMARY KEY (tenant, guid)
);
SELECT protect('tombstone');

-- Tags by persons and rules; a source's tags live in its statement.
CREATE TABLE tag_assignment (
  tenant     int NOT NULL,
  guid       uuid NOT NULL,
  tag        text NOT NULL,
  origin     text NOT NULL CHECK (origin IN ('person', 'rule')),
  by         text NOT NULL,
  state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suggested', 'rejected')),
  reason     text NOT NULL DEFAULT '',
  at         timestamptz NOT NULL,
  PRIMARY KEY (tenant, guid, tag, origin, by)
);
SELECT protect('tag_assignment');

-- Facts --------------------------------------------------------------------------------------

CREATE TABLE feed_head (
  tenant     int PRIMARY KEY,
  position   bigint NOT NULL,
  hash       bytea NOT NULL
);
SELECT protect('feed_head');

CREATE TABLE fact (
  tenant       int NOT NULL,
  position     bigint NOT NULL,
  kind         text NOT NULL,
  at           timestamptz NOT NULL,
  guid         uuid,
  version      int NOT NULL DEFAULT 0,
  cause        text NOT NULL,
  payload      text,    -- null once erased
  salt         bytea,
  payload_hash bytea NOT NULL,
  hash         bytea NOT NULL,
  PRIMARY KEY (tenant, position)
);
CREATE INDEX fact_asset ON fact (tenant, guid, position) WHERE guid IS NOT NULL;
SELECT protect('fact');

CREATE TABLE consumer (
  name       text NOT NULL,
  tenant     int NOT NULL,
  position   bigint NOT NULL,
  at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, tenant)
);
SELECT protect('consumer');

-- Work ---------------------------------------------------------------------------------------

CREATE TABLE dead_letter (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  cause       text NOT NULL,            -- the observation's id
  lane        text NOT NULL,
  log_offset  bigint NOT NULL,
  at          timestamptz NOT NULL,
  stage       text NOT NULL,            -- decode, validate, hook, merge
  plugin      text NOT NULL DEFAULT '',
  reason      text NOT NULL,
  key         text NOT NULL DEFAULT '',
  source      text NOT NULL DEFAULT '',
  raw         text NOT NULL,
  state       text NOT NULL DEFAULT 'parked' CHECK (state IN ('parked', 'replayed', 'dropped')),
  settled_at  timestamptz,
  settled_by  text,
  PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX dead_letter_cause ON dead_letter (tenant, cause);
CREATE INDEX dead_letter_state ON dead_letter (tenant, state, at, id);
SELECT protect('dead_letter');

CREATE TABLE connection (
  tenant     int NOT NULL,
  id         uuid NOT NULL,
  name       text NOT NULL,
  plugin     text NOT NULL,
  uses       text[] NOT NULL,
  options    jsonb NOT NULL DEFAULT '{}',
  secrets    bytea,                     -- sealed
  schedule   text,
  ordinal    int NOT NULL DEFAULT 0,    -- hooks run in this order
  enabled    boolean NOT NULL DEFAULT true,
  revision   bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name)
);
SELECT protect('connection');

CREATE TABLE idempotency (
  tenant     int NOT NULL,
  subject    text NOT NULL,
  key        text NOT NULL,
  request    bytea NOT NULL,            -- digest of method, path and body
  status     int,                       -- null while the first request is under way
  headers    jsonb,
  body       bytea,
  at         timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, subject, key)
);
CREATE INDEX ON idempotency (at);
SELECT protect('idempotency');

-- Which processes are alive, and what they say of themselves.
CREATE TABLE process (
  id         uuid PRIMARY KEY,
  role       text NOT NULL,
  host       text NOT NULL,
  pid        int NOT NULL,
  started_at timestamptz NOT NULL,
  beat_at    timestamptz NOT NULL,
  detail     jsonb NOT NULL DEFAULT '{}'
);

-- Rights -------------------------------------------------------------------------------------

GRANT SELECT ON cell, tenant, token_key, revocation, applied, process TO lily_app, lily_system;
GRANT INSERT, UPDATE ON cell, tenant, token_key TO lily_app;
GRANT INSERT ON revocation TO lily_app;
GRANT INSERT, UPDATE, DELETE ON process TO lily_app, lily_system;
GRANT SELECT, INSERT, UPDATE ON person, service_account, token TO lily_app;
GRANT SELECT, INSERT, DELETE ON login_failure TO lily_app;
GRANT DELETE ON revocation, login_failure, token TO lily_system;
GRANT SELECT ON login_failure, token TO lily_system;

GRANT INSERT ON log TO lily_app, lily_system;
GRANT SELECT, DELETE ON log, log_core, log_fields TO lily_system;
GRANT USAGE ON SEQUENCE log_core_offset, log_fields_offset TO lily_app, lily_system;
GRANT UPDATE ON applied TO lily_system;

GRANT SELECT, INSERT, UPDATE, DELETE ON asset, asset_source, asset_alias, tag_assignment
  TO lily_app, lily_system;
GRANT SELECT, INSERT, UPDATE ON tombstone TO lily_app, lily_system;
GRANT SELECT, INSERT ON fact TO lily_app, lily_system;   -- never changed, never deleted
GRANT SELECT, INSERT, UPDATE ON feed_head TO lily_app, lily_system;
GRANT SELECT, INSERT, UPDATE ON consumer TO lily_app, lily_system;
GRANT SELECT, INSERT, UPDATE ON dead_letter TO lily_app, lily_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON connection TO lily_app;
GRANT SELECT ON connection TO lily_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO lily_app;
GRANT SELECT, DELETE ON idempotency TO lily_system;
