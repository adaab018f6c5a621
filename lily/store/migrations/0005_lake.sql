-- The catalog of this cell's lake, as Iceberg's SQL catalogs (schema version V1) expect it, and how
-- much of the log the lake has archived: trimming waits for it.

CREATE SCHEMA IF NOT EXISTS lake;
GRANT USAGE ON SCHEMA lake TO lily_app, lily_system;

CREATE TABLE lake.iceberg_tables (
  catalog_name               varchar(255) NOT NULL,
  table_namespace            varchar(255) NOT NULL,
  table_name                 varchar(255) NOT NULL,
  metadata_location          varchar(1000),
  previous_metadata_location varchar(1000),
  iceberg_type               varchar(5),
  PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE lake.iceberg_namespace_properties (
  catalog_name   varchar(255) NOT NULL,
  namespace      varchar(255) NOT NULL,
  property_key   varchar(255) NOT NULL,
  property_value varchar(1000),
  PRIMARY KEY (catalog_name, namespace, property_key)
);
GRANT SELECT ON ALL TABLES IN SCHEMA lake TO lily_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lake TO lily_system;

SET LOCAL search_path = lily;

CREATE TABLE archived (
  lane       text PRIMARY KEY,
  position   bigint NOT NULL DEFAULT 0,
  at         timestamptz NOT NULL DEFAULT now()  -- when the lake last looked
);
INSERT INTO archived (lane) VALUES ('core'), ('fields');
GRANT SELECT ON archived TO lily_app, lily_system;
GRANT UPDATE ON archived TO lily_system;
