"""Secrets that a program carries: their text is shown once, only a digest is kept."""

import hashlib
import re
import secrets
from uuid import UUID

import msgspec

PERSONAL = "lily"
REFRESH = "lilyr"
_FORM = re.compile(r"(lily|lilyr)_([0-9]{1,10})_([A-Za-z0-9_-]{43})")
_CLIENT = re.compile(r"([0-9]{1,10})\.([0-9a-f-]{36})")


class Opaque(msgspec.Struct, frozen=True):
    """A token that means nothing by itself: its tenant's number and a random secret."""

    prefix: str
    tenant: int
    text: str

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


def secret() -> str:
    return secrets.token_urlsafe(32)


def new(prefix: str, tenant: int) -> Opaque:
    return Opaque(prefix, tenant, f"{prefix}_{tenant}_{secret()}")


def parse(text: str) -> Opaque | None:
    found = _FORM.fullmatch(text)
    return Opaque(found[1], int(found[2]), text) if found else None


def client_id(tenant: int, account: UUID) -> str:
    return f"{tenant}.{account}"


def parse_client_id(text: str) -> tuple[int, UUID] | None:
    found = _CLIENT.fullmatch(text)
    try:
        return (int(found[1]), UUID(found[2])) if found else None
    except ValueError:
        return None
