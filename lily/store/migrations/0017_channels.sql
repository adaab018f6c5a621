-- Channels tell only what the owner of a subscription may read, and log in where tokens rotate.

SET LOCAL search_path = lily;

-- Withheld: the owner may not hear of it. Every state from before is still one.
ALTER TABLE delivery DROP CONSTRAINT delivery_state_check;
ALTER TABLE delivery ADD CONSTRAINT delivery_state_check CHECK (state IN
  ('waiting', 'sending', 'delivered', 'dead', 'cancelled', 'withheld')) NOT VALID;

-- Whoever sends must know whether an owner is still somebody, and nothing else of them.
GRANT SELECT (tenant, username, role, active) ON person TO lily_system;
GRANT SELECT (tenant, name, role, active) ON service_account TO lily_system;

-- The tokens that a connection was last given by the other side; each may end the one before.
CREATE TABLE channel_token (
  tenant      int NOT NULL,
  connection  uuid NOT NULL,
  sealed      bytea,                    -- null before the first
  at          timestamptz NOT NULL,
  PRIMARY KEY (tenant, connection)
);
SELECT protect('channel_token');
GRANT SELECT, INSERT, UPDATE, DELETE ON channel_token TO lily_system;
