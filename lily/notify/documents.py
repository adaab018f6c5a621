"""`downstream_notifications` of an ingested document: what it asks to be told, and how it went."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from lily.events.facts import Fact
from lily.notify import words
from lily.notify.match import Subject
from lily.sdk.targets import Notice, Severity

FIELD = "downstream_notifications"
# What was already told elsewhere is not told again.
OVER = frozenset({"sent", "delivered", "success", "succeeded", "failed", "cancelled", "canceled"})
PRIORITY: dict[str, Severity] = {
    "urgent": "critical", "highest": "critical", "critical": "critical", "high": "high",
    "medium": "medium", "normal": "medium", "low": "low", "lowest": "low",
}  # fmt: skip
STATUS = {
    "waiting": "pending", "sending": "pending", "delivered": "delivered", "dead": "failed",
    "cancelled": "cancelled", "withheld": "cancelled",
}  # fmt: skip
UNKNOWN = "No connection has this name, and not exactly one connection uses this plug-in."


class Asked(msgspec.Struct, frozen=True):
    """One notification that a document asks for."""

    notification_id: str
    system_name: str
    type: str
    recipient: str
    payload: dict[str, Any]


class Status(msgspec.Struct, frozen=True):
    """How far a delivery is."""

    state: str
    attempts: int
    last_at: datetime | None
    due_at: datetime
    reason: str


def asked(fact: Fact) -> list[Asked]:
    """The notifications that are still to be told."""
    found = []
    for each in _listed((fact.after or {}).get("details")):
        status = str(each.get("notification_status") or "pending").lower()
        system, id = each.get("system_name"), each.get("notification_id")
        if isinstance(system, str) and isinstance(id, str) and id and status not in OVER:
            payload = each.get("notification_payload")
            found.append(
                Asked(
                    id, system, str(each.get("notification_type") or ""),
                    str(each.get("recipient") or ""), payload if isinstance(payload, dict) else {},
                )
            )  # fmt: skip
    return found


def composed(wanted: Asked, fact: Fact, subject: Subject | None, id: str, base_url: str) -> Notice:
    """In the document's own words; where it has none, in ours."""
    notice = words.composed(fact, subject, id, base_url, None)
    payload = wanted.payload
    message = str(payload.get("message") or payload.get("ticket_description") or "")
    labels = payload.get("ticket_labels")
    fields = dict(notice.fields)
    if wanted.recipient:
        fields["For"] = wanted.recipient
    return msgspec.structs.replace(
        notice,
        key=f"notification:{wanted.notification_id}",
        kind="NotificationTriggered",
        title=str(payload.get("ticket_title") or message or notice.title),
        text=message or notice.text,
        severity=PRIORITY.get(str(payload.get("ticket_priority") or "").lower()),
        labels=[str(each) for each in labels] if isinstance(labels, list) else [],
        fields=fields,
        data={
            "notification_id": wanted.notification_id, "system_name": wanted.system_name,
            "notification_type": wanted.type, "recipient": wanted.recipient, "payload": payload,
        },
    )  # fmt: skip


def ids(details: Mapping[str, Any] | None) -> list[str]:
    """The notifications in an asset's details."""
    found = [each.get("notification_id") for each in _listed(details)]
    return [id for id in found if isinstance(id, str)]


def overlaid(details: Mapping[str, Any], known: Mapping[str, Status]) -> dict[str, Any]:
    """The details with how each notification fared, in the document's own fields."""
    told = [_told(each, known.get(str(each.get("notification_id")))) for each in _listed(details)]
    shown = {**details, FIELD: told}
    states = {each.get("notification_status") for each in told}
    if told and known:
        shown["downstream_status"] = (
            "failed" if "failed" in states else "pending" if "pending" in states else "delivered"
        )
    return shown


def _told(each: Mapping[str, Any], status: Status | None) -> dict[str, Any]:
    if status is None:
        return dict(each)
    waiting = status.state in ("waiting", "sending")
    return {
        **each,
        "notification_status": STATUS[status.state],
        "attempts": status.attempts,
        "last_attempted_at": status.last_at,
        "next_attempt_at": status.due_at if waiting else None,
        "status_message": status.reason,
    }


def _listed(details: object) -> list[dict[str, Any]]:
    given = details.get(FIELD) if isinstance(details, Mapping) else None
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
