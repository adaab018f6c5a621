-- Notices: who wants to hear what, what was found for them, and every try to tell it.

SET LOCAL search_path = lily;

CREATE TABLE subscription (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  name        text NOT NULL,
  match       jsonb NOT NULL,
  connection  uuid,                     -- where to; null is the inbox of whoever made it
  template    jsonb,
  owner       text NOT NULL,            -- the subject that made it
  enabled     boolean NOT NULL DEFAULT true,
  muted_until timestamptz,
  since       bigint NOT NULL,          -- it hears only facts behind this position
  revision    bigint NOT NULL DEFAULT 1,
  created_at  timestamptz NOT NULL,
  updated_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant, id),
  UNIQUE (tenant, name)
);
SELECT protect('subscription');

-- What somebody should know. One for a subscription and a fact, however often the fact is read.
CREATE TABLE notice (
  tenant      int NOT NULL,
  id          uuid NOT NULL,
  number      bigint GENERATED ALWAYS AS IDENTITY,
  subscription uuid,                    -- null: asked for by a person or a document
  position    bigint NOT NULL DEFAULT 0,-- of the fact; 0 is none
  recipient   text NOT NULL DEFAULT '', -- whose inbox; empty is nobody's
  kind        text NOT NULL,
  key         text NOT NULL,            -- what it is about; one thread or ticket for all of it
  guid        uuid,
  content     json NOT NULL,            -- read as a whole, never searched
  at          timestamptz NOT NULL,
  read_at     timestamptz,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX notice_inbox ON notice (tenant, recipient, number) WHERE recipient <> '';
CREATE INDEX notice_unread ON notice (tenant, recipient)
  WHERE recipient <> '' AND read_at IS NULL;
CREATE INDEX notice_at ON notice (tenant, at);
SELECT protect('notice');

-- What a person does not want to hear of: an asset, an incident, a kind of fact.
CREATE TABLE notice_mute (
  tenant      int NOT NULL,
  recipient   text NOT NULL,
  about       text NOT NULL,            -- a notice's key, or kind:<fact>
  until       timestamptz NOT NULL,
  PRIMARY KEY (tenant, recipient, about)
);
SELECT protect('notice_mute');

-- One chain of tries to tell a notice to one connection. Claimed and settled in place.
CREATE TABLE delivery (
  tenant      int NOT NULL,
  id          uuid NOT NULL,            -- the receiver sees it with every try
  number      bigint GENERATED ALWAYS AS IDENTITY,
  notice      uuid NOT NULL,
  subscription uuid,
  connection  uuid NOT NULL,
  notification_id text,                 -- the name that callers know it by; else its id
  thread      text,                     -- of these one at a time, in their order
  state       text NOT NULL CHECK (state IN
    ('waiting', 'sending', 'delivered', 'dead', 'cancelled')),
  attempts    int NOT NULL DEFAULT 0,   -- that counted; a throttled one does not
  tries       int NOT NULL DEFAULT 0,
  due_at      timestamptz NOT NULL,
  worker      uuid,                     -- the process that sends it
  unsure      boolean NOT NULL DEFAULT false,  -- an earlier try may have arrived
  status      int,
  reason      text NOT NULL DEFAULT '',
  last_at     timestamptz,
  settled_at  timestamptz,
  created_at  timestamptz NOT NULL,
  PRIMARY KEY (tenant, id)
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX delivery_name ON delivery (tenant, notification_id)
  WHERE notification_id IS NOT NULL;
CREATE INDEX delivery_due ON delivery (tenant, connection, due_at, number)
  WHERE state = 'waiting';
CREATE INDEX delivery_sending ON delivery (worker) WHERE state = 'sending';
CREATE INDEX delivery_thread ON delivery (tenant, connection, thread, number)
  WHERE thread IS NOT NULL AND state IN ('waiting', 'sending');
CREATE INDEX delivery_page ON delivery (tenant, number);
SELECT protect('delivery');

CREATE TABLE delivery_attempt (
  tenant      int NOT NULL,
  delivery    uuid NOT NULL,
  number      int NOT NULL,
  at          timestamptz NOT NULL,
  outcome     text NOT NULL,            -- ok, throttled, transient, permanent, gone
  status      int,
  millis      real NOT NULL,
  reason      text NOT NULL DEFAULT '',
  calls       json NOT NULL,            -- method, host, status of each; never a secret
  PRIMARY KEY (tenant, delivery, number)
);
SELECT protect('delivery_attempt');

-- What the other side calls what we told it: the next word on it updates, never doubles.
CREATE TABLE remote_handle (
  tenant      int NOT NULL,
  connection  uuid NOT NULL,
  key         text NOT NULL,            -- of the notices
  handle      jsonb NOT NULL,
  at          timestamptz NOT NULL,
  PRIMARY KEY (tenant, connection, key)
);
SELECT protect('remote_handle');

-- How a connection fares as a target, for all processes that send to it.
CREATE TABLE outlet (
  tenant      int NOT NULL,
  connection  uuid NOT NULL,
  failures    int NOT NULL DEFAULT 0,   -- in a row
  paused_until timestamptz,             -- it asked for patience, or it fails
  spent_until timestamptz,              -- how far its rate is used up
  gone_revision bigint,                 -- the revision of the connection that is gone for good
  reason      text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant, connection)
);
SELECT protect('outlet');

GRANT SELECT, INSERT, UPDATE, DELETE ON subscription, notice_mute TO lily_app;
GRANT SELECT ON subscription, notice_mute TO lily_system;
GRANT SELECT, INSERT, UPDATE ON notice, delivery, outlet TO lily_app, lily_system;
GRANT SELECT ON delivery_attempt, remote_handle TO lily_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON delivery_attempt, remote_handle TO lily_system;
GRANT DELETE ON notice, delivery TO lily_system;

-- What happened before there were notices is nobody's news.
INSERT INTO consumer (name, tenant, position)
  SELECT 'notify', tenant, position FROM feed_head;
