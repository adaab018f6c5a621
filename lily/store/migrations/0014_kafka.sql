-- Kafka as the log: positions of its partitions, and the keys of those who write to it directly.

SET LOCAL search_path = lily;

-- A partition that was never read has no row yet.
GRANT INSERT ON applied TO lily_system;

-- Kept at home: the key decides the tenant, so it is looked up before the tenant is known.
CREATE TABLE producer_key (
  tenant     int NOT NULL,
  id         text NOT NULL UNIQUE,
  name       text NOT NULL,
  secret     bytea NOT NULL,            -- sealed
  created_at timestamptz NOT NULL,
  revoked_at timestamptz,
  PRIMARY KEY (tenant, id)
);
SELECT protect('producer_key');
GRANT SELECT, INSERT, UPDATE ON producer_key TO lily_app;
GRANT SELECT ON producer_key TO lily_system;
