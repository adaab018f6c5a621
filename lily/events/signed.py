"""Who said it, where anybody may write: a signature over key and value decides the tenant.

A record in Kafka carries the header `lily-signature: v1,<key id>,<base64 of HMAC-SHA256>`. The id
`lily` is the installation's own key; any other is a key of one tenant.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from uuid import UUID, uuid4

import msgspec

from lily.events.envelope import Envelope, encode
from lily.events.lanes import lane_of
from lily.events.observations import AnyObservation, Nothing
from lily.types import Lane

HEADER = "lily-signature"
OWN = "lily"
VERSION = "v1"


class Key(msgspec.Struct, frozen=True):
    """What a producer signs with, and whom it speaks for."""

    tenant: int
    name: str
    secret: bytes


class Refused(msgspec.Struct, frozen=True):
    """Why a record is not let in. The tenant is known only if the signature was good."""

    reason: str
    tenant: int | None = None
    value: str = ""  # the envelope, if it could be read: it may be replayed as it is
    cause: str = ""  # the id that the producer gave it


class Opened(msgspec.Struct, frozen=True):
    """A record whose tenant is certain: the name it is about, and an envelope as we write them."""

    tenant: int
    key: str
    value: str


class Stated(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What an outside producer writes. There is no tenant in it: the key says that."""

    observation: AnyObservation
    source: str
    id: UUID | None = None
    observed_at: datetime | None = None
    traceparent: str = ""


_stated = msgspec.json.Decoder(Stated).decode


def sign(key_id: str, secret: bytes, key: bytes, value: bytes) -> str:
    """The header for a record with this key and value."""
    return f"{VERSION},{key_id},{base64.b64encode(_digest(secret, key, value)).decode()}"


class Door:
    """Lets records in. `own` are the installation's keys, newest first."""

    def __init__(self, own: Sequence[bytes], keys: Callable[[str], Key | None]) -> None:
        self._own = own
        self._keys = keys

    def open(self, lane: Lane, key: bytes, value: bytes, header: bytes | None) -> Opened | Refused:
        version, _, rest = _text(header).partition(",")
        key_id, _, signature = rest.partition(",")
        if version != VERSION or not signature:
            return Refused(f"there is no header {HEADER} of version {VERSION}")
        try:
            given = base64.b64decode(signature, validate=True)
        except binascii.Error:
            return Refused("the signature is not base64")
        if key_id == OWN:
            return self._own_record(key, value, given)
        known = self._keys(key_id)
        if known is None or not hmac.compare_digest(_digest(known.secret, key, value), given):
            return Refused("the signature is not that of a known key")
        return _theirs(lane, known, value)

    def _own_record(self, key: bytes, value: bytes, given: bytes) -> Opened | Refused:
        """Its key begins with the number of the tenant, and the signature covers it."""
        if not any(hmac.compare_digest(_digest(each, key, value), given) for each in self._own):
            return Refused("the signature is not ours")
        number, _, name = key.decode().partition("/")
        return Opened(int(number), name, value.decode())


class _Named(msgspec.Struct):
    """Of a statement only what it is about."""

    class Observation(msgspec.Struct):
        qualified_name: str = ""

    observation: Observation


_named = msgspec.json.Decoder(_Named).decode


def claimed(key: bytes, header: bytes | None, owners: Mapping[str, int]) -> int | None:
    """Whose a record says that it is. Nothing is proven: enough to count, not to let it in."""
    key_id = _text(header).split(",", 2)[1:2]
    if key_id == [OWN]:
        number = key.partition(b"/")[0]
        return int(number) if number.isdigit() else None
    return owners.get(key_id[0]) if key_id else None


def name_in(key: bytes, value: bytes, header: bytes | None) -> str:
    """What a record is about, if it can be read; nothing is proven here either."""
    if _text(header).split(",", 2)[1:2] == [OWN]:
        return key.partition(b"/")[2].decode("utf-8", "replace")
    try:
        return _named(value).observation.qualified_name
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""


def _theirs(lane: Lane, known: Key, value: bytes) -> Opened | Refused:
    try:
        stated = _stated(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as cause:
        return Refused(str(cause), known.tenant)
    if isinstance(stated.observation, Nothing):
        return Refused("`nothing` is said by Lily alone", known.tenant)
    if not stated.source.strip():
        return Refused("source: is empty", known.tenant)
    name = stated.observation.qualified_name
    envelope = Envelope(
        id=stated.id or uuid4(), tenant=known.tenant, source=stated.source,
        by=f"kafka:{known.name}", observation=stated.observation,
        observed_at=stated.observed_at, traceparent=stated.traceparent,
    )  # fmt: skip
    readable = encode(envelope).decode()
    if (right := lane_of(name)) != lane:
        given = str(stated.id or "")
        return Refused(f"belongs into the topic of {right}", known.tenant, readable, given)
    return Opened(known.tenant, name, readable)


def _digest(secret: bytes, key: bytes, value: bytes) -> bytes:
    # The length keeps what is key and what is value apart.
    return hmac.digest(secret, len(key).to_bytes(4, "big") + key + value, "sha256")


def _text(header: bytes | None) -> str:
    return (header or b"").decode("ascii", "replace")
