"""Which asset a tool means: asked of the index by words, decided by the end of the name."""

from collections.abc import Sequence
from uuid import UUID

from lily.assets import words
from lily.incidents import names
from lily.incidents.names import Candidate
from lily.store.database import Unit

MOST = 500  # assets that have the words of a name; more than that is no help

NAMED = "SELECT guid, qualified_name, asset_type FROM assets_named(%s, %s::tsquery, %s)"
ALIASED = (
    "SELECT a.guid, a.qualified_name, a.asset_type FROM asset_alias n"
    " JOIN asset a ON a.tenant = n.tenant AND a.guid = n.guid"
    " WHERE n.tenant = %s AND n.alias = %s AND a.deleted_by IS NULL"
)
RULE = "SELECT guid FROM rule_attachment WHERE tenant = %s AND source = %s AND rule = %s"


def place(unit: Unit, called: Sequence[str]) -> list[Candidate]:
    """The assets that the first telling name may mean: one is an answer, several a question."""
    for name in called:
        rows = unit.conn.execute(ALIASED, [unit.tenant.number, name]).fetchall()
        found = [Candidate(*row) for row in rows]
        if found or (found := _named(unit, name)):
            return found
    return []


def by_rule(unit: Unit, source: str, rule: str) -> UUID | None:
    if not rule:
        return None
    row = unit.conn.execute(RULE, [unit.tenant.number, source, rule]).fetchone()
    return row[0] if row else None


def _named(unit: Unit, name: str) -> list[Candidate]:
    """By the words of the name: first where the last part is the whole name of the asset."""
    *_, last = parts = names.parts(name)
    told = list(dict.fromkeys(word for part in parts for word in words.split(part)))
    if not told:
        return []
    exact = _quoted(words.facet("name", last))
    for query in ([exact, *map(_quoted, words.split(" ".join(parts[:-1])))], map(_quoted, told)):
        values = [unit.tenant.number, " & ".join(query), MOST]
        found = [Candidate(*row) for row in unit.conn.execute(NAMED, values).fetchall()]
        if fit := names.fitting(found, name):
            return fit
    return []


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
