"""From an uploaded file to parts, and from a part to chunks of observations."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from lily.assets.change import Message
from lily.assets.documents import statement
from lily.assets.hooks import HookFailure, NamedHook, run_hooks
from lily.assets.names import canonical, invented
from lily.assets.quick import plain
from lily.assets.rules import problems
from lily.clock import micros
from lily.errors import Forbidden, Invalid
from lily.events.lanes import lane_of
from lily.formats.columns import Format
from lily.formats.files import records
from lily.store.bulk import CHUNK, Chunk
from lily.store.jobs import Refused
from lily.store.spool import Cutter, Folder, Part
from lily.types import Lane, Tenant

BLOCK = 1 << 20


class Named(msgspec.Struct):
    """Of a line only what tells its lane."""

    qualified_name: str | None = None
    asset_id: str | None = None
    asset_name: str | None = None
    asset_type: str | None = None
    data_source: str | None = None


class Origin(msgspec.Struct, frozen=True):
    """What all lines of a job have in common."""

    tenant: Tenant
    job: UUID
    by: str
    traceparent: str
    accepted_at: datetime
    core_offset: int
    fields_offset: int


_NAME = b'"qualified_name"'
_FIRST = b'{"qualified_name":"'
_named = msgspec.json.Decoder(Named).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def convert(folder: Folder, format: Format) -> int:
    """Write an upload as parts; how many lines it has, up to the last one with an asset."""
    growing = folder.growing()
    cutter = Cutter(growing, lined=True)
    last, held, block = 0, 0, []
    for record in records(format, folder.upload):
        last = record.line
        line = b"%d\t%s\n" % (record.line, _written(record.value, record.reason))
        block.append(line)
        held += len(line)
        if held > BLOCK:
            cutter.write(b"".join(block))
            held, block = 0, []
    cutter.write(b"".join(block))
    cutter.close()
    folder.finish(growing)
    return last


def _written(value: object, reason: str) -> bytes:
    if not reason:
        try:
            return _encode(value)
        except (ValueError, TypeError, OverflowError, RecursionError):
            reason = "has text or a number that cannot be stored"
    return b"!" + " ".join(reason.split()).encode("utf-8", "replace")


def chunks(
    part: Part,
    content: bytes,
    lane: Lane,
    origin: Origin,
    hooks: Sequence[NamedHook],
    done: set[int],
) -> Iterator[Chunk]:
    """The chunks of one lane in a part, in order; those that are done are left out.

    Which lines are in which chunk depends on the file alone, so that it is the same whenever the
    part is read again.
    """
    reader = Reader(lane, origin, hooks)
    count, chunk = 0, Chunk(0, [], [])
    for line, raw in lines(part, content):
        if lane_in(raw) != lane:
            continue
        number = count // CHUNK
        if number != chunk.number:
            if chunk.number not in done:
                yield chunk
            chunk = Chunk(number, [], [])
        count += 1
        if number not in done:
            reader.read(line, raw, chunk)
    if count and chunk.number not in done:
        yield chunk


def lines(part: Part, content: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbered lines that are not blank."""
    if part.lined:
        for whole in content.split(b"\n"):
            place, mark, rest = whole.partition(b"\t")
            if mark:
                yield int(place), rest
    else:
        for number, raw in enumerate(content.split(b"\n"), part.first):
            if raw and not raw.isspace():
                yield number, raw


def lane_in(raw: bytes) -> Lane:
    """The lane of a line. What cannot be read is refused, in whichever lane."""
    if b"#" not in raw and b"\\u0023" not in raw:
        return "core"
    if raw.startswith(_FIRST) and b"\\" not in raw and raw.count(_NAME) == 1:
        # The name comes first, once, and plainly: no need to read the rest.
        name, end, _ = raw[len(_FIRST) :].partition(b'"')
        return "fields" if end and b"#" in name else "core"
    return named_in(raw)[0]


def named_in(raw: bytes) -> tuple[Lane, str]:
    """The lane of a line, and what it is about; nothing if it cannot be read."""
    try:
        named = _named(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "core", ""
    name = named.qualified_name if named.qualified_name is not None else named.asset_id
    if name is None:
        name = invented(named.data_source, named.asset_type, named.asset_name or "")
    return lane_of(name), name


class Reader:
    """From lines to messages, or to reasons."""

    def __init__(self, lane: Lane, origin: Origin, hooks: Sequence[NamedHook]) -> None:
        self._origin = origin
        self._hooks = hooks
        self._offset = origin.core_offset if lane == "core" else origin.fields_offset
        self._accepted = micros(origin.accepted_at)
        self._cause = f"{origin.job}/"

    def read(self, line: int, raw: bytes, into: Chunk) -> None:
        if raw[:1] == b"!":
            into.refused.append(Refused(line, raw[1:].decode(errors="replace")))
            return
        origin = self._origin
        try:
            stated = plain(raw, origin.accepted_at)
            if stated is None:
                stated = statement(_decode(raw), origin.tenant, origin.accepted_at)
        except (Invalid, Forbidden) as wrong:
            into.refused.append(Refused(line, str(wrong)))
            return
        except (msgspec.DecodeError, UnicodeDecodeError) as cause:
            into.refused.append(Refused(line, f"this is not JSON: {cause}"))
            return
        except RecursionError:
            into.refused.append(Refused(line, "is nested too deeply; flatten it"))
            return
        seen = stated.seen
        if self._hooks:
            outcome = run_hooks(self._hooks, seen)
            if outcome is None:
                into.dropped += 1
                return
            if isinstance(outcome, HookFailure):
                reason = f"refused by hook {outcome.plugin}: {outcome.reason}"
                into.refused.append(Refused(line, reason))
                return
            if found := problems(outcome):
                into.refused.append(Refused(line, f"{found[0].field}: {found[0].message}"))
                return
            seen = outcome
            seen.qualified_name = canonical(seen.qualified_name)
        at = self._accepted if stated.observed_at is None else micros(stated.observed_at)
        moment = (at, self._offset + line)
        into.messages.append(
            Message(
                seen, stated.source, origin.by, f"{self._cause}{line}", moment, origin.traceparent
            )
        )
