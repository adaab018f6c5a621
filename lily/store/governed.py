"""Every table of an engine's catalogs, with what should hold there, for whoever fetches rules."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from lily.access.trino_rules import Governed
from lily.lineage.names import plain
from lily.store import circles, protections
from lily.store.database import Unit

TABLES = """
SELECT guid, qualified_name FROM asset
 WHERE tenant = %s AND lane = 'core' AND deleted_by IS NULL AND starts_with(qualified_name, %s)
 ORDER BY qualified_name
"""


def governed(unit: Unit, catalogs: Mapping[str, str], now: datetime) -> Iterator[Governed]:
    """By catalog and name. The types are as crawlers told them."""
    known = [each for kind in ("group", "role") for each in _circles(unit, kind)]
    for catalog, place in sorted(catalogs.items()):
        for guid, name in unit.conn.execute(TABLES, [unit.tenant.number, f"{place}."]).fetchall():
            parts = name[len(place) + 1 :].split(".")
            state = protections.wanted(unit, guid, "trino", now) if len(parts) == 2 else None
            if state is None:
                continue
            parties = state.parties()
            named = {"group": parties.restricting | parties.loosening, "role": parties.roles}
            users = {
                user for each in known if each.name in named[each.kind] for user in each.members
            }
            yield Governed(
                catalog, plain(parts[0]), plain(parts[1]), protections.columns(unit, guid), state,
                tuple(sorted(users)),
            )  # fmt: skip


def _circles(unit: Unit, kind: circles.CircleKind) -> list[circles.Circle]:
    found: list[circles.Circle] = []
    while page := circles.page(unit, kind, found[-1].name if found else None, 1000):
        found += page
    return found
