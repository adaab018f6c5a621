"""What a follower wants to hear of, and how a change reads on the wire."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args
from uuid import UUID

import msgspec

from lily.api.rest.audit import fact_of
from lily.assets.names import candidates
from lily.errors import Invalid
from lily.events.chain import Link
from lily.events.facts import FactKind
from lily.types import Caller, Tenant

KINDS: frozenset[str] = frozenset(get_args(FactKind))
_CREATED = ("AssetCreated", "FieldsCreated")
_DELETED = ("AssetDeleted", "AssetPurged")
CHANGES = ("created", "updated", "deleted")
FILTERS = ("facts", "change", "asset_id", "under", "entity_type", "tag")
MOST = 100

_encode = msgspec.json.Encoder().encode


class Item(msgspec.Struct, frozen=True):
    """A fact on its way out: written once, however many hear it."""

    position: int
    kind: str
    change: str
    guid: UUID | None
    asset_id: str
    qualified_name: str
    entity_type: str
    tags: frozenset[str]
    text: str


class Wanted(msgspec.Struct, frozen=True):
    """Filters; an empty one lets everything through."""

    visible: frozenset[str]
    facts: frozenset[str] = frozenset()
    change: frozenset[str] = frozenset()
    asset_id: str = ""
    guids: tuple[UUID, ...] = ()
    under: str = ""
    entity_type: frozenset[str] = frozenset()
    tag: frozenset[str] = frozenset()

    def wants(self, item: Item) -> bool:
        return (
            item.kind in self.visible
            and (not self.facts or item.kind in self.facts)
            and (not self.change or item.change in self.change)
            and (not self.entity_type or item.entity_type in self.entity_type)
            and (not self.tag or not self.tag.isdisjoint(item.tags))
            and (not self.asset_id or self._is_it(item))
            and (not self.under or _below(item.qualified_name, self.under))
        )

    def _is_it(self, item: Item) -> bool:
        return item.guid in self.guids or self.asset_id in (item.asset_id, item.qualified_name)


def wanted(caller: Caller, visible: frozenset[str], given: Mapping[str, Any]) -> Wanted:
    """Filters as they were sent; what is not one is named."""
    if unknown := sorted(set(given) - set(FILTERS)):
        known = ", ".join(FILTERS)
        raise Invalid(f"is not a filter; there are {known}", unknown[0])
    facts = _several(given, "facts", KINDS)
    asset_id = _one(given, "asset_id")
    return Wanted(
        visible=visible,
        facts=facts,
        change=_several(given, "change", frozenset(CHANGES)),
        asset_id=asset_id,
        guids=_guids(caller.tenant, asset_id),
        under=_one(given, "under"),
        entity_type=_several(given, "entity_type"),
        tag=_several(given, "tag"),
    )


def item_of(link: Link) -> Item:
    """As the documents write it, and the whole fact with it."""
    fact = fact_of(link)
    kind = link.kind
    change = "created" if kind in _CREATED else "deleted" if kind in _DELETED else "updated"
    metadata_id = fact["asset_id"] or (str(link.guid) if link.guid else "")
    message = {
        "type": "update",
        "metadata_id": metadata_id,
        "entity_type": fact["asset_type"],
        "change": change,
        "timestamp": fact["at"],
        **fact,
    }
    return Item(
        link.position, kind, change, link.guid, metadata_id, fact["qualified_name"],
        fact["asset_type"], _tags(fact), _encode(message).decode(),
    )  # fmt: skip


def _tags(fact: Mapping[str, Any]) -> frozenset[str]:
    found: list[str] = []
    for side in ("before", "after"):
        tags = (fact[side] or {}).get("tags")
        if isinstance(tags, Mapping | list):
            found += [tag for tag in tags if isinstance(tag, str)]
    return frozenset(found)


def _below(name: str, above: str) -> bool:
    return name.startswith(above) and (len(name) == len(above) or name[len(above)] in "/.#:")


def _guids(tenant: Tenant, asset_id: str) -> tuple[UUID, ...]:
    return tuple(candidates(tenant, asset_id)) if asset_id else ()


def _one(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name) or ""
    if not isinstance(value, str) or len(value) > 4000 or "\0" in value:
        raise Invalid("must be a text of at most 4000 characters", name)
    return value


def _several(
    given: Mapping[str, Any], name: str, allowed: frozenset[str] | None = None
) -> frozenset[str]:
    """A list, or one text with commas."""
    value = given.get(name) or []
    found: Sequence[Any] = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise Invalid("must be a list of texts", name)
    if len(found) > MOST:
        raise Invalid(f"has more than {MOST} entries", name)
    chosen = frozenset(each for each in found if each)
    if allowed is not None and (unknown := sorted(chosen - allowed)):
        raise Invalid(f"{', '.join(unknown)}: there is no such thing", name)
    return chosen
