"""Near-real-time capture: event triggers that note every change of a relation and wake us up."""

import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg

from lily.connectors import postgres_hold as hold
from lily.connectors.postgres_hold import ENFORCER
from lily.connectors.postgres_names import Names, Place
from lily.sdk import Change, Cursor, Regranted, Reject, Retry

CHANNEL = "lily_capture"
RIGHTS = ("GRANT", "REVOKE")
KEPT = "7 days"

# The functions run as whoever installs them, so that anybody's DDL can be noted, and swallow
# every error: a change that cannot be noted is found by the next crawl, but it must not fail.
INSTALL = f"""
CREATE SCHEMA IF NOT EXISTS lily_capture;
CREATE TABLE IF NOT EXISTS lily_capture.event (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at     timestamptz NOT NULL DEFAULT now(),
  tag    text NOT NULL,
  kind   text NOT NULL,
  schema text,
  name   text,
  sql    text
);
CREATE TABLE IF NOT EXISTS lily_capture.made (
  relation oid PRIMARY KEY,
  sql      text NOT NULL,
  path     text[] NOT NULL
);
CREATE OR REPLACE FUNCTION lily_capture.changed() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
DECLARE
  made lily_capture.event;
  before pg_catalog.text := pg_catalog.current_setting('search_path');
  path pg_catalog.text[] := pg_catalog.current_schemas(false);
BEGIN
  -- Where names without a schema were looked for is known only until we look ourselves.
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF position('$user' IN before) > 0 THEN
    path := array_prepend(session_user::text, path);
  END IF;
  INSERT INTO lily_capture.made (relation, sql, path)
  SELECT d.objid, current_query(), path FROM pg_event_trigger_ddl_commands() d
   WHERE d.command_tag IN ('CREATE TABLE AS', 'SELECT INTO')
     AND d.classid = 'pg_class'::regclass AND d.schema_name IS DISTINCT FROM 'pg_temp'
  ON CONFLICT (relation) DO UPDATE SET sql = excluded.sql, path = excluded.path;
  FOR made IN
    INSERT INTO lily_capture.event (tag, kind, schema, name, sql)
    SELECT DISTINCT d.command_tag, d.object_type,
           coalesce(n.nspname, d.schema_name, CASE WHEN d.object_type = 'schema'
             THEN (SELECT s.nspname FROM pg_namespace s WHERE s.oid = d.objid) END),
           c.relname, current_query()
      FROM pg_event_trigger_ddl_commands() d
      LEFT JOIN pg_index i ON i.indexrelid = d.objid AND d.classid = 'pg_class'::regclass
      LEFT JOIN pg_class c ON c.oid = coalesce(i.indrelid, d.objid)
       AND d.classid = 'pg_class'::regclass
      LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE d.schema_name IS DISTINCT FROM 'pg_temp'
       AND coalesce(n.nspname, d.schema_name, '') !~ '^(pg_|lily_capture$)'
       AND (d.object_type IN ('table', 'table column', 'table constraint', 'view',
         'materialized view', 'foreign table', 'index', 'schema')
       -- Whose rights were changed PostgreSQL does not say; our own changes are no news.
        OR (d.command_tag IN ('GRANT', 'REVOKE')
          AND current_setting('application_name') <> '{ENFORCER}'))
    RETURNING *
  LOOP
    PERFORM pg_notify('{CHANNEL}', made.id::text);
  END LOOP;
  PERFORM set_config('search_path', before, true);
EXCEPTION WHEN OTHERS THEN NULL;
END $$;
CREATE OR REPLACE FUNCTION lily_capture.dropped() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE made lily_capture.event;
BEGIN
  FOR made IN
    INSERT INTO lily_capture.event (tag, kind, schema, name, sql)
    SELECT DISTINCT 'DROP', d.object_type, d.address_names[1], d.address_names[2], current_query()
      FROM pg_event_trigger_dropped_objects() d
     WHERE NOT d.is_temporary AND d.address_names[1] !~ '^(pg_|lily_capture$)'
       AND d.object_type IN ('table', 'table column', 'table constraint', 'view',
         'materialized view', 'foreign table', 'schema')
    RETURNING *
  LOOP
    PERFORM pg_notify('{CHANNEL}', made.id::text);
  END LOOP;
EXCEPTION WHEN OTHERS THEN NULL;
END $$;
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'lily_capture_changed') THEN
    CREATE EVENT TRIGGER lily_capture_changed ON ddl_command_end
      EXECUTE FUNCTION lily_capture.changed();
  END IF;
  IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'lily_capture_dropped') THEN
    CREATE EVENT TRIGGER lily_capture_dropped ON sql_drop
      EXECUTE FUNCTION lily_capture.dropped();
  END IF;
END $$;
DELETE FROM lily_capture.event WHERE at < now() - interval '{KEPT}';
DELETE FROM lily_capture.made m WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = m.relation);
"""
UNINSTALL = """
DROP EVENT TRIGGER IF EXISTS lily_capture_changed;
DROP EVENT TRIGGER IF EXISTS lily_capture_dropped;
DROP SCHEMA IF EXISTS lily_capture CASCADE;
"""
KEEP_BACK = "INSERT INTO lily_capture.hold (pattern) VALUES (%s) ON CONFLICT DO NOTHING"
LOCK = "SELECT pg_advisory_xact_lock(hashtext('lily_capture'))"  # two installers at once
BEHIND = "SELECT id, tag, schema, name, sql FROM lily_capture.event WHERE id > %s ORDER BY id"
NAMED = "SELECT id, tag, schema, name, sql FROM lily_capture.event WHERE id = ANY(%s) ORDER BY id"

# Statements after which more than the named relation may have changed, and how much more.
SCHEMA_WIDE = ("rename", "attach", "detach", "inherit")
DATABASE_WIDE = ("set schema", "alter schema")


class Capture:
    """Triggers in every crawled database, and a session in each that listens."""

    def __init__(
        self,
        url: str,
        names: Names,
        databases: Callable[[], list[str]],
        holds: Sequence[str] = (),  # globs of schemas whose new tables are kept back
    ) -> None:
        self._url = url
        self._names = names
        self._databases = databases
        self._holds = hold.patterns(holds)

    def install(self) -> None:
        self._run(INSTALL + hold.INSTALL + ("" if self._holds else hold.RESTORE))

    def uninstall(self) -> None:
        self._run(hold.UNINSTALL + UNINSTALL)

    def changes(self, cursor: Cursor | None) -> Iterator[Change]:
        """Names under which something changed; first what was missed since the cursor."""
        places: dict[str, int] = dict(cursor.value) if cursor else {}
        try:
            with ExitStack() as stack:
                open = {
                    name: stack.enter_context(self._connected(name)) for name in self._databases()
                }
                for name, conn in open.items():
                    conn.execute(f"LISTEN {CHANNEL}".encode())
                    yield from self._told(name, conn.execute(BEHIND, [places.get(name, 0)]), places)
                while open:
                    yield from self._heard(open, places)
        except psycopg.Error as cause:
            raise Retry(f"PostgreSQL stopped reporting: {cause}") from cause

    def _heard(
        self, open: Mapping[str, psycopg.Connection], places: dict[str, int]
    ) -> Iterator[Change]:
        select.select(list(open.values()), [], [], 1.0)
        yield None
        for name, conn in open.items():
            # Until nothing is left: what arrives while an answer is read makes no socket ready.
            while ids := [
                int(note.payload) for note in conn.notifies(timeout=0) if note.payload.isdigit()
            ]:
                yield from self._told(name, conn.execute(NAMED, [ids]), places)

    def _told(
        self, database: str, rows: psycopg.Cursor[Any], places: dict[str, int]
    ) -> Iterator[Change]:
        events = rows.fetchall()
        if not events:
            return
        found = [
            _place(database, schema, name, sql or "")
            for _, tag, schema, name, sql in events
            if tag not in RIGHTS
        ]
        if len(found) < len(events):
            yield Regranted(self._names.database(database))
        yield from (self._names.of(place) for place in outermost(found))
        places[database] = max(places.get(database, 0), events[-1][0])
        yield Cursor(dict(places))

    def _run(self, script: str) -> None:
        try:
            for name in self._databases():
                with self._connected(name) as conn, conn.transaction():
                    conn.execute(LOCK)
                    conn.execute(script.encode())
                    if "INSERT INTO lily_capture.event" in script:
                        for pattern in self._holds:
                            conn.execute(KEEP_BACK, [pattern])
        except psycopg.errors.InsufficientPrivilege as cause:
            raise Reject(f"Capture needs a role that may create event triggers: {cause}") from cause
        except psycopg.Error as cause:
            raise Retry(f"PostgreSQL cannot be reached: {cause}") from cause

    def _connected(self, database: str) -> psycopg.Connection:
        return psycopg.connect(
            self._url,
            dbname=database,
            autocommit=True,
            connect_timeout=10,
            application_name="lily capture",
        )


def _place(database: str, schema: str | None, name: str | None, sql: str) -> Place:
    """What to read again after a statement."""
    said = " ".join(sql.lower().split())
    if schema is None or any(word in said for word in DATABASE_WIDE):
        return Place(database)
    if name is None or any(word in said for word in SCHEMA_WIDE):
        return Place(database, schema)
    return Place(database, schema, name)


def outermost(places: Sequence[Place]) -> list[Place]:
    """Without those that lie in another one, each once."""
    unique = dict.fromkeys(places)
    return [
        place
        for place in unique
        if not any(
            wider in unique and wider != place
            for wider in (Place(place.database), Place(place.database, place.schema))
        )
    ]
