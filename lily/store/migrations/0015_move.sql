-- A tenant moves from one cell to another: what is under way, and who may still write where.

SET LOCAL search_path = lily;

ALTER TABLE tenant DROP CONSTRAINT tenant_state_check;
ALTER TABLE tenant ADD CONSTRAINT tenant_state_check
  CHECK (state IN ('active', 'suspended', 'moving'));
-- Every API process follows this, so that nobody goes on reading in the old place.
ALTER TABLE tenant ADD COLUMN moved_at timestamptz;
CREATE INDEX tenant_moved ON tenant (moved_at) WHERE moved_at IS NOT NULL;

-- Home: one row while a move is under way, which says where to go on after a crash; one that
-- failed stays until the next.
CREATE TABLE move (
  number     int PRIMARY KEY REFERENCES tenant,
  source     text NOT NULL REFERENCES cell,
  target     text NOT NULL REFERENCES cell,
  isolation  text NOT NULL,             -- what the tenant will be
  before     text NOT NULL,             -- the tenant's state, which it gets back
  step       text NOT NULL CHECK (step IN
    ('closing', 'copying', 'switching', 'opening', 'clearing', 'aborting', 'failed')),
  reason     text NOT NULL DEFAULT '',
  by         text NOT NULL,
  cause      text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  at         timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON move TO lily_app, lily_system;

-- Every cell: tenants that are on their way. `closing`: only the pipeline may still write;
-- `closed`: nobody may, but the rows can be read; `gone`: they live elsewhere.
CREATE TABLE departure (
  number     int PRIMARY KEY,
  phase      text NOT NULL CHECK (phase IN ('closing', 'closed', 'gone'))
);
GRANT SELECT ON departure TO lily_app, lily_system;

-- Called by whoever binds a transaction to a tenant that has a departure: from here on it only
-- reads, and nothing at all once the tenant is gone.
CREATE FUNCTION halt(phase text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF phase = 'gone' THEN
    RAISE EXCEPTION 'the tenant has moved' USING ERRCODE = 'read_only_sql_transaction';
  END IF;
  RETURN set_config('transaction_read_only', 'on', true);
END $$;
