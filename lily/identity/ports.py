"""What checking a token needs from the store."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from lily.identity.jwt import Key
from lily.identity.oidc import Foreigner, Peek
from lily.types import Tenant


class Bearer(msgspec.Struct, frozen=True):
    """Somebody who showed a personal token, as they are right now."""

    tenant: Tenant
    token: UUID
    subject: UUID
    name: str
    role: str
    platform: bool
    expires_at: datetime | None
    read_at: int  # microseconds, by the home database


class Keys(Protocol):
    def known(self, kid: str) -> Key | None: ...


class Revocations(Protocol):
    def confirm(self) -> None:
        """Raise Unavailable when the list may be out of date."""
        ...

    def hit(self, ids: Iterable[UUID], issued: int) -> bool:
        """Whether something issued at that microsecond under one of these ids is revoked."""
        ...

    def moved(self, tenant: Tenant) -> bool:
        """Whether the tenant is in another cell than it was."""
        ...


class Foreign(Protocol):
    def vouched(self, token: str, claimed: Peek, now: datetime) -> tuple[Tenant, Foreigner] | None:
        """Whom another provider vouches for, and in which tenant; None when nobody believes it."""
        ...


class Directory(Protocol):
    def tenant_of(self, id: UUID) -> Tenant | None:
        """None for one that is unknown or suspended."""
        ...

    def bearer(self, tenant: int, digest: bytes) -> Bearer | None:
        """None for a token that is unknown, expired, revoked, or whose owner is not active."""
        ...
