"""The enforcer for PostgreSQL: rights on columns, and row security, with everything undoable."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from lily.connectors import postgres_hold as hold
from lily.connectors import postgres_masking as masking
from lily.connectors import postgres_probe as probe
from lily.connectors import postgres_rights as rights
from lily.connectors.postgres import Postgres, hosts_of, server_of
from lily.connectors.postgres_catalog import is_lilys_own
from lily.connectors.postgres_hold import ENFORCER
from lily.connectors.postgres_names import Names, Place
from lily.connectors.postgres_rights import ALL, PUBLIC, Relation, Role, Steps
from lily.sdk import Reject, Retry
from lily.sdk.enforcers import Entry, Finding, Ledger, Report, Wanted

ROLES = """
WITH RECURSIVE inherited AS (
  SELECT member, roleid FROM pg_auth_members
  UNION SELECT i.member, m.roleid FROM inherited i JOIN pg_auth_members m ON m.member = i.roleid)
SELECT r.rolname, r.rolcanlogin, r.rolsuper,
       array(SELECT g.rolname FROM inherited i JOIN pg_roles g ON g.oid = i.roleid
              WHERE i.member = r.oid)
  FROM pg_roles r WHERE r.rolname !~ '^pg_' ORDER BY r.rolname
"""
RELATIONS = """
WITH RECURSIVE part AS (
  SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  UNION ALL SELECT i.inhrelid FROM part p JOIN pg_inherits i ON i.inhparent = p.oid)
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, pg_get_userbyid(c.relowner),
       c.relrowsecurity,
       array(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       array(SELECT p.polname::text FROM pg_policy p WHERE p.polrelid = c.oid)
  FROM part JOIN pg_class c ON c.oid = part.oid JOIN pg_namespace n ON n.oid = c.relnamespace
"""
GRANTS = """
SELECT CASE WHEN x.grantee = 0 THEN '' ELSE pg_get_userbyid(x.grantee) END, '*',
       bool_or(x.is_grantable)
  FROM pg_class c, aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) x
 WHERE c.oid = %(oid)s AND x.privilege_type = 'SELECT' AND x.grantee <> c.relowner GROUP BY 1
UNION ALL
SELECT CASE WHEN x.grantee = 0 THEN '' ELSE pg_get_userbyid(x.grantee) END, a.attname,
       bool_or(x.is_grantable)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, aclexplode(a.attacl) x
 WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
   AND x.privilege_type = 'SELECT' AND x.grantee <> c.relowner GROUP BY 1, 2
"""
MAY_READ = """
SELECT r.rolname, a.attname FROM pg_roles r, pg_attribute a
 WHERE r.rolname = ANY(%(users)s) AND a.attrelid = %(oid)s AND a.attname = ANY(%(columns)s)
   AND has_column_privilege(r.oid, a.attrelid, a.attnum, 'SELECT')
"""
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
PATIENCE = "SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '15s'"
OPEN = "lily_open"
FILTER = "lily_filter_"


class PostgresEnforcer:
    """Takes the right to read a column from whom a policy denies or masks it, and gives it back."""

    Options = Postgres.Options

    def __init__(self, options: Postgres.Options) -> None:
        self._url = options.url.get_secret_value()
        self._info: dict[str, Any] = conninfo_to_dict(self._url)
        self._names = Names(*server_of(options.server, self._info))
        own = self._info.get("dbname") or self._info.get("user") or "postgres"
        self._databases = [str(own)] if options.databases is None else options.databases
        self._masking = options.masking == "views"
        self._holds = options.held_schemas()
        self._connections: dict[str, psycopg.Connection] = {}

    def holds(self, qualified_name: str) -> bool:
        """Whether a table is kept back until it was verified once."""
        place = self._names.place(qualified_name)
        schema = place.schema if place else None
        return schema is not None and any(fnmatchcase(schema, glob) for glob in self._holds)

    def hosts(self) -> list[str]:
        return hosts_of(self._info)

    def owns(self, qualified_name: str) -> bool:
        place = self._names.place(qualified_name)
        if place is None or place.relation is None:
            return False
        return any(fnmatchcase(place.database, glob) for glob in self._databases)

    def enforce(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        place = self._place(table)
        with self._transaction(place.database) as conn:
            conn.execute(LOCK, [f"lily:{place.schema}.{place.relation}"])
            state = wanted()
            work = _Work(conn, place, state, ledger, self._masking)
            work.prepare()
            work.apply()
            work.check()
        work.finish()
        return work.report()

    def observe(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        place = self._place(table)
        with self._transaction(place.database) as conn:
            work = _Work(conn, place, wanted(), ledger, self._masking)
            work.plan_only()
        return work.report()

    def close(self) -> None:
        for conn in self._connections.values():
            conn.close()

    def _place(self, table: str) -> Place:
        place = self._names.place(table)
        if place is None or not self.owns(table):
            raise Reject(f"{table} is not a table of this connection")
        return place

    @contextmanager
    def _transaction(self, database: str) -> Iterator[psycopg.Connection]:
        try:
            conn = self._connections.get(database)
            if conn is None or conn.closed:
                conn = psycopg.connect(
                    self._url, dbname=database, connect_timeout=5, application_name=ENFORCER,
                    autocommit=True,  # so that a transaction is one, and not a part of another
                )  # fmt: skip
                if is_lilys_own(conn):
                    conn.close()
                    raise Reject(f"The database {database!r} is Lily's own; name another one.")
                self._connections[database] = conn
            with conn.transaction():
                conn.execute(PATIENCE)
                yield conn
        except (psycopg.errors.InvalidPassword, psycopg.errors.InsufficientPrivilege) as cause:
            raise Reject(f"PostgreSQL refuses: {_said(cause)}") from cause
        except psycopg.Error as cause:
            if (conn := self._connections.pop(database, None)) is not None:
                conn.close()
            raise Retry(f"PostgreSQL could not be changed: {_said(cause)}") from cause


class _Work:
    """One table and its partitions, inside one transaction."""

    def __init__(
        self,
        conn: psycopg.Connection,
        place: Place,
        wanted: Wanted,
        ledger: Ledger,
        masking: bool,
    ) -> None:
        self._conn = conn
        self._masking = masking
        self._wanted = wanted
        self._ledger = ledger
        self._roles = [
            Role(n, login, su, frozenset(of)) for n, login, su, of in conn.execute(ROLES)
        ]
        self._held = hold.is_installed(conn)
        self._relations = _relations(conn, place, self._held)
        self._steps: list[tuple[Relation, Steps]] = []
        self._forget: list[Entry] = []
        self._findings: list[Finding] = []
        self.plan: list[str] = []

    def prepare(self) -> None:
        """Decide everything, and write it down before anything is touched."""
        self._decide()
        keep = [entry for _, step in self._steps for entry in step.keep]
        for relation, step in self._steps:
            keep += _security_entries(relation, step, self._part(relation))
            if self._shows(relation, step):
                detail = {"oid": str(relation.oid)}
                keep.append(Entry(kind="view", part=self._part(relation), detail=detail))
        known = self._ledger.entries()
        if fresh := [entry for entry in keep if entry not in known]:
            self._ledger.add(fresh)

    def plan_only(self) -> None:
        self._decide()
        for relation, step in self._steps:
            self.plan += [_text(each, self._conn) for each in _revokes(relation, step.rights)]
            missing = {k: v for k, v in step.rights.items() if relation.grants.get(k) != v}
            self.plan += [_text(each, self._conn) for each in _grants(relation, missing)]
            self.plan += [_text(each, self._conn) for each in _security(relation, step)]
            self.plan += [_text(each, self._conn) for each in self._view(relation, step)]

    def apply(self) -> None:
        """Take first, then give what is missing: a revoke may cascade to rights that stay."""
        for relation, step in self._steps:
            for statement in _revokes(relation, step.rights):
                self._run(statement)
            now = _grants_of(self._conn, relation.oid)
            missing = {k: v for k, v in step.rights.items() if now.get(k) != v}
            for statement in _grants(relation, missing):
                self._run(statement)
            for statement in _security(relation, step):
                self._run(statement)
            if views := self._view(relation, step):
                self._conn.execute(masking.PREPARE)
                for statement in views:
                    self._run(statement)
            if self._held:
                over = not self._wanted.rules(rights.ANYBODY).whole
                hold.settled(self._conn, relation.oid, over)

    def check(self) -> None:
        """Ask the engine itself whether what is wanted holds, and try it where that is possible."""
        for relation, step in self._steps:
            self._findings += step.findings
            users = sorted({user for denied in step.denied.values() for user in denied})
            asked = {"users": users, "oid": relation.oid, "columns": list(step.denied)}
            found = {
                (user, column)
                for user, column in self._conn.execute(MAY_READ, asked)
                if user in step.denied[column]
            }
            found.update(probe.readers(self._conn, relation, step.denied))
            self._findings += [
                Finding("failed", f"{user} still reads {relation.label}", column, user)
                for user, column in sorted(found)
            ]

    def finish(self) -> None:
        """The engine has committed: what is as it was before need not be remembered."""
        if self._forget:
            self._ledger.drop(self._forget)

    def report(self) -> Report:
        exempt: dict[str, tuple[str, ...]] = {}
        for _, step in self._steps:
            for column, users in step.exempt.items():
                exempt[column] = tuple(sorted({*exempt.get(column, ()), *users}))
        return Report(
            fingerprint=self._wanted.fingerprint,
            plan=tuple(self.plan),
            drifted=any(step.drifted for _, step in self._steps),
            findings=tuple(self._findings),
            exempt=exempt,
        )

    def _decide(self) -> None:
        known = self._ledger.entries()
        for relation in self._relations:
            part = self._part(relation)
            step = rights.steps(relation, self._roles, self._wanted, known, part)
            self._steps.append((relation, step))
            self._forget += step.forget
            if not step.filters:
                self._forget += [
                    e for e in known if e.part == part and e.kind in ("security", "policy")
                ]
        if not self._relations:
            self._forget += list(known)  # the table is gone, and with it all that was changed

    def _shows(self, relation: Relation, step: Steps) -> bool:
        """Whether a masking view stands beside the table."""
        return self._masking and bool(step.denied or step.filters) and not self._part(relation)

    def _view(self, relation: Relation, step: Steps) -> list[sql.Composed]:
        if self._shows(relation, step):
            return masking.create(self._conn, relation, self._roles, self._wanted, step.had)
        part = self._part(relation)
        known = [e for e in self._ledger.entries() if e.kind == "view" and e.part == part]
        self._forget += known
        return [masking.drop(relation)] if known else []

    def _part(self, relation: Relation) -> str:
        return "" if relation is self._relations[0] else relation.label

    def _run(self, statement: sql.Composed) -> None:
        self.plan.append(_text(statement, self._conn))
        self._conn.execute(statement)


def _relations(conn: psycopg.Connection, place: Place, held: bool) -> list[Relation]:
    found = []
    for oid, schema, name, kind, owner, secured, columns, policies in conn.execute(
        RELATIONS, [place.schema, place.relation]
    ).fetchall():
        found.append(
            Relation(
                oid, schema, name, kind, owner, tuple(columns), secured,
                _grants_of(conn, oid), frozenset(policies),
                hold.withheld(conn, oid) if held else {},
            )
        )  # fmt: skip
    return found


def _grants_of(conn: psycopg.Connection, oid: int) -> dict[tuple[str, str], bool]:
    return {(grantee, column): on for grantee, column, on in conn.execute(GRANTS, {"oid": oid})}


def _revokes(relation: Relation, wanted: dict[tuple[str, str], bool]) -> list[sql.Composed]:
    """A whole table's right hides those on columns, so it goes with them, and they come back."""
    statements = []
    grantees = sorted({grantee for grantee, _ in relation.grants})
    for grantee in grantees:
        now = {c: on for (g, c), on in relation.grants.items() if g == grantee}
        then = {c: on for (g, c), on in wanted.items() if g == grantee}
        if all(column in then and (then[column] or not on) for column, on in now.items()):
            continue
        named = sql.SQL(", ").join(map(sql.Identifier, sorted(now)))
        what = sql.SQL("") if ALL in now else sql.SQL(" ({})").format(named)
        statements.append(
            sql.SQL("REVOKE SELECT{} ON {} FROM {} CASCADE").format(
                what, _table(relation), _role(grantee)
            )
        )
    return statements


def _grants(relation: Relation, missing: dict[tuple[str, str], bool]) -> list[sql.Composed]:
    statements = []
    for grantee in sorted({grantee for grantee, _ in missing}):
        for on in (False, True):
            columns = [c for (g, c), o in missing.items() if g == grantee and o == on]
            option = sql.SQL(" WITH GRANT OPTION") if on else sql.SQL("")
            if ALL in columns:
                statements.append(
                    sql.SQL("GRANT SELECT ON {} TO {}{}").format(
                        _table(relation), _role(grantee), option
                    )
                )
            if named := [c for c in relation.columns if c in columns]:
                statements.append(
                    sql.SQL("GRANT SELECT ({}) ON {} TO {}{}").format(
                        sql.SQL(", ").join(map(sql.Identifier, named)),
                        _table(relation), _role(grantee), option,
                    )
                )  # fmt: skip
    return statements


def _security(relation: Relation, step: Steps) -> list[sql.Composed]:
    """Row security: a policy a condition, named after what it says."""
    wanted = {_policy_name(c, users): (c, users) for c, users in step.filters.items()}
    ours = {name for name in relation.policies if name == OPEN or name.startswith(FILTER)}
    statements = [
        sql.SQL("DROP POLICY {} ON {}").format(sql.Identifier(name), _table(relation))
        for name in sorted(ours - wanted.keys() - {OPEN})
    ]
    for name, (condition, users) in sorted(wanted.items()):
        if name not in ours:
            statements.append(
                sql.SQL(
                    "CREATE POLICY {} ON {} AS RESTRICTIVE FOR SELECT TO PUBLIC"
                    " USING (current_user = ANY ({}::name[]) OR ({}))"
                ).format(
                    sql.Identifier(name), _table(relation), sql.Literal(list(users)),
                    sql.SQL(condition),  # checked and canonical
                )
            )  # fmt: skip
    if wanted and not relation.row_security:
        statements.append(
            sql.SQL("CREATE POLICY {} ON {} USING (true) WITH CHECK (true)").format(
                sql.Identifier(OPEN), _table(relation)
            )
        )
        statements.append(
            sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(_table(relation))
        )
    elif not wanted and OPEN in ours:
        statements.append(
            sql.SQL("ALTER TABLE {} DISABLE ROW LEVEL SECURITY").format(_table(relation))
        )
        statements.append(
            sql.SQL("DROP POLICY {} ON {}").format(sql.Identifier(OPEN), _table(relation))
        )
    return statements


def _security_entries(relation: Relation, step: Steps, part: str) -> list[Entry]:
    if not step.filters:
        return []
    told = {"oid": str(relation.oid)}
    entries = [
        Entry(kind="policy", part=part, column=_policy_name(condition, users), detail=told)
        for condition, users in step.filters.items()
    ]
    if not relation.row_security:
        entries.append(Entry(kind="security", part=part, detail=told))
    return entries


def _policy_name(condition: str, users: Sequence[str]) -> str:
    said = "\x00".join([condition, *users]).encode()
    return FILTER + hashlib.sha256(said).hexdigest()[:16]


def _table(relation: Relation) -> sql.Identifier:
    return sql.Identifier(relation.schema, relation.name)


def _role(grantee: str) -> sql.Composable:
    return sql.SQL("PUBLIC") if grantee == PUBLIC else sql.Identifier(grantee)


def _text(statement: sql.Composed, conn: psycopg.Connection) -> str:
    return statement.as_string(conn)


def _said(cause: psycopg.Error) -> str:
    """What PostgreSQL says, without values that a row might have given it."""
    return (cause.diag.message_primary or type(cause).__name__).splitlines()[0]
