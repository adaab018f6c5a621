"""The quick ways of a bulk load give exactly what the ordinary ways give."""

import json
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lily.assets import fresh, renewed
from lily.assets.change import Assignment, Context, Known, Message, first_claim, settle, take
from lily.assets.claims import when
from lily.assets.documents import statement
from lily.assets.model import COLUMNS, INCIDENTS, Propagated
from lily.assets.names import as_guid, guid_of
from lily.assets.quick import plain
from lily.errors import LilyError
from lily.events.observations import AssetSeen
from lily.pipeline.parts import lane_in, named_in
from lily.store.bulk_rows import LEAN, says_more
from lily.tags.effective import effective
from lily.types import Tenant

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TENANT = Tenant(7, UUID(int=5), "acme", "home")
CONTEXT = Context(NOW, effective, lambda name: as_guid(name) or guid_of(TENANT.id, name))

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from("#\\\t\n'\"{"),
    max_size=12,
)
names = texts.filter(lambda s: s.strip() and "\0" not in s)
labels = st.lists(st.sampled_from(["PII", "public", "gold", "a;b", "x"]), max_size=4)
values = st.none() | st.booleans() | st.integers(-5, 5) | names | st.lists(names, max_size=2)
documents = st.fixed_dictionaries(
    {"qualified_name": names},
    optional={
        "asset_id": names | st.none(),
        "asset_name": names | st.none() | st.just("") | st.integers(),
        "asset_type": names | st.none(),
        "asset_owner": texts | st.none(),
        "description": texts | st.none(),
        "parent_id": texts | st.none() | st.just(str(UUID(int=9))),
        "data_source": texts | st.none(),
        "external_id": texts,
        "source": texts | st.none(),
        "tags": labels | st.none() | st.just([1]),
        "business_terms": labels,
        "metadata": st.dictionaries(names, values, max_size=4) | st.none(),
        "details": st.dictionaries(names, values, max_size=2),
        "observed_at": st.sampled_from(["2026-01-31", "2027-01-01T00:00:00Z", "no", None]),
        "created_at": st.sampled_from(["2020-01-31", None]),
        "partial": st.booleans(),
        "is_deleted": st.booleans(),
        "unknown": values,
    },
)


def ordinary(document: dict[str, Any]) -> Any:
    try:
        return statement(document, TENANT, NOW)
    except LilyError as wrong:
        return str(wrong)


@settings(max_examples=600, deadline=None)
@given(documents)
def test_a_plain_line_is_read_as_every_document(document: dict[str, Any]) -> None:
    raw = json.dumps(document).encode()
    quick = plain(raw, NOW)
    if quick is not None:
        assert quick == ordinary(msgspec.json.decode(raw))


@settings(max_examples=600, deadline=None)
@given(documents, st.booleans())
def test_the_lane_of_a_line_is_that_of_its_name(document: dict[str, Any], plainly: bool) -> None:
    separators = (",", ":") if plainly else None
    raw = json.dumps(document, separators=separators, ensure_ascii=not plainly).encode()
    lane, name = named_in(raw)
    assert not name or lane_in(raw) == lane  # what cannot be read is refused in either lane


@pytest.mark.parametrize(
    ("raw", "lane"),
    [
        (b'{"qualified_name":"t#c","metadata":{"qualified_name":"t"}}', "fields"),
        (b'{"qualified_name":"t#c","qualified_name":"t"}', "core"),
        (b'{"qualified_name":"t","description":"# of rows"}', "core"),
        (b'{"qualified_name":"t\\u0023c"}', "fields"),
        (b'{"qualified_name":"cut off #', "core"),
        (b'{"asset_id":"t#c"}', "fields"),
    ],
)
def test_the_lane_is_not_fooled(raw: bytes, lane: str) -> None:
    assert lane_in(raw) == lane


@settings(max_examples=600, deadline=None)
@given(documents)
def test_a_first_statement_makes_the_row_that_a_decision_makes(document: dict[str, Any]) -> None:
    stated = ordinary(document)
    if isinstance(stated, str) or not isinstance(stated.seen, AssetSeen):
        return
    message = Message(stated.seen, stated.source, "me", "job/1", when(NOW, 42), "")
    if not fresh.suits(message):
        return
    guid = guid_of(TENANT.id, stated.seen.qualified_name)
    known = Known(TENANT.number, guid, stated.seen.qualified_name)
    [fact] = take(known, message, CONTEXT)
    made = fresh.created(TENANT.number, guid, message, CONTEXT)
    assert made == known.asset
    assert fresh.told(made, message, CONTEXT) == fact
    if not says_more(made):
        same: dict[str, Any] = {"version": 1, "layers": 0, "tenant": TENANT.number}
        same |= dict.fromkeys(("created_at", "updated_at", "applied_at"), NOW)
        left_out = {name: getattr(made, name) for name in COLUMNS if name not in LEAN}
        assert left_out == {name: same.get(name) for name in left_out}


few = st.sampled_from(["", "a", "b"])
sayings = st.fixed_dictionaries(
    {
        "source": st.sampled_from(["s", "s", "s", "s", "t"]),
        "asset_name": st.sampled_from(["n", "n", "m", None]),
        "asset_type": st.sampled_from(["table", "table", "view", None]),
    },
    optional={
        "asset_owner": few | st.none(),
        "description": few,
        "parent_id": st.sampled_from(["p", str(UUID(int=9))]),
        "data_source": few,
        "external_id": few,
        "tags": labels,
        "business_terms": labels,
        "metadata": st.dictionaries(few, values, max_size=2),
        "details": st.dictionaries(few, values, max_size=2),
        "created_at": st.sampled_from(["2020-01-31", "2021-01-31"]),
        "partial": st.sampled_from([False, False, False, True]),
        "is_deleted": st.sampled_from([False, False, False, True]),
    },
)


def meanwhile(known: Known, what: str, context: Context) -> None:
    """Something that others than sources do to an asset."""
    if known.asset is None or not what:
        return
    known.claims = known.claims or {known.asset.source: first_claim(known.asset)}
    match what:
        case "archived":
            known.asset.archived_at = context.now
        case "deleted":
            known.asset.deleted_by = "ann"
        case "edited":
            known.asset.edited = {"description": {"value": "By hand."}}
        case "ill":
            known.asset.layers |= INCIDENTS
        case "tagged":
            known.assignments = [Assignment("gold", "person", "ann", "active")]
        case "reached":
            known.propagated = [Propagated("tag", "PII", "", UUID(int=3), 1, UUID(int=4))]
    settle(known, context)


doings = st.sampled_from(["", "", "", "archived", "deleted", "edited", "ill", "tagged", "reached"])


@settings(max_examples=2000, deadline=None)
@given(
    st.sampled_from(["db/s.t", "db/s.t#c"]),
    st.none() | names,
    st.lists(st.tuples(sayings, st.integers(0, 4), doings), min_size=2, max_size=6),
)
def test_the_next_statements_make_the_rows_and_facts_that_decisions_make(
    name: str, own_id: str | None, said: list[tuple[dict[str, Any], int, str]]
) -> None:
    quick = Known(TENANT.number, guid_of(TENANT.id, name), name)
    slow = deepcopy(quick)
    for offset, (document, at, done) in enumerate(said):
        stated = ordinary({**document, "qualified_name": name, "asset_id": own_id})
        message = Message(stated.seen, stated.source, "me", f"job/{offset}", (at, offset), "")
        context = replace(CONTEXT, now=NOW + timedelta(minutes=offset))
        for each in (quick, slow):
            if each.asset and each.asset.statement is None and not each.asset.layers:
                each.claims = {}  # as in the next batch: the row says it all
            meanwhile(each, done, context)
        wanted = take(slow, deepcopy(message), context)
        if renewed.suits(quick, message):
            event("the short way")
            assert renewed.take(quick, message, context) == wanted
        else:
            assert take(quick, message, context) == wanted
        assert quick.asset == slow.asset and quick.touched == slow.touched


@given(texts)
def test_a_guid_is_a_uuid5(name: str) -> None:
    import unicodedata

    wanted = uuid5(TENANT.id, unicodedata.normalize("NFC", name))
    found = guid_of(TENANT.id, name)
    assert found == wanted and hash(found) == hash(wanted) and str(found) == str(wanted)
