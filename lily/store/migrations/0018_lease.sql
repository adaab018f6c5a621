-- Who leads: a duty is held for some seconds at a time, and a number tells who took it later.

SET LOCAL search_path = lily;

CREATE TABLE lease (
  duty   text PRIMARY KEY,
  holder uuid NOT NULL,
  epoch  bigint NOT NULL,               -- grows with each holder
  host   text NOT NULL,
  pid    int NOT NULL,
  place  text NOT NULL,                 -- where that number means a process: a machine since its start
  since  timestamptz NOT NULL,
  until  timestamptz NOT NULL           -- by the clock of this database; renewed before it ends
);
GRANT SELECT ON lease TO lily_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON lease TO lily_system;

-- Who led before the one that is written here cannot move the position any more.
ALTER TABLE applied ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
