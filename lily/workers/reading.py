"""What a source yields, made ready to be compared and sent. Pure, for the host and the agent."""

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from lily.assets.names import canonical
from lily.assets.rules import problems
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.sdk import Cursor, Reject

CHUNK = 2_000  # one transaction of the log: short, because its reader waits for it
BOUNDARIES = (".", "#", "/")

_encode = msgspec.json.Encoder(order="deterministic").encode


class Chunk(msgspec.Struct):
    """A stretch of what was read; everything before the cursor is in it or in an earlier one."""

    seen: list[AssetSeen] = []
    gone: list[AssetGone] = []
    refused: list[tuple[str, str]] = []  # qualified name and reason
    cursor: Cursor | None = None

    @property
    def size(self) -> int:
        return len(self.seen) + len(self.gone) + len(self.refused)


def chunks(
    items: Iterable[Observation | Cursor], scope: str | None = None, size: int = CHUNK
) -> Iterator[Chunk]:
    """In order, each asset once a chunk: what was said last counts."""
    chunk, names = Chunk(), dict[str, int]()
    for item in items:
        if isinstance(item, Cursor):
            chunk.cursor = item
            continue
        seen = _named(item)
        if scope is not None and not inside(scope, seen.qualified_name):
            continue
        _put(chunk, names, seen)
        if chunk.size >= size:
            yield chunk
            chunk, names = Chunk(cursor=chunk.cursor), {}
    yield chunk


def _named(item: object) -> Observation:
    if not isinstance(item, AssetSeen | AssetGone):
        raise Reject(f"The source yields {type(item).__name__} instead of an observation.")
    name = canonical(item.qualified_name)
    if name is not item.qualified_name:
        return msgspec.structs.replace(item, qualified_name=name)
    return item


def _put(chunk: Chunk, names: dict[str, int], seen: Observation) -> None:
    if wrong := problems(seen):
        reason = "; ".join(f"{error.field}: {error.message}" for error in wrong)
        chunk.refused.append((seen.qualified_name, reason))
    elif isinstance(seen, AssetGone):
        chunk.gone.append(seen)
    elif (place := names.get(seen.qualified_name)) is not None:
        chunk.seen[place] = seen
    else:
        names[seen.qualified_name] = len(chunk.seen)
        chunk.seen.append(seen)


def inside(scope: str, qualified_name: str) -> bool:
    """The asset itself, or what lies below it; a scope that ends in . # or / is a prefix."""
    if not qualified_name.startswith(scope):
        return False
    rest = qualified_name[len(scope) :]
    return not rest or scope.endswith(BOUNDARIES) or rest.startswith(BOUNDARIES)


def fingerprint(seen: Observation) -> bytes:
    """The same for the same statement."""
    return hashlib.blake2b(_encode(seen), digest_size=16).digest()
