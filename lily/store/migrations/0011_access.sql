-- Who may do what with which data. The policies that every tenant begins with are no rows: they
-- are built in (lily/access/defaults.py), and a row with the id of one stands in its place.

SET LOCAL search_path = lily;

CREATE TABLE policy (
  tenant        int NOT NULL,
  id            uuid NOT NULL,
  name          text NOT NULL,
  effect        text NOT NULL CHECK (effect IN ('allow', 'deny', 'mask', 'filter')),
  action        text NOT NULL CHECK (action IN ('READ', 'WRITE', 'DELETE')),
  subjects      jsonb NOT NULL,
  resource_kind text NOT NULL CHECK (resource_kind IN ('asset', 'under', 'tag', 'type', 'everything')),
  resource_id   text NOT NULL DEFAULT '',
  conditions    jsonb NOT NULL DEFAULT '{}',
  mask          jsonb,
  row_filter    text NOT NULL DEFAULT '',
  exempt_groups text[] NOT NULL DEFAULT '{}',
  enabled       boolean NOT NULL DEFAULT true,
  gone          boolean NOT NULL DEFAULT false,  -- a built-in one that was deleted
  revision      int NOT NULL DEFAULT 1,
  created_by    text NOT NULL,
  created_at    timestamptz NOT NULL,
  updated_at    timestamptz NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX policy_resource ON policy (tenant, resource_kind, resource_id);
SELECT protect('policy');

-- Groups of users, and roles beyond the built-in ones: names that policies can speak of.
CREATE TABLE circle (
  tenant      int NOT NULL,
  kind        text NOT NULL CHECK (kind IN ('group', 'role')),
  name        text NOT NULL,
  description text NOT NULL DEFAULT '',
  members     text[] NOT NULL DEFAULT '{}',  -- names of users and service accounts
  revision    int NOT NULL DEFAULT 1,
  created_at  timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant, kind, name)
);
SELECT protect('circle');

-- Which columns the sources of a group may speak of.
CREATE TABLE scraper_policy (
  tenant          int NOT NULL,
  id              uuid NOT NULL,
  scraper_group   text NOT NULL,
  allowed_columns text[] NOT NULL,
  created_at      timestamptz NOT NULL,
  PRIMARY KEY (tenant, id)
);
SELECT protect('scraper_policy');

GRANT SELECT, INSERT, UPDATE, DELETE ON policy, circle, scraper_policy TO lily_app;
GRANT SELECT ON policy, circle, scraper_policy TO lily_system;
