"""The hash chain of a tenant's feed.

hash = H(previous, header, payload hash), payload hash = H(salt, payload): when a person is erased,
payload and salt go and the chain still verifies.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from lily.clock import micros
from lily.events.facts import Fact

GENESIS = bytes(32)


class Link(msgspec.Struct, frozen=True):
    """A fact with its place in the feed, as the store keeps it."""

    tenant: int
    position: int
    kind: str
    at: datetime
    guid: UUID | None
    version: int
    cause: str
    payload: str | None
    salt: bytes | None
    payload_hash: bytes
    hash: bytes


class Break(msgspec.Struct, frozen=True):
    """The first place where a feed does not verify, and why."""

    position: int
    reason: str


_encode = msgspec.json.Encoder(order="sorted").encode


def forge(tenant: int, position: int, previous: bytes, facts: Sequence[Fact]) -> list[Link]:
    """Give facts the places after `position`, each bound to the one before it."""
    links = []
    # One call for all salts: a syscall per fact would show in the batch's time.
    salts = os.urandom(16 * len(facts))
    at, moment = None, 0
    for index, fact in enumerate(facts):
        if fact.at is not at:  # a batch has one now
            at, moment = fact.at, micros(fact.at)
        position += 1
        payload = _encode(fact)
        salt = salts[16 * index : 16 * index + 16]
        payload_hash = hashlib.sha256(salt + payload).digest()
        previous = _hash(
            previous,
            tenant,
            position,
            fact.kind,
            moment,
            fact.guid,
            fact.version,
            fact.cause,
            payload_hash,
        )
        links.append(
            Link(
                tenant,
                position,
                fact.kind,
                fact.at,
                fact.guid,
                fact.version,
                fact.cause,
                payload.decode(),
                salt,
                payload_hash,
                previous,
            )
        )
    return links


def verify(links: Iterable[Link], previous: bytes = GENESIS, position: int = 0) -> Break | None:
    """Walk the feed from `position`; name the first row that was changed, removed or moved."""
    for _, broken in _walk(links, previous, position):
        if broken is not None:
            return broken
    return None


def _walk(
    links: Iterable[Link], previous: bytes, position: int
) -> Iterator[tuple[Link, Break | None]]:
    for link in links:
        position += 1
        yield link, _check(link, previous, position)
        previous = link.hash


def _check(link: Link, previous: bytes, expected: int) -> Break | None:
    if link.position != expected:
        return Break(expected, f"position {expected} is missing; the next row is {link.position}")
    if _payload_was_changed(link):
        return Break(expected, "the payload does not match its hash")
    wanted = _hash(
        previous,
        link.tenant,
        link.position,
        link.kind,
        micros(link.at),
        link.guid,
        link.version,
        link.cause,
        link.payload_hash,
    )
    if wanted != link.hash:
        return Break(expected, "the row does not follow from the row before it")
    return None


def _payload_was_changed(link: Link) -> bool:
    if link.payload is None or link.salt is None:
        return False  # erased on purpose; its hash still binds the chain
    return hashlib.sha256(link.salt + link.payload.encode()).digest() != link.payload_hash


def _hash(
    previous: bytes,
    tenant: int,
    position: int,
    kind: str,
    moment: int,
    guid: UUID | None,
    version: int,
    cause: str,
    payload_hash: bytes,
) -> bytes:
    header = f"{tenant}|{position}|{kind}|{moment}|{guid or ''}|{version}|{cause}"
    return hashlib.sha256(previous + header.encode() + payload_hash).digest()
