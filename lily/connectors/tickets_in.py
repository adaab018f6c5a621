"""Tickets that Lily made elsewhere: what becomes of them there, Jira and Freshdesk."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.sdk import SignalSeen, SignalState, signing
from lily.sdk.webhooks import Arrived

_LABEL = re.compile(r"lily-([0-9a-f]{8}[0-9a-f-]{0,28})", re.IGNORECASE)
_CATEGORY: Mapping[str, Any] = {"new": "open", "indeterminate": "acknowledged", "done": "resolved"}
_STATUS: Mapping[str, Any] = {
    "2": "open", "3": "acknowledged", "4": "resolved", "5": "resolved",
    "open": "open", "pending": "acknowledged", "resolved": "resolved", "closed": "resolved",
}  # fmt: skip


class Jira:
    """Issues that Lily made: a change of status moves the incident."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        secret: SecretStr = Field(min_length=8, description="Of the webhook in Jira.")
        states: dict[str, SignalState] = Field(
            default_factory=dict,
            description="Status in Jira to open, acknowledged, resolved or suppressed; others"
            " follow from the category of the status.",
        )

    def __init__(self, options: Options) -> None:
        self._options = options

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        secret = self._options.secret.get_secret_value()
        method, _, given = headers.get("x-hub-signature", "").partition("=")
        wanted = signing.hexadecimal(secret, body, "sha256")
        signing.same(given if method == "sha256" else None, wanted)
        call = signing.document(body)
        state = self._state(call)
        issue = _mapping(call.get("issue"))
        incident = labelled(_mapping(issue.get("fields")).get("labels"))
        if state is None or incident is None:
            return []
        key = headers.get("x-atlassian-webhook-identifier") or _digest(body)
        name = str(_mapping(call.get("user")).get("displayName") or "")
        comment = f"{issue.get('key', 'The issue')} is {_status(call)} now"
        return [
            SignalSeen(
                key=key, incident=incident, state=state, reopens=True, person=name[:200],
                comment=comment[:1000],
            )
        ]  # fmt: skip

    def _state(self, call: Mapping[str, Any]) -> Any:
        """Where the status went; None when it is another change."""
        to = _status(call)
        if not to:
            return None
        fields = _mapping(_mapping(call.get("issue")).get("fields"))
        category = _mapping(_mapping(fields.get("status")).get("statusCategory")).get("key")
        return self._options.states.get(to) or _CATEGORY.get(str(category))


class Freshdesk:
    """Tickets that Lily made: a change of status moves the incident."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        secret: SecretStr = Field(
            min_length=16,
            description="Sent by the automation rule in the header X-Lily-Secret: Freshdesk signs"
            " nothing.",
        )

    def __init__(self, options: Options) -> None:
        self._options = options

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        """`{"ticket_id", "status", "tags", "updated_at"}`, or Freshdesk's own simple form."""
        signing.same(headers.get("x-lily-secret"), self._options.secret.get_secret_value())
        call = signing.document(body)
        ticket = _mapping(call.get("freshdesk_webhook")) or call
        id = str(_first(ticket, "ticket_id", "id"))
        status = str(_first(ticket, "status", "ticket_status")).strip().lower()
        incident = labelled(_first(ticket, "tags", "ticket_tags"))
        state = _STATUS.get(status)
        if state is None or incident is None:
            return []
        changed = str(_first(ticket, "updated_at", "ticket_updated_at"))
        rule = str(_first(ticket, "rule", "triggered_event"))
        agent = str(_first(ticket, "agent", "ticket_agent_name"))
        return [
            SignalSeen(
                key=":".join([id, changed, rule, status]) if changed else _digest(body),
                incident=incident, state=state, reopens=True, person=agent[:200],
                comment=f"Ticket {id} is {status} now"[:1000],
            )
        ]  # fmt: skip


def labelled(given: object) -> str | None:
    """The incident that a label or tag names, in a list or in one text."""
    labels: Iterable[object] = given if isinstance(given, list) else re.split(r"[,\s]+", str(given))
    for label in labels:
        if found := _LABEL.fullmatch(str(label).strip()):
            return found[1].lower()
    return None


def _status(call: Mapping[str, Any]) -> str:
    changes = _mapping(call.get("changelog")).get("items")
    for item in changes if isinstance(changes, list) else ():
        if isinstance(item, dict) and item.get("field") == "status":
            return str(item.get("toString") or "")
    return ""


def _first(ticket: Mapping[str, Any], *names: str) -> object:
    return next((ticket[name] for name in names if ticket.get(name) is not None), "")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()
