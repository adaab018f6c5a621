"""Identity of an asset: anybody can compute it, retries cannot duplicate it."""

import unicodedata
from uuid import UUID, uuid5

from lily.types import Tenant


def canonical(qualified_name: str) -> str:
    """Names compare as Unicode NFC."""
    if qualified_name.isascii():
        return qualified_name
    return unicodedata.normalize("NFC", qualified_name)


def guid_of(tenant_id: UUID, qualified_name: str) -> UUID:
    return uuid5(tenant_id, canonical(qualified_name))


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
