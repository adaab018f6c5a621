"""When a crawl is due."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from lily.errors import Invalid
from lily.schedule import next_after, parse

NOON = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC)  # a Saturday
EVEN, ODD = UUID(int=1000), UUID(int=1500)  # without jitter, and with half of it


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("15m", "2026-01-31T12:15:30"),
        ("24h", "2026-02-01T12:00:30"),
        ("@hourly", "2026-01-31T13:00:00"),
        ("@daily", "2026-02-01T00:00:00"),
        ("@weekly", "2026-02-01T00:00:00"),
        ("@monthly", "2026-02-01T00:00:00"),
        ("*/20 * * * *", "2026-01-31T12:20:00"),
        ("0 9-17/4 * * 1-5", "2026-02-02T09:00:00"),
        ("30 8 * * 7", "2026-02-01T08:30:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00"),
        ("5,10 12 31 1 *", "2026-01-31T12:05:00"),
        ("0 0 13 * 5", "2026-02-06T00:00:00"),
    ],
)
def test_the_next_time_is_the_first_that_matches(text: str, due: str) -> None:
    assert next_after(text, NOON, EVEN) == datetime.fromisoformat(due).replace(tzinfo=UTC)


def test_manual_is_never_due() -> None:
    assert next_after("manual", NOON, EVEN) is None


def test_jitter_is_a_tenth_at_most_and_the_same_each_time() -> None:
    assert next_after("1h", NOON, ODD) == NOON + timedelta(minutes=63)
    assert next_after("24h", NOON, ODD) == NOON + timedelta(hours=24, minutes=5)
    hour = NOON.replace(hour=13, minute=0, second=0)
    assert next_after("@hourly", NOON, ODD) == hour + timedelta(minutes=3)


@pytest.mark.parametrize(
    "text",
    ["", "often", "5s", "900d", "* * * *", "60 * * * *", "* 24 * * *", "*/0 * * * *", "5-1 * * * *",
     "0 0 31 2 *", "*-5 * * * *", "@yearlyish"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text)
    assert caught.value.errors[0].field == "schedule"
