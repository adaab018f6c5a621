"""Identity of an asset: anybody can compute it, retries cannot duplicate it."""

import unicodedata
from hashlib import sha1
from uuid import UUID, SafeUUID

from lily.types import Tenant


def canonical(qualified_name: str) -> str:
    """Names compare as Unicode NFC."""
    if qualified_name.isascii():
        return qualified_name
    return unicodedata.normalize("NFC", qualified_name)


def guid_of(tenant_id: UUID, qualified_name: str) -> UUID:
    """A UUIDv5; as `uuid.uuid5`, which takes twice the time to build what it returns."""
    name = canonical(qualified_name).encode("utf-8")
    digest = sha1(tenant_id.bytes + name, usedforsecurity=False).digest()
    number = int.from_bytes(digest[:16], "big") & _BARE | _FIFTH
    guid = _new(UUID)
    _set(guid, "int", number)
    _set(guid, "is_safe", _UNKNOWN)
    return guid


_BARE = ~((0xF000 << 64) | (0xC000 << 48))
_FIFTH = (5 << 76) | (0x8000 << 48)
_UNKNOWN = SafeUUID.unknown  # looked up once: an enum is slow to ask
_new = object.__new__
_set = object.__setattr__


def invented(data_source: str | None, asset_type: str | None, asset_name: str) -> str:
    """The qualified name of an asset whose caller gave neither a name nor an id."""
    return f"{data_source or 'default'}/{asset_type or 'entity'}/{asset_name}"


def as_guid(text: str) -> UUID | None:
    if len(text) not in (32, 36):
        return None
    try:
        return UUID(text)
    except ValueError:
        return None


def candidates(tenant: Tenant, given: str) -> list[UUID]:
    """The guids that `{id}` in a route may mean, most literal first."""
    literal = as_guid(given)
    by_name = guid_of(tenant.id, given)
    return [literal, by_name] if literal is not None else [by_name]
