"""When a crawl is due: every so often, or as cron says. Pure; times are UTC."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from lily.errors import Invalid

DEFAULT = "24h"
NEVER = "manual"
LONGEST_JITTER = timedelta(minutes=10)

NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_INTERVAL = re.compile(r"(\d{1,6})([smhd])")
_PART = re.compile(r"(\*|\d{1,2})(?:-(\d{1,2}))?(?:/(\d{1,2}))?")
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_HELP = "must be like 24h, 15m, @daily, five cron fields, or manual"


class Cron(msgspec.Struct, frozen=True):
    """Five sets. A day counts by day of month or of week if both are given, as cron has it."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def has(self, day: datetime) -> bool:
        of_month = day.day in self.days
        of_week = day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day.month in self.months and of_month and of_week
        return day.month in self.months and (of_month or of_week)


Schedule = timedelta | Cron | None


def parse(text: str) -> Schedule:
    """None is never by itself. Raises Invalid for what is not a schedule."""
    text = text.strip()
    if text == NEVER:
        return None
    if found := _INTERVAL.fullmatch(text):
        every = timedelta(**{_UNITS[found[2]]: int(found[1])})
        if not timedelta(seconds=10) <= every <= timedelta(days=366):
            raise Invalid("must lie between 10s and 366d", "schedule")
        return every
    return _cron(NAMED.get(text, text))


def next_after(text: str, after: datetime, key: UUID) -> datetime | None:
    """When it is due next, a little later for some than for others, always the same for each."""
    schedule = parse(text)
    if schedule is None:
        return None
    if isinstance(schedule, timedelta):
        return after + schedule + _jitter(schedule, key)
    first = _next(schedule, after)
    if first is None:
        return None
    second = _next(schedule, first) or first + timedelta(days=1)
    return first + _jitter(second - first, key)


def _jitter(every: timedelta, key: UUID) -> timedelta:
    return min(every / 10, LONGEST_JITTER) * (key.int % 1_000 / 1_000)


def _cron(text: str) -> Cron:
    fields = text.split()
    if len(fields) != 5:
        raise Invalid(_HELP, "schedule")
    sets = [_set(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = sets
    weekdays = frozenset(day % 7 for day in weekdays)  # 7 is Sunday too
    cron = Cron(minutes, hours, days, months, weekdays, fields[2] == "*", fields[4] == "*")
    if _next(cron, datetime(2024, 1, 1, tzinfo=UTC)) is None:
        raise Invalid("is a day that never comes", "schedule")
    return cron


def _set(field: str, name: str, low: int, high: int) -> frozenset[int]:
    values: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match[1] == "*" and match[2]):
            raise Invalid(f"{_HELP}; the {name} {part!r} is none of these", "schedule")
        start = low if match[1] == "*" else int(match[1])
        end = int(match[2]) if match[2] else high if match[1] == "*" or match[3] else start
        step = int(match[3] or 1)
        if not (low <= start <= end <= high and step):
            raise Invalid(f"has a {name} outside of {low} to {high}", "schedule")
        values.update(range(start, end + 1, step))
    return frozenset(values)


def _next(cron: Cron, after: datetime) -> datetime | None:
    """The first matching minute behind a moment; None when there is none in eight years."""
    at = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(366 * 8):
        if cron.has(at):
            for hour in sorted(hour for hour in cron.hours if hour >= at.hour):
                first = at.minute if hour == at.hour else 0
                if minutes := [minute for minute in cron.minutes if minute >= first]:
                    return at.replace(hour=hour, minute=min(minutes))
        at = at.replace(hour=0, minute=0) + timedelta(days=1)
    return None
