"""Contract tests for targets and filters: subclass one, say how yours is made, run pytest."""

import copy
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from lily.errors import LilyError, Reject, Retry
from lily.sdk.targets import About, Answer, Call, Filter, Gone, Notice, Record, Refused, Target

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOST_CALLS = 12

Asked = Call | Record
Answers = Callable[[Any], Answer]


class TargetContract:
    """What Lily expects of every target.

    class TestMine(TargetContract):
        def make(self) -> Target:
            return Mine(Mine.Options(...))
        def answers(self, call: Call) -> Answer:
            return Answer(200, body=b'{"id": 7}')   # as the real thing would
    """

    def make(self) -> Target:
        raise NotImplementedError("say how your target is made")

    def answers(self, call: Any) -> Answer:
        """What the other side says when all is well."""
        return Answer(200)

    def test_it_says_where_it_sends_to(self) -> None:
        known = ("https://", "http://", "kafka://")
        assert self.make().address().startswith(known), "an absolute URL"

    def test_it_sends_every_notice_and_returns_plain_json(self) -> None:
        for notice in notices():
            handle = converse(self.make(), notice, self.answers)[1]
            again = msgspec.json.decode(msgspec.json.encode(handle))
            assert again == handle, "a handle is plain JSON"

    def test_its_calls_are_whole(self) -> None:
        for notice in notices():
            for call in converse(self.make(), notice, self.answers)[0]:
                told = "".join([*call.headers, *call.headers.values()])
                assert "\n" not in told and "\r" not in told, "one line a header"
                if isinstance(call, Record):
                    assert call.topic and call.key and isinstance(call.value, bytes)
                    continue
                assert call.method in ("GET", "POST", "PUT", "PATCH", "DELETE"), call.method
                assert call.url.startswith(("https://", "http://")), "an absolute URL"
                assert isinstance(call.body, bytes)

    def test_what_it_was_told_is_used_when_it_goes_on(self) -> None:
        """With a handle it updates; it must at least not break."""
        first = notices()[0]
        handle = converse(self.make(), first, self.answers)[1]
        later = msgspec.structs.replace(
            first, id="b" * 8, event="resolved", handle=handle, incident=first.incident
        )
        converse(self.make(), later, self.answers)

    def test_the_same_notice_makes_the_same_calls(self) -> None:
        for notice in notices():
            target = self.make()
            first = converse(target, notice, self.answers)[0]
            for other in (target, self.make()):
                assert converse(other, notice, self.answers)[0] == first, "it depends on something"

    def test_refusals_come_out_as_one_of_lilys_errors(self) -> None:
        for status in (400, 401, 404, 410, 429, 500, 503):
            for body in (b"", b"no", b'{"error": "no"}'):
                with suppress(Refused, Reject, Retry, Gone):
                    converse(self.make(), notices()[0], _always(Answer(status, {}, body)))

    def test_nonsense_with_a_200_does_not_break_it(self) -> None:
        for body in (b"", b"<html>", b"[]", b"null", b"{}"):
            with suppress(LilyError):
                converse(self.make(), notices()[0], _always(Answer(200, {}, body)))


class FilterContract:
    """What Lily expects of every filter."""

    def make(self) -> Filter:
        raise NotImplementedError("say how your filter is made")

    def test_it_returns_a_notice_or_none(self) -> None:
        for notice in notices():
            kept = self._asked(notice)
            assert kept is None or isinstance(kept, Notice)

    def test_its_answer_can_be_written_and_read_back(self) -> None:
        for notice in notices():
            if (kept := self._asked(notice)) is not None:
                again = msgspec.json.decode(msgspec.json.encode(kept), type=Notice)
                assert again == kept, "the answer is not plain JSON"

    def test_it_leaves_its_input_alone(self) -> None:
        for notice in notices():
            before = copy.deepcopy(notice)
            self._asked(notice)
            assert notice == before, "return a changed copy (msgspec.structs.replace) instead"

    def _asked(self, notice: Notice) -> Notice | None:
        try:
            return self.make()(notice, "a channel")
        except Reject:
            return None


def converse(target: Target, notice: Notice, answers: Answers) -> tuple[list[Any], Any]:
    """What a target calls, and what it returns in the end."""
    calls: list[Asked] = []
    sending = target.send(notice)
    try:
        call = next(sending)
        while True:
            calls.append(call)
            assert len(calls) <= MOST_CALLS, "it never comes to an end"
            answer = answers(call)
            ok = 200 <= answer.status < 300
            call = sending.send(answer) if ok else sending.throw(Refused(answer))
    except StopIteration as end:
        return calls, end.value


def _always(answer: Answer) -> Answers:
    return lambda _: answer


def notices() -> list[Notice]:
    """What every target must survive: the least, the largest and the strangest."""
    asset = About(
        guid="5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50", asset_id="people", name="people",
        qualified_name="postgres://h:5432/shop.public.people", type="table", owner="ann",
        tags=["PII"],
    )  # fmt: skip
    incident = "7a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
    opened = Notice(
        id="a" * 8, key=f"incident:{incident}", kind="IncidentOpened", event="opened", at=AT,
        by="montecarlo", title="Volume anomaly on people", text="Has 42 rows vs. 101 expected",
        severity="high", incident=incident, asset=asset, sent_at=AT,
        fields={"Asset": asset.qualified_name, "Severity": "high"}, labels=["PII", "two words"],
        url="https://example.com/incidents/1", acknowledge_url="https://lily.example/n/ack?t=x",
        data={"after": {"state": "open", "n": 1}},
    )  # fmt: skip
    replace = msgspec.structs.replace
    return [
        opened,
        replace(opened, unsure=True),
        replace(opened, event="acknowledged", kind="IncidentAcknowledged"),
        replace(opened, event="resolved", kind="IncidentResolved", echo=True),
        Notice(id="c" * 8, key="k", kind="Test", at=AT, title="t", sent_at=AT),
        Notice(id="d" * 8, key="k", kind="Test", at=AT, title="", sent_at=AT),
        Notice(
            id="e" * 8, key="k", kind="AssetChanged", at=AT, sent_at=AT,
            title="<b>&amp; [x](javascript:1)\n\u202e" * 200, text="🙂é\"'<script>\\ " * 20_000,
            fields={f"field {n}": "x" * 5000 for n in range(100)}, labels=["", " "],
            url="not a url", data={"deep": {"deeper": [None, 1.5, "x" * 50_000]}},
        ),
    ]  # fmt: skip
