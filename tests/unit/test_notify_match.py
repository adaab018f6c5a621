"""Who hears of a fact, in which words, and what an answer means."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from lily.errors import Invalid
from lily.events.facts import Fact
from lily.notify import documents, verdicts, words
from lily.notify.match import Match, Subject, interested, matches

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GUID, HOME, ROOT = uuid4(), uuid4(), uuid4()
SUBJECT = Subject(
    GUID, "people", "shop/people", "people", "table", "ann", ["PII"], frozenset({HOME})
)


def fact(kind: str = "AssetChanged", **more: Any) -> Fact:
    given = {"kind": kind, "at": NOW, "by": "bob", "cause": "c", "guid": GUID, **more}
    return msgspec.convert(given, Fact, strict=False)


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ({}, True),
        ({"facts": ["AssetChanged"]}, True),
        ({"facts": ["AssetDeleted"]}, False),
        ({"asset_id": GUID}, True),
        ({"asset_id": HOME}, False),
        ({"under": HOME}, True),
        ({"under": GUID}, True),
        ({"under": ROOT}, False),
        ({"tag": "PII"}, True),
        ({"tag": "GDPR"}, False),
        ({"kinds": ["table", "view"]}, True),
        ({"kinds": ["column"]}, False),
        ({"owner": "ann"}, True),
        ({"owner": "bob"}, False),
        ({"downstream_of": ROOT}, True),
        ({"downstream_of": HOME}, False),
        ({"severity": "low"}, False),
        ({"facts": ["AssetChanged"], "tag": "PII", "owner": "bob"}, False),
    ],
)
def test_a_fact_is_heard_when_everything_that_is_named_fits(
    wanted: dict[str, Any], heard: bool
) -> None:
    reach: dict[UUID, set[UUID]] = {ROOT: {GUID}}
    assert matches(Match(**wanted), fact(), SUBJECT, reach) is heard


def test_severity_means_this_or_worse() -> None:
    opened = fact("IncidentOpened", after={"severity": "high"})
    heard = [s for s in ("critical", "high", "medium", "low")
             if matches(Match(severity=s), opened, SUBJECT, {})]  # fmt: skip
    assert heard == ["high", "medium", "low"]


def test_losing_a_tag_is_news_for_who_watches_it() -> None:
    lost = fact("TagsChanged", before={"tags": ["GDPR"]}, after={"tags": []})
    assert matches(Match(tag="GDPR"), lost, SUBJECT, {})
    assert words.composed(lost, SUBJECT, str(uuid4()), "", None).title == (
        "GDPR tag removed: people"
    )


def test_only_the_kinds_that_somebody_names_are_read() -> None:
    assert interested([Match(facts=["A"]), Match(facts=["B", "A"])]) == {"A", "B"}
    assert interested([Match(facts=["A"]), Match()]) is None
    assert interested([]) == set()


def test_words_say_what_happened() -> None:
    added = fact("TagsChanged", before={"tags": []}, after={"tags": ["PII"]})
    assert words.composed(added, SUBJECT, "i", "", None).title == "PII tag added: people"
    changed = fact(before={"description": "old"}, after={"description": "new"})
    notice = words.composed(changed, SUBJECT, "i", "https://lily", None)
    assert (notice.title, notice.text) == ("people has changed", "new")
    assert notice.url == f"https://lily/api/v1/metadata/{GUID}"
    after = {"incident_id": "7", "title": "Volume anomaly", "severity": "high"}
    resolved = words.composed(fact("IncidentResolved", after=after), SUBJECT, "i", "", None)
    assert (resolved.title, resolved.event) == ("Resolved: Volume anomaly", "resolved")
    assert resolved.key == "incident:7"


def test_a_template_fills_its_places_and_nothing_else() -> None:
    template = words.checked({"title": "{asset}: {severity}", "text": "{owner} {url} { x }"})
    opened = fact("IncidentOpened", after={"severity": "high", "title": "{owner}"})
    notice = words.composed(opened, SUBJECT, "i", "", template)
    assert notice.title == "people: high" and notice.text.startswith("ann ")
    for wrong in ("{password}", "", 7, {"body": "x"}, {"text": "x" * 5000}):
        with pytest.raises(Invalid):
            words.checked(wrong)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120), ("0", 0), ("-5", 0), ("1.5", 1.5), ("", None), (None, None), ("soon", None),
        ("999999999999999999999", 86400), ("Sun, 01 Mar 2026 12:02:00 GMT", 120),
        ("Sun, 01 Mar 2020 12:02:00 GMT", 0), ("nan", None),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    wait = verdicts.retry_after(value, NOW)
    assert wait == (None if seconds is None else timedelta(seconds=seconds))


def test_a_target_that_always_asks_for_patience_is_given_up_in_the_end() -> None:
    patience = verdicts.Verdict("throttled", after=timedelta(seconds=1))
    assert verdicts.following(patience, 0, NOW, NOW, 0).state == "waiting"
    late = NOW + verdicts.PATIENCE + timedelta(seconds=1)
    assert verdicts.following(patience, 0, NOW, late, 0).state == "dead"


def test_pauses_of_a_failing_target_grow_to_an_end() -> None:
    waits = [verdicts.pause(n) for n in (9, 10, 11, 12, 20, 1000)]
    minutes = [None if w is None else w.total_seconds() / 60 for w in waits]
    assert minutes == [None, 0.5, 1, 2, 5, 5]


def test_notifications_of_a_document_that_are_over_are_not_told() -> None:
    def listed(**each: Any) -> list[documents.Asked]:
        given = {"system_name": "jira", "notification_id": "n", **each}
        return documents.asked(
            fact(after={"details": {"downstream_notifications": [given, 7, {}]}})
        )

    assert len(listed()) == len(listed(notification_status="pending")) == 1
    assert listed(notification_status="Delivered") == listed(system_name=7) == []
    assert documents.asked(fact(after={"details": 7})) == documents.asked(fact()) == []
