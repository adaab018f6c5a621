"""When a policy applies. A condition that nobody knows, or cannot read, denies."""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from ipaddress import ip_address, ip_network
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lily.access.model import Situation

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

# true: it holds; false: it does not; none: the situation does not tell.
Verdict = bool | None
Check = Callable[[Any, Situation], Verdict]


class UnknownCondition(ValueError):
    """A condition whose name or value has no meaning."""


def readable(conditions: Mapping[str, Any]) -> None:
    """Raise UnknownCondition where a known condition has a value without meaning.

    A condition that nobody knows is let pass: it denies, whoever asks.
    """
    somewhen = Situation(datetime(2026, 1, 1, tzinfo=UTC))
    holds({name: value for name, value in conditions.items() if name in KNOWN}, somewhen)


def holds(conditions: Mapping[str, Any], situation: Situation) -> Verdict:
    """All of them; none if one cannot be told. Raises UnknownCondition."""
    verdict: Verdict = True
    for name, wanted in conditions.items():
        check = KNOWN.get(name)
        if check is None:
            raise UnknownCondition(f"nobody knows the condition {name!r}; known: {_names()}")
        try:
            one = check(wanted, situation)
        except UnknownCondition:
            raise
        except (AttributeError, KeyError, TypeError, ValueError, ZoneInfoNotFoundError) as cause:
            raise UnknownCondition(f"condition {name!r} cannot be read: {cause}") from cause
        if one is False:
            verdict = False
        elif one is None and verdict is True:
            verdict = None
    return verdict


def _names() -> str:
    return ", ".join(sorted(KNOWN))


def _time_of_day(wanted: Mapping[str, str], situation: Situation) -> Verdict:
    _only(wanted, "from", "to", "timezone")
    now = situation.at.astimezone(ZoneInfo(wanted.get("timezone", "UTC"))).time()
    start, end = time.fromisoformat(wanted["from"]), time.fromisoformat(wanted["to"])
    return start <= now < end if start <= end else now >= start or now < end


def _date_range(wanted: Mapping[str, str], situation: Situation) -> Verdict:
    """From the first day on, up to and with the last; either may be missing."""
    _only(wanted, "from", "to", "timezone")
    if "from" not in wanted and "to" not in wanted:
        raise UnknownCondition("condition 'date_range' needs from or to")
    today = situation.at.astimezone(ZoneInfo(wanted.get("timezone", "UTC"))).date()
    first = date.fromisoformat(wanted["from"]) if "from" in wanted else date.min
    last = date.fromisoformat(wanted["to"]) if "to" in wanted else date.max
    return first <= today <= last


def _days_of_week(wanted: list[str], situation: Situation) -> Verdict:
    days = {DAYS.index(str(day).lower()[:3]) for day in _list(wanted)}
    return situation.at.weekday() in days


def _purpose(wanted: list[str] | str, situation: Situation) -> Verdict:
    purposes = _list(wanted)
    return None if situation.purpose is None else situation.purpose in purposes


def _network(wanted: list[str] | str, situation: Situation) -> Verdict:
    networks = [ip_network(each) for each in _list(wanted)]
    if situation.network is None:
        return None
    return any(situation.network in network for network in networks)


def _list(wanted: Any) -> list[str]:
    if isinstance(wanted, str):
        return [wanted]
    if not isinstance(wanted, list | tuple) or not wanted:
        raise UnknownCondition("a condition needs a list of values")
    return [str(each) for each in wanted]


def _only(wanted: Mapping[str, str], *names: str) -> None:
    if strange := set(wanted) - set(names):
        raise UnknownCondition(f"unknown part {sorted(strange)[0]!r}; known: {', '.join(names)}")


KNOWN: Mapping[str, Check] = {
    "time_of_day": _time_of_day,
    "date_range": _date_range,
    "days_of_week": _days_of_week,
    "purpose": _purpose,
    "network": _network,
}


def situation(at: datetime, context: Mapping[str, Any]) -> Situation:
    """From the context of a request; raises ValueError for an address that is none."""
    network = context.get("network")
    purpose = context.get("purpose")
    return Situation(
        at=at,
        purpose=str(purpose) if purpose is not None else None,
        network=ip_address(network) if network is not None else None,
    )
