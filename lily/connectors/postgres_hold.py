"""Tables that are kept back from the moment they are made, in the transaction that makes them.

In schemas that the options name, a new table is readable by its owner alone: what its makers and
the default privileges grant is noted and taken, until the enforcer has looked at it.
"""

from collections.abc import Mapping, Sequence

import psycopg

ENFORCER = "lily enforcer"  # what our own sessions that change rights are called

INSTALL = f"""
CREATE TABLE IF NOT EXISTS lily_capture.hold (pattern text PRIMARY KEY);
CREATE TABLE IF NOT EXISTS lily_capture.held (relation oid PRIMARY KEY);
CREATE TABLE IF NOT EXISTS lily_capture.withheld (
  relation  oid NOT NULL,
  grantee   oid NOT NULL,
  attribute text NOT NULL,
  grantable boolean NOT NULL,
  PRIMARY KEY (relation, grantee, attribute)
);
CREATE OR REPLACE FUNCTION lily_capture.withhold() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE given record;
BEGIN
  IF NOT EXISTS (SELECT FROM lily_capture.hold)
     OR (tg_tag = 'GRANT' AND current_setting('application_name') = '{ENFORCER}') THEN
    RETURN;
  END IF;
  INSERT INTO lily_capture.held (relation)
  SELECT c.oid FROM pg_event_trigger_ddl_commands() d
    JOIN pg_class c ON c.oid = d.objid AND d.classid = 'pg_class'::regclass
    JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE tg_tag <> 'GRANT' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
     AND n.nspname !~ '^(pg_|lily_capture$|masked$)'
     AND EXISTS (SELECT FROM lily_capture.hold h WHERE n.nspname LIKE h.pattern)
  ON CONFLICT DO NOTHING;
  FOR given IN
    SELECT h.relation, x.grantee, '*' AS attribute, bool_or(x.is_grantable) AS grantable
      FROM lily_capture.held h JOIN pg_class c ON c.oid = h.relation,
           aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) x
     WHERE x.privilege_type = 'SELECT' AND x.grantee <> c.relowner GROUP BY 1, 2
    UNION ALL
    SELECT h.relation, x.grantee, a.attname, bool_or(x.is_grantable)
      FROM lily_capture.held h JOIN pg_class c ON c.oid = h.relation
      JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped, aclexplode(a.attacl) x
     WHERE x.privilege_type = 'SELECT' AND x.grantee <> c.relowner GROUP BY 1, 2, 3
  LOOP
    INSERT INTO lily_capture.withheld AS w (relation, grantee, attribute, grantable)
    VALUES (given.relation, given.grantee, given.attribute, given.grantable)
    ON CONFLICT (relation, grantee, attribute)
    DO UPDATE SET grantable = w.grantable OR excluded.grantable;
    EXECUTE format('REVOKE SELECT%s ON %s FROM %s CASCADE',
      CASE WHEN given.attribute <> '*' THEN format(' (%I)', given.attribute) ELSE '' END,
      given.relation::regclass,
      CASE WHEN given.grantee = 0 THEN 'PUBLIC'
           ELSE quote_ident(pg_get_userbyid(given.grantee)) END);
  END LOOP;
END $$;
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'lily_capture_withhold') THEN
    CREATE EVENT TRIGGER lily_capture_withhold ON ddl_command_end
      WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE VIEW',
        'CREATE MATERIALIZED VIEW', 'CREATE FOREIGN TABLE', 'GRANT')
      EXECUTE FUNCTION lily_capture.withhold();
  END IF;
END $$;
DELETE FROM lily_capture.held h WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = h.relation);
DELETE FROM lily_capture.withheld w
 WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.relation);
DELETE FROM lily_capture.hold;
"""
# Everybody gets what was taken from them: nobody looks after these tables any more.
RESTORE = """
DO $$
DECLARE given record;
BEGIN
  IF to_regclass('lily_capture.withheld') IS NULL THEN RETURN; END IF;
  DELETE FROM lily_capture.hold;
  DELETE FROM lily_capture.held;
  FOR given IN SELECT w.* FROM lily_capture.withheld w JOIN pg_class c ON c.oid = w.relation
    WHERE w.grantee = 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = w.grantee)
  LOOP
    EXECUTE format('GRANT SELECT%s ON %s TO %s%s',
      CASE WHEN given.attribute <> '*' THEN format(' (%I)', given.attribute) ELSE '' END,
      given.relation::regclass,
      CASE WHEN given.grantee = 0 THEN 'PUBLIC'
           ELSE quote_ident(pg_get_userbyid(given.grantee)) END,
      CASE WHEN given.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
  DELETE FROM lily_capture.withheld;
END $$;
"""
UNINSTALL = RESTORE + "DROP EVENT TRIGGER IF EXISTS lily_capture_withhold;"

IS_INSTALLED = "SELECT to_regclass('lily_capture.withheld') IS NOT NULL"
WITHHELD = """
SELECT CASE WHEN grantee = 0 THEN '' ELSE pg_get_userbyid(grantee) END, attribute, grantable
  FROM lily_capture.withheld WHERE relation = %s
   AND (grantee = 0 OR grantee IN (SELECT oid FROM pg_roles))
"""


def patterns(globs: Sequence[str]) -> list[str]:
    """Globs of schemas as LIKE understands them."""
    plain = (glob.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") for glob in globs)
    return [each.replace("*", "%").replace("?", "_") for each in plain]


def is_installed(conn: psycopg.Connection) -> bool:
    row = conn.execute(IS_INSTALLED).fetchone()
    return bool(row and row[0])


def withheld(conn: psycopg.Connection, oid: int) -> Mapping[tuple[str, str], bool]:
    """What was taken from a table when it was made, by grantee and column."""
    return {(grantee, name): on for grantee, name, on in conn.execute(WITHHELD, [oid])}


def settled(conn: psycopg.Connection, oid: int, over: bool) -> None:
    """The ledger, or the rights themselves, tell it now; `over`: the table is kept back no more."""
    conn.execute("DELETE FROM lily_capture.withheld WHERE relation = %s", [oid])
    if over:
        conn.execute("DELETE FROM lily_capture.held WHERE relation = %s", [oid])
