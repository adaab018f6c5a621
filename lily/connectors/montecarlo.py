"""Monte Carlo: incidents and what becomes of them, by signed webhook."""

import hashlib
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.errors import Reject, Unreadable
from lily.sdk import SignalSeen, signing
from lily.sdk.webhooks import Arrived

Feedback = Literal["acknowledged", "open", "resolved"]

FEEDBACK: Mapping[str, Feedback] = {
    "investigating": "acknowledged",
    "work_in_progress": "acknowledged",
    "no_status": "open",
    "fixed": "resolved",
    "expected": "resolved",
    "no_action_needed": "resolved",
    "false_positive": "resolved",
}
SEVERITY: Mapping[str, Any] = {
    "SEV-1": "critical", "SEV-2": "high", "SEV-3": "medium", "SEV-4": "low",
}  # fmt: skip
OPENING = "open_"
MOST_TABLES = 50


class MonteCarlo:
    """Data observability: anomalies and broken rules become incidents on their assets."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        account_id: str = Field(
            "", max_length=200, description="Calls of another account are refused."
        )
        secret: SecretStr = Field(
            min_length=8, description="As typed into Monte Carlo's webhook settings."
        )

    def __init__(self, options: Options) -> None:
        self._options = options

    def account(self) -> str:
        return self._options.account_id

    @staticmethod
    def account_in(body: bytes) -> str:
        try:
            return _account(signing.document(body))
        except Unreadable:
            return ""

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        """What is signed is a rendering of the parsed body, not its bytes."""
        call = _verified(headers, body, self._options.secret.get_secret_value())
        if self._options.account_id and _account(call) != self._options.account_id:
            raise Reject("The call comes from another account.")
        return [signal(call)]


def signal(call: Mapping[str, Any]) -> SignalSeen:
    """What a call means; kinds that nobody knew yet are kept too."""
    payload = _mapping(call.get("payload"))
    events = [event for event in _list(payload.get("event_list")) if isinstance(event, dict)]
    rule = next((r for r in (_mapping(e.get("rule")) for e in [*events, payload]) if r), {})
    kind = _text(call.get("type"))
    feedback = FEEDBACK.get(_text(_either(call, payload, "alert_feedback")))
    tables = _tables(payload, events, rule)
    state = feedback or ("open" if kind.startswith(OPENING) else None)
    return SignalSeen(
        key=_digest(call),
        external_id=_text(_either(payload, call, "incident_id")),
        state=state,
        reopens=feedback is not None,
        severity=SEVERITY.get(_text(_either(call, payload, "declared_alert_severity")).upper()),
        title=_title(events, rule),
        description=_description(events),
        rule=_text(rule.get("uuid")),
        url=_text(_either(payload, call, "url")),
        owner=_text(_either(call, payload, "owner")),
        names=tables[0] if tables else [],
        others=tables[1:],
        details={
            "type": kind,
            **{k: call[k] for k in ("action", "version", "payload") if k in call},
        },
    )


def _verified(headers: Mapping[str, str], body: bytes, secret: str) -> Mapping[str, Any]:
    given = headers.get("x-mcd-signature")
    if not given:
        raise Reject(signing.REFUSAL)
    try:
        call = signing.document(body)
        signed = urllib.parse.urlencode(call).encode("utf8")
    except (Unreadable, UnicodeEncodeError, RecursionError):
        raise Reject(signing.REFUSAL) from None  # nothing that they signed
    signing.same(given, signing.hexadecimal(secret, signed, "sha512"))
    return call


def _title(events: Sequence[Mapping[str, Any]], rule: Mapping[str, Any]) -> str:
    told = next((text for e in events if (text := _text(e.get("event_details")))), "")
    breach = next((text for e in events if (text := _breach(e))), "")
    named = _text(rule.get("description"))
    title = told or ": ".join(filter(None, [named, breach]))
    return title[:500]


def _breach(event: Mapping[str, Any]) -> str:
    """`rows is 50.0, must not be > 49.0`, of a rule that was broken."""
    data = _mapping(event.get("data"))
    hits = [_mapping(hit) for hit in _list(data.get("hits"))]
    value = next((_text(hit.get("value")) for hit in hits), "")
    metric = _text(data.get("metric_display_name"))
    limits = [_mapping(each) for each in _list(data.get("rule_comparisons"))]
    bounds = " and ".join(
        f"{_text(each.get('operator'))} {_text(each.get('threshold'))}" for each in limits
    )
    if not metric and not value:
        return ""
    return f"{metric or 'value'} is {value or 'unknown'}" + (f" ({bounds})" if bounds else "")


def _description(events: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for event in events[:50]:
        told = _text(event.get("event_details")) or _breach(event)
        table = _text(event.get("full_table_id")) or _text(event.get("table_name"))
        if told:
            lines.append(f"{table}: {told}" if table else told)
    return "\n".join(dict.fromkeys(lines)) if len(set(lines)) > 1 else ""


def _tables(
    payload: Mapping[str, Any], events: Sequence[Mapping[str, Any]], rule: Mapping[str, Any]
) -> list[list[str]]:
    """What they call each table: its full id, its name in the group, its name alone."""
    group = _text(payload.get("group_id"))
    compared = [_mapping(c) for c in _list(rule.get("comparisons"))]
    told = [_names(place, group) for place in (*events, payload)]
    found: list[list[str]] = []
    for names in told if any(told) else [_names(each, group) for each in compared]:
        if names and not (same := [each for each in found if _alike(each[0], names[0])]):
            found.append(names)
        elif names:
            same[0][:] = dict.fromkeys([*same[0], *names])
    return found[:MOST_TABLES]


def _alike(one: str, other: str) -> bool:
    """Whether the shorter name may be the end of the longer one."""
    left, right = (f".{name.replace(':', '.').lower()}" for name in (one, other))
    return left.endswith(right) or right.endswith(left)


def _names(place: Mapping[str, Any], group: str) -> list[str]:
    full, table = _text(place.get("full_table_id")), _text(place.get("table_name"))
    grouped = f"{group}.{table}" if group and table else ""
    return [name for name in (full, grouped, table) if name]


def _account(call: Mapping[str, Any]) -> str:
    return _text(_mapping(call.get("account")).get("id"))


def _digest(call: Mapping[str, Any]) -> str:
    text = json.dumps(call, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _either(first: Mapping[str, Any], second: Mapping[str, Any], name: str) -> object:
    """They put it in the one place or in the other."""
    return first.get(name) or second.get(name)


def _text(value: object) -> str:
    """Plain text of what should be one, without what PostgreSQL cannot store."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return ""
    return str(value).replace("\0", "")[:4000].strip()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
