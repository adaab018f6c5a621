"""Who is believed where anybody may write."""

import json
from typing import Any
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from lily.events.envelope import Envelope, decode, encode
from lily.events.observations import Nothing
from lily.events.signed import Door, Key, Opened, Refused, sign

OWN, OLDER, THEIRS = b"o" * 32, b"p" * 32, b"t" * 32
DOOR = Door([OWN, OLDER], {"pk_1": Key(7, "etl", THEIRS)}.get)


def said(name: str = "a/b", **more: Any) -> bytes:
    seen = {"type": "AssetSeen", "qualified_name": name}
    return json.dumps({"source": "etl", "observation": seen, **more}).encode()


def opened(value: bytes, key: bytes = b"k", lane: Any = "core") -> Opened | Refused:
    return DOOR.open(lane, key, value, sign("pk_1", THEIRS, key, value).encode())


def test_the_key_says_the_tenant() -> None:
    found = opened(said())
    assert isinstance(found, Opened)
    envelope = decode(found.value)
    assert (found.tenant, envelope.tenant, envelope.by) == (7, 7, "kafka:etl")
    assert (found.key, envelope.source) == ("a/b", "etl")


def test_a_tenant_in_the_value_is_refused() -> None:
    found = opened(said(tenant=8))
    assert isinstance(found, Refused)
    assert found.tenant == 7


def test_what_belongs_into_the_other_lane_can_be_replayed() -> None:
    found = opened(said("a/b#c"))
    assert isinstance(found, Refused)
    assert decode(found.value).tenant == 7
    assert isinstance(opened(said("a/b#c"), lane="fields"), Opened)


def test_our_own_keys_are_known_until_they_leave_the_ring() -> None:
    envelope = Envelope(id=uuid4(), tenant=3, source="s", by="b", observation=Nothing())
    value = encode(envelope)
    for secret, is_known in ((OWN, True), (OLDER, True), (THEIRS, False)):
        header = sign("lily", secret, b"3/a/b", value).encode()
        found = DOOR.open("core", b"3/a/b", value, header)
        assert isinstance(found, Opened) is is_known
        if isinstance(found, Opened):
            assert (found.tenant, found.key) == (3, "a/b")


@given(st.binary(max_size=80))
def test_no_header_of_chance_is_let_in(header: bytes) -> None:
    found = DOOR.open("core", b"7/a/b", said(), header)
    assert isinstance(found, Refused)
    assert found.tenant is None


@given(st.integers(0, 4))
def test_bytes_that_move_between_key_and_value_are_noticed(cut: int) -> None:
    whole = b"keyX" + said()
    header = sign("pk_1", THEIRS, whole[:3], whole[3:]).encode()
    found = DOOR.open("core", whole[:cut], whole[cut:], header)
    assert isinstance(found, Refused)
    assert (found.tenant is None) is (cut != 3)
