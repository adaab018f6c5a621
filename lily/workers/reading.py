"""What a source yields, made ready to be compared and sent. Pure, for the host and the agent."""

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from lily.assets.names import canonical
from lily.assets.rules import problems
from lily.events.observations import AssetGone, AssetSeen
from lily.lineage.labels import turned
from lily.lineage.rules import problems as edge_problems
from lily.sdk import Cursor, EdgeGone, EdgeSeen, Reading, Reject

CHUNK = 2_000  # one transaction of the log: short, because its reader waits for it
BOUNDARIES = (".", "#", "/")

EDGE = "edge:"  # no asset of a source is called so: names begin with a namespace

Statement = AssetSeen | AssetGone | EdgeSeen | EdgeGone
_encode = msgspec.json.Encoder(order="deterministic").encode


class Chunk(msgspec.Struct):
    """A stretch of what was read; everything before the cursor is in it or in an earlier one."""

    seen: list[AssetSeen | EdgeSeen] = []
    gone: list[AssetGone | EdgeGone] = []
    refused: list[tuple[str, str]] = []  # qualified name and reason
    cursor: Cursor | None = None

    @property
    def size(self) -> int:
        return len(self.seen) + len(self.gone) + len(self.refused)


def chunks(
    items: Iterable[Reading], scope: str | None = None, size: int = CHUNK
) -> Iterator[Chunk]:
    """In order, each asset and edge once a chunk: what was said last counts."""
    chunk, names = Chunk(), dict[str, int]()
    for item in items:
        if isinstance(item, Cursor):
            chunk.cursor = item
            continue
        seen = _named(item)
        if scope is not None and not inside(scope, place_of(seen)):
            continue
        _put(chunk, names, seen)
        if chunk.size >= size:
            yield chunk
            chunk, names = Chunk(cursor=chunk.cursor), {}
    yield chunk


def key_of(seen: Statement) -> str:
    """What a statement is about: an asset's name, or an edge by its ends and label."""
    if isinstance(seen, AssetSeen | AssetGone):
        return seen.qualified_name
    ends = (seen.from_name, seen.to_name, seen.relationship_type)
    return EDGE + _encode(ends).decode()


def ended(key: str) -> AssetGone | EdgeGone:
    """The word that what has this key is no longer there."""
    if not key.startswith(EDGE):
        return AssetGone(qualified_name=key)
    start, end, label = msgspec.json.decode(key[len(EDGE) :], type=tuple[str, str, str])
    return EdgeGone(from_name=start, to_name=end, relationship_type=label)


def place_of(seen: Statement) -> str:
    """The asset in which it belongs: an edge belongs to what is downstream."""
    if isinstance(seen, AssetSeen | AssetGone):
        return seen.qualified_name
    return turned(seen.relationship_type, seen.from_name, seen.to_name)[1]


def _named(item: object) -> Statement:
    if isinstance(item, EdgeSeen | EdgeGone):
        return item
    if not isinstance(item, AssetSeen | AssetGone):
        raise Reject(f"The source yields {type(item).__name__} instead of an observation.")
    name = canonical(item.qualified_name)
    if name is not item.qualified_name:
        return msgspec.structs.replace(item, qualified_name=name)
    return item


def _put(chunk: Chunk, names: dict[str, int], seen: Statement) -> None:
    key = key_of(seen)
    wrong = problems(seen) if isinstance(seen, AssetSeen | AssetGone) else edge_problems(seen)
    if wrong:
        reason = "; ".join(f"{error.field}: {error.message}" for error in wrong)
        chunk.refused.append((key, reason))
    elif isinstance(seen, AssetGone | EdgeGone):
        chunk.gone.append(seen)
    elif (place := names.get(key)) is not None:
        chunk.seen[place] = seen
    else:
        names[key] = len(chunk.seen)
        chunk.seen.append(seen)


def inside(scope: str, qualified_name: str) -> bool:
    """The asset itself, or what lies below it; a scope that ends in . # or / is a prefix."""
    if not qualified_name.startswith(scope):
        return False
    rest = qualified_name[len(scope) :]
    return not rest or scope.endswith(BOUNDARIES) or rest.startswith(BOUNDARIES)


def fingerprint(seen: Statement) -> bytes:
    """The same for the same statement."""
    return hashlib.blake2b(_encode(seen), digest_size=16).digest()
