"""What happened to an asset, from its facts."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

import msgspec

from lily.assets.model import Asset
from lily.assets.names import candidates
from lily.errors import NotFound
from lily.events.chain import Link
from lily.events.facts import Fact
from lily.store import feed, views
from lily.store.database import Unit

# The facts that make a version, newest first.
VERSIONS = f"""
SELECT {feed.COLUMNS} FROM fact
 WHERE tenant = %(tenant)s AND guid = %(guid)s AND position < %(before)s AND kind = ANY(%(kinds)s)
 ORDER BY position DESC LIMIT %(limit)s
"""
AT = f"SELECT {feed.COLUMNS} FROM fact WHERE tenant = %s AND position = %s"
KNOWN = "SELECT guid FROM fact WHERE tenant = %s AND guid = ANY(%s) LIMIT 1"
KINDS = [
    "AssetCreated", "AssetChanged", "TagsChanged", "AssetDeleted", "AssetRestored",
    "AssetArchived", "AssetPurged",
]  # fmt: skip
MOST_PER_VERSION = 4
END = 2**63 - 1


class Change(msgspec.Struct, frozen=True):
    field: str
    before: Any
    after: Any


class Version(msgspec.Struct, frozen=True):
    """One stored change, as a difference to the version before it."""

    version: int
    at: datetime
    by: str
    cause: str
    kind: str
    changes: list[Change]


_decode = msgspec.json.Decoder(Fact).decode


def told(link: Link) -> Fact:
    """The fact of a link; of an erased one only what its header tells."""
    if link.payload is not None:
        return _decode(link.payload)
    kind: Any = link.kind
    return Fact(
        kind=kind, at=link.at, by="", cause=link.cause, guid=link.guid, version=link.version
    )


def versions(
    unit: Unit, asset: Asset, before: int = END, limit: int = 100
) -> tuple[list[Version], int | None]:
    """A page of versions, newest first, and the position behind which the next one begins."""
    values = {
        "tenant": unit.tenant.number,
        "guid": asset.guid,
        "before": before,
        "kinds": KINDS,
        "limit": (limit + 1) * MOST_PER_VERSION,
    }
    links = [Link(*row) for row in unit.conn.execute(VERSIONS, values).fetchall()]
    if not links and before == END:
        return _first(unit, asset), None
    page: list[Version] = []
    end: int | None = None
    for _, group in groupby(links, key=lambda link: link.version):
        if len(page) == limit:
            return page, end
        facts = sorted(group, key=lambda link: link.position)
        page.append(_version([told(link) for link in facts]))
        end = facts[0].position
    return page, None


def audited(unit: Unit, given: str) -> UUID:
    """The guid of an asset that exists, or of one that was purged and left its facts."""
    if (asset := views.seek(unit, given)) is not None:
        return asset.guid
    guids = candidates(unit.tenant, given)
    row = unit.conn.execute(KNOWN, [unit.tenant.number, guids]).fetchone()
    if row is None:
        raise NotFound("asset", given)
    guid: UUID = row[0]
    return guid


def _first(unit: Unit, asset: Asset) -> list[Version]:
    """A field's first version has no fact of its own: it was told with its siblings."""
    row = unit.conn.execute(AT, [unit.tenant.number, asset.feed_position]).fetchone()
    if row is None:
        return []
    fact = told(Link(*row))
    shown = ("asset_name", "asset_type", "asset_owner", "description", "data_source",
             "external_id", "business_terms", "metadata")  # fmt: skip
    after = {name: value for name in shown if (value := getattr(asset, name))}
    return [Version(1, fact.at, fact.by, fact.cause, "AssetCreated", list(_diff(None, after)))]


def _version(facts: Sequence[Fact]) -> Version:
    first = facts[0]
    changes = [change for fact in facts for change in _diff(fact.before, fact.after)]
    return Version(first.version, first.at, first.by, first.cause, first.kind, changes)


def _diff(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Iterator[Change]:
    old, new = before or {}, after or {}
    names: Iterable[str] = dict.fromkeys((*old, *new))
    for name in names:
        if old.get(name) != new.get(name):
            yield Change(name, old.get(name), new.get(name))
