-- Tags and terms: what they mean, who assigned them, and which of an asset's are its own.

SET LOCAL search_path = lily;

-- What spreads from an asset: everything that its sources, persons and rules say, before an
-- exclusive group hides any of it and before anything arrives by lineage. Null: the same as shown.
ALTER TABLE asset ADD COLUMN own_tags text[];
ALTER TABLE asset ADD COLUMN own_terms text[];
-- `layers` gets another bit: 8, rows of `propagated` belong to this asset.

-- One assignment per origin: a person who says it again replaces what that person said.
ALTER TABLE tag_assignment
  ADD COLUMN kind text NOT NULL DEFAULT 'tag' CHECK (kind IN ('tag', 'term')),
  ADD COLUMN value text NOT NULL DEFAULT '',
  ADD COLUMN valid_from timestamptz,
  ADD COLUMN valid_until timestamptz,
  ADD COLUMN settled text[] NOT NULL DEFAULT '{}';  -- the tags that a steward chose between
ALTER TABLE tag_assignment DROP CONSTRAINT tag_assignment_pkey;
ALTER TABLE tag_assignment ADD PRIMARY KEY (tenant, guid, kind, tag, origin, by);
ALTER TABLE tag_assignment DROP CONSTRAINT tag_assignment_origin_check;
ALTER TABLE tag_assignment ADD CONSTRAINT tag_assignment_origin_check
  CHECK (origin IN ('person', 'rule', 'steward'));
ALTER TABLE tag_assignment DROP CONSTRAINT tag_assignment_state_check;
ALTER TABLE tag_assignment ADD CONSTRAINT tag_assignment_state_check
  CHECK (state IN ('active', 'suggested', 'rejected', 'scheduled', 'expired'));
-- The next moment at which an assignment begins or ends by itself.
CREATE INDEX tag_assignment_due ON tag_assignment
  (tenant, (CASE state WHEN 'scheduled' THEN valid_from ELSE valid_until END))
  WHERE (state = 'scheduled' AND valid_from IS NOT NULL)
     OR (state = 'active' AND valid_until IS NOT NULL);
CREATE INDEX tag_assignment_suggested ON tag_assignment (tenant, guid, tag, by)
  WHERE state = 'suggested';
CREATE INDEX tag_assignment_name ON tag_assignment (tenant, kind, tag);

CREATE TABLE tag_def (
  tenant          int NOT NULL,
  name            text NOT NULL,
  description     text NOT NULL DEFAULT '',
  colour          text,
  exclusive_group text,                 -- of one group an asset shows one tag
  rank            int NOT NULL DEFAULT 0,  -- within the group: higher is more restrictive
  propagates      boolean NOT NULL DEFAULT false,
  edge_kinds      text[],               -- along these; null: all but influences
  max_depth       int,
  precedence      text NOT NULL DEFAULT 'source'
                  CHECK (precedence IN ('source', 'person', 'restrictive')),
  first_use       boolean NOT NULL DEFAULT false,  -- nobody defined it: it was used
  version         int NOT NULL DEFAULT 1,
  created_at      timestamptz NOT NULL,
  created_by      text NOT NULL,
  updated_at      timestamptz NOT NULL,
  PRIMARY KEY (tenant, name)
);
SELECT protect('tag_def');
CREATE TABLE term_def (LIKE tag_def INCLUDING ALL);
SELECT protect('term_def');

-- The revision grows with every change of a definition that changes a decision.
CREATE TABLE tag_settings (
  tenant        int PRIMARY KEY,
  unknown_tags  text NOT NULL DEFAULT 'create' CHECK (unknown_tags IN ('create', 'refuse')),
  unknown_terms text NOT NULL DEFAULT 'create' CHECK (unknown_terms IN ('create', 'refuse')),
  revision      bigint NOT NULL DEFAULT 1
);
SELECT protect('tag_settings');

-- Every tenant has these, until it says otherwise. A tenant is who has a feed.
CREATE TABLE tag_builtin (LIKE tag_def INCLUDING DEFAULTS);
ALTER TABLE tag_builtin DROP COLUMN tenant, ADD PRIMARY KEY (name);
INSERT INTO tag_builtin (name, description, colour, exclusive_group, rank, propagates, created_at,
                         created_by, updated_at)
SELECT name, description, colour, exclusive_group, rank, propagates, '2026-01-01Z', 'lily',
       '2026-01-01Z'
  FROM (VALUES
    ('public', 'For everybody, inside and outside.', '#2e7d32', 'sensitivity', 0, false),
    ('internal', 'For everybody inside.', '#1565c0', 'sensitivity', 1, false),
    ('confidential', 'For those who need it.', '#ef6c00', 'sensitivity', 2, false),
    ('PII', 'Tells who a person is.', '#c62828', 'sensitivity', 3, true),
    ('GDPR', 'Under the General Data Protection Regulation.', '#6a1b9a', NULL, 0, true),
    ('PHI', 'Health of a person.', '#ad1457', NULL, 0, true),
    ('PCI', 'Payment cards.', '#4e342e', NULL, 0, true)
  ) AS builtin (name, description, colour, exclusive_group, rank, propagates);

CREATE VIEW tag_definition WITH (security_invoker = true) AS
  SELECT tenant, name, description, colour, exclusive_group, rank, propagates, edge_kinds,
         max_depth, precedence, first_use, version, created_at, created_by, updated_at,
         EXISTS (SELECT FROM tag_builtin b WHERE b.name = d.name) AS builtin
    FROM tag_def d
   UNION ALL
  SELECT h.tenant, b.name, b.description, b.colour, b.exclusive_group, b.rank, b.propagates,
         b.edge_kinds, b.max_depth, b.precedence, b.first_use, b.version, b.created_at,
         b.created_by, b.updated_at, true
    FROM feed_head h CROSS JOIN tag_builtin b
   WHERE NOT EXISTS (SELECT FROM tag_def d WHERE d.tenant = h.tenant AND d.name = b.name);
CREATE VIEW term_definition WITH (security_invoker = true) AS
  SELECT tenant, name, description, colour, exclusive_group, rank, propagates, edge_kinds,
         max_depth, precedence, first_use, version, created_at, created_by, updated_at,
         false AS builtin
    FROM term_def;

GRANT SELECT, INSERT, UPDATE, DELETE ON tag_def, term_def TO lily_app;
GRANT SELECT, INSERT ON tag_def, term_def TO lily_system;
GRANT SELECT, INSERT, UPDATE ON tag_settings TO lily_app;
GRANT SELECT ON tag_settings TO lily_system;
GRANT SELECT ON tag_builtin, tag_definition, term_definition TO lily_app, lily_system;
