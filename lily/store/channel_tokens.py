"""Tokens that channels were given by the other side: sealed, and renewed by one process at a time.

A refresh token that rotates is good once: whoever renews holds the row until the new one is stored.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg

FIRST = """
INSERT INTO channel_token (tenant, connection, at) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING
"""
LOCKED = "SELECT sealed FROM channel_token WHERE tenant = %s AND connection = %s FOR UPDATE"
SAVE = "UPDATE channel_token SET sealed = %s, at = %s WHERE tenant = %s AND connection = %s"
# Somebody may wait for another process that waits for the other side.
PATIENT = "SET LOCAL lock_timeout = '45s'"

Cipher = Callable[[bytes, bytes], bytes]  # a text, and what it is about


class Tokens(msgspec.Struct, frozen=True):
    """What was given last. `origin` says by which options: with others, it is worth nothing."""

    origin: str
    access: str
    until: datetime
    refresh: str = ""


def locked(
    conn: psycopg.Connection, key: tuple[int, UUID], unseal: Cipher, now: datetime
) -> Tokens | None:
    """The stored ones, for nobody else to renew until the end of the transaction."""
    conn.execute(PATIENT)
    conn.execute(FIRST, [*key, now])
    row: Any = conn.execute(LOCKED, [*key]).fetchone()
    if row is None or row[0] is None:
        return None
    return msgspec.json.decode(unseal(row[0], about(key)), type=Tokens)


def save(
    conn: psycopg.Connection, key: tuple[int, UUID], tokens: Tokens, seal: Cipher, now: datetime
) -> None:
    conn.execute(SAVE, [seal(msgspec.json.encode(tokens), about(key)), now, *key])


def about(key: tuple[int, UUID]) -> bytes:
    """Moved to another row, they do not open."""
    return f"channel_token:{key[0]}:{key[1]}".encode()
