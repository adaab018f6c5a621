"""Policies as the file of rules that Trino can fetch: the first rule that matches counts. Pure.

Rules know one group at a time. So whoever is in a group that policies name is ruled as if in all
of them, and whoever is exempt twice may stay masked once: never more is shown than decided.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from lily.access.compile import NOBODY, Compiled
from lily.access.expressions import masked
from lily.access.filters import spoken
from lily.sdk.enforcers import Grantee, Rules

READ = "SELECT"
ALL = ("SELECT", "INSERT", "DELETE", "UPDATE", "OWNERSHIP", "GRANT_SELECT")


class Governed(msgspec.Struct, frozen=True):
    """A table of a catalog that Lily knows, and what should hold there."""

    catalog: str
    schema: str
    table: str
    columns: Mapping[str, str | None]  # each with its type
    state: Compiled
    users: tuple[str, ...] = ()  # members of what the policies name


def rules(catalogs: Iterable[str], tables: Iterable[Governed]) -> dict[str, Any]:
    """The whole file. What Lily does not know in a governed catalog is held back."""
    found = [rule for table in tables for rule in _table(table)]
    found += [{"catalog": _exactly(name), "privileges": []} for name in sorted(catalogs)]
    found.append({"privileges": list(ALL)})
    return {"tables": found}


def _table(table: Governed) -> Iterator[dict[str, Any]]:
    """From the most particular to everybody; those that say what everybody's says are left out."""
    parties = table.state.parties()
    restricting, users = frozenset(parties.restricting), sorted({*parties.users, *table.users})
    everybody = _rule(table, table.state.rules(NOBODY), {})
    particular = [
        *((Grantee(user, restricting), {"user": user, "group": group})
          for user in users for group in sorted(restricting)),
        *((Grantee("", restricting), {"group": group}) for group in sorted(restricting)),
        *((Grantee(user), {"user": user}) for user in users),
        *((Grantee("", frozenset({group})), {"group": group})
          for group in sorted(parties.loosening)),
    ]  # fmt: skip
    for grantee, matched in particular:
        yield _rule(table, table.state.rules(grantee), matched)
    yield everybody


def _rule(table: Governed, held: Rules, matched: Mapping[str, str]) -> dict[str, Any]:
    rule: dict[str, Any] = {name: _exactly(value) for name, value in matched.items()}
    rule |= {
        "catalog": _exactly(table.catalog),
        "schema": _exactly(table.schema),
        "table": _exactly(table.table),
    }
    if table.columns and all(
        (one := held.columns.get(name)) is not None and one.effect == "deny"
        for name in table.columns
    ):
        return {**rule, "privileges": []}
    rule["privileges"] = [READ] if held.columns or held.filters else list(ALL)
    columns = [
        {"name": name, "allow": False}
        if one.effect == "deny"
        else {"name": name, "mask": masked(one, _quoted(name), table.columns.get(name), "trino")}
        for name, one in sorted(held.columns.items())
    ]
    if columns:
        rule["columns"] = columns
    if held.filters:
        rule["filter"] = " AND ".join(f"({spoken(each, 'trino')})" for each in held.filters)
    return rule


def _exactly(name: str) -> str:
    """Names are patterns there."""
    return re.sub(r"([^\w\- ])", r"\\\1", name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
