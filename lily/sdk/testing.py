"""Contract tests for plug-ins: subclass one, say how yours is made, run pytest."""

import copy
from collections.abc import Iterable, Mapping

import msgspec

from lily.sdk import (
    AssetGone,
    AssetSeen,
    Cursor,
    EdgeGone,
    EdgeSeen,
    Enrichment,
    Hook,
    Observation,
    PersonLeft,
    Reading,
    Reject,
    SignalSeen,
    Source,
    Webhook,
)
from lily.sdk.testing_targets import FilterContract, TargetContract
from lily.sdk.webhooks import ARRIVED_AT

__all__ = [
    "EnrichmentContract",
    "FilterContract",
    "HookContract",
    "SourceContract",
    "TargetContract",
    "WebhookContract",
]

_encode = msgspec.json.Encoder(order="deterministic").encode
READINGS = (AssetSeen, AssetGone, EdgeSeen, EdgeGone, Cursor)
_decode = msgspec.json.Decoder(Observation | EdgeSeen | EdgeGone).decode


class HookContract:
    """What Lily expects of every hook.

    class TestMine(HookContract):
        def make(self) -> Hook:
            return Mine(Mine.Options(...))
    """

    def make(self) -> Hook:
        raise NotImplementedError("say how your hook is made")

    def examples(self) -> list[Observation]:
        """Add observations that your hook does something with."""
        return []

    def test_it_returns_an_observation_or_none(self) -> None:
        for seen in self._all():
            answer = ask(self.make(), seen)
            assert answer is None or isinstance(answer, AssetSeen | AssetGone), (
                f"a hook returns an observation or None, not {type(answer).__name__}"
            )

    def test_its_answer_can_be_written_and_read_back(self) -> None:
        for seen in self._all():
            if (answer := ask(self.make(), seen)) is not None:
                assert _decode(_encode(answer)) == answer, "the answer is not plain JSON"

    def test_it_leaves_its_input_alone(self) -> None:
        for seen in self._all():
            before = copy.deepcopy(seen)
            ask(self.make(), seen)
            assert seen == before, "return a changed copy (msgspec.structs.replace) instead"

    def test_the_same_input_gives_the_same_answer(self) -> None:
        for seen in self._all():
            hook = self.make()
            first = ask(hook, copy.deepcopy(seen))
            for other in (hook, self.make()):
                assert ask(other, copy.deepcopy(seen)) == first, "the answer depends on something"

    def test_twice_is_once(self) -> None:
        for seen in self._all():
            hook = self.make()
            if (once := ask(hook, seen)) is not None:
                assert ask(hook, once) == once, "its own answer must be left as it is"

    def _all(self) -> list[Observation]:
        return [*observations(), *self.examples()]


class SourceContract:
    """What Lily expects of every source; the tool that it reads must not change meanwhile.

    class TestMine(SourceContract):
        def make(self) -> Source:
            return Mine(Mine.Options(...))
    """

    def make(self) -> Source:
        raise NotImplementedError("say how your source is made")

    def test_it_yields_something_and_only_observations_and_cursors(self) -> None:
        items = list(self.make().read(None))
        strange = {type(i).__name__ for i in items if not isinstance(i, READINGS)}
        assert not strange, f"a source yields observations and cursors, not {strange}"
        assert _stated(items), "there is nothing to see; give your source an example to read"

    def test_what_it_yields_can_be_written_and_read_back(self) -> None:
        for item in self.make().read(None):
            if isinstance(item, Cursor):
                again = msgspec.json.decode(msgspec.json.encode(item.value))
                assert again == item.value, "a cursor is plain JSON"
            else:
                assert _decode(_encode(item)) == item, "an observation is plain JSON"

    def test_reading_twice_yields_the_same(self) -> None:
        source = self.make()
        first = _stated(source.read(None))
        for other in (source, self.make()):
            assert _stated(other.read(None)) == first, "the same statement each time, or it is news"

    def test_it_goes_on_at_each_of_its_cursors(self) -> None:
        items = list(self.make().read(None))
        whole = _stated(items)
        for place in [n for n, item in enumerate(items) if isinstance(item, Cursor)]:
            cursor = items[place]
            assert isinstance(cursor, Cursor)
            rest = _stated(self.make().read(cursor))
            assert {**_stated(items[:place]), **rest} == whole, f"{cursor} loses something"


class EnrichmentContract:
    """What Lily expects of every enrichment.

    class TestMine(EnrichmentContract):
        def make(self) -> Enrichment:
            return Mine(Mine.Options(...))
    """

    def make(self) -> Enrichment:
        raise NotImplementedError("say how your enrichment is made")

    def examples(self) -> list[AssetSeen]:
        """Add assets that yours makes something of."""
        return []

    def test_the_same_asset_gives_the_same_plain_value(self) -> None:
        bare = AssetSeen(qualified_name="a", tags=[], business_terms=[], metadata={})
        for root in [bare, *self.examples()]:
            first = self.make()(copy.deepcopy(root))
            again = self.make()(copy.deepcopy(root))
            assert first == again, "the same value each time, or it is news"
            assert msgspec.json.decode(msgspec.json.encode(first)) == first, "it is no plain JSON"

    def test_it_leaves_its_input_alone(self) -> None:
        for root in self.examples():
            kept = copy.deepcopy(root)
            self.make()(root)
            assert root == kept, "an enrichment looks; it changes nothing"


class WebhookContract:
    """What Lily expects of every webhook.

    class TestMine(WebhookContract):
        def make(self) -> Webhook:
            return Mine(Mine.Options(...))

        def genuine(self) -> list[tuple[dict[str, str], bytes]]:
            return [({"x-signature": "..."}, b"...")]
    """

    signs_body = True  # False for a tool that only sends a secret along

    def make(self) -> Webhook:
        raise NotImplementedError("say how your webhook is made")

    def genuine(self) -> list[tuple[dict[str, str], bytes]]:
        """Headers (names in lower case) and bodies of calls that are proven."""
        raise NotImplementedError("show a call that your tool would make")

    def arrived_at(self) -> int:
        """When the calls arrive, in Unix seconds."""
        return 1_700_000_000

    def test_a_genuine_call_says_something_that_can_be_written_and_read_back(self) -> None:
        for headers, body in self.genuine():
            for each in self._ask(headers, body):
                assert isinstance(each, AssetSeen | AssetGone | SignalSeen | PersonLeft), (
                    f"a webhook says observations and signals, not {type(each).__name__}"
                )
                again = msgspec.json.decode(_encode(each), type=type(each))
                assert again == each, "what it says is not plain JSON"

    def test_the_same_call_says_the_same(self) -> None:
        for headers, body in self.genuine():
            first = self._ask(headers, body)
            assert self._ask(headers, body) == first, "a retry must be known as one: see `key`"

    def test_a_call_without_proof_is_refused(self) -> None:
        for headers, body in self.genuine():
            bare = {k: v for k, v in headers.items() if k in ("content-type", "content-length")}
            assert self._refuses(bare, body), "nothing proves this call, and it was taken"

    def test_a_proof_that_was_cut_or_changed_is_refused(self) -> None:
        for headers, body in self.genuine():
            for cut in (lambda text: text[:-1], lambda text: text + "0", lambda _: ""):
                assert self._refuses({k: cut(v) for k, v in headers.items()}, body)

    def test_a_body_that_was_changed_is_refused(self) -> None:
        if self.signs_body:
            for headers, body in self.genuine():
                changed = bytes([*body[:-2], body[-2] ^ 1, *body[-1:]])
                assert self._refuses(headers, changed), "the proof is not about the body"

    def _ask(self, headers: Mapping[str, str], body: bytes) -> list[object]:
        given = {**headers, ARRIVED_AT: str(self.arrived_at())}
        return list(self.make().receive(given, body))

    def _refuses(self, headers: Mapping[str, str], body: bytes) -> bool:
        try:
            self._ask(headers, body)
        except Reject:
            return True
        return False


def _stated(items: Iterable[Reading]) -> dict[str, bytes]:
    return {_about(i): _encode(i) for i in items if not isinstance(i, Cursor)}


def _about(seen: Observation | EdgeSeen | EdgeGone) -> str:
    if isinstance(seen, AssetSeen | AssetGone):
        return seen.qualified_name
    return f"{seen.from_name} {seen.relationship_type} {seen.to_name}"


def ask(hook: Hook, seen: Observation) -> Observation | None:
    """The answer, with a refusal counted as a drop: both are allowed."""
    try:
        return hook(seen)
    except Reject:
        return None


def observations() -> list[Observation]:
    """What every hook must survive: the least, the largest and the strangest."""
    return [
        AssetSeen(qualified_name="a"),
        AssetSeen(qualified_name="a", partial=True),
        AssetSeen(qualified_name="a", asset_name=None, asset_type=None, tags=[], metadata={}),
        AssetSeen(
            qualified_name="postgres://h:5432/shop.public.people#email",
            asset_name="email",
            asset_type="column",
            asset_owner="Ann",
            description="Where to write to.",
            data_source="shop",
            tags=["x"],
            business_terms=["Customer"],
            metadata={"nullable": False, "length": 320, "nested": {"list": [1, None, 2.5]}},
        ),
        AssetSeen(
            qualified_name="файлы/データ/👩‍👩‍👧/ﷺ",
            asset_name="İıſẞ \u202e\t\n" * 50,
            description="\u0301" * 1000,
            tags=["日本", ""],
            metadata={"": "", "ключ": "значение", "a.b": 1},
        ),
        AssetSeen(qualified_name="n" * 4000, asset_name="_aA1" * 1000),
        AssetSeen(qualified_name="wide", metadata={f"key_{n}": n for n in range(10_000)}),
        AssetGone(qualified_name="a"),
    ]
