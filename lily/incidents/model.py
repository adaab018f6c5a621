"""An incident: something is wrong with an asset, somebody said so, and it takes its course."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

import msgspec

from lily.events.facts import FactKind
from lily.events.signals import Severity, SignalState

Shown = Literal["open", "acknowledged", "resolved", "suppressed", "unattached"]
STATES: tuple[str, ...] = get_args(SignalState)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # worst first
LIVE = ("open", "acknowledged")  # what an asset suffers from

# Where each state may lead. Acknowledging what is over does not bring it back.
COURSE: Mapping[str, tuple[str, ...]] = {
    "open": ("acknowledged", "resolved", "suppressed"),
    "acknowledged": ("open", "resolved", "suppressed"),
    "suppressed": ("open", "resolved"),
    "resolved": ("open",),
}
KINDS: Mapping[str, FactKind] = {
    "open": "IncidentOpened",
    "acknowledged": "IncidentAcknowledged",
    "resolved": "IncidentResolved",
    "suppressed": "IncidentSuppressed",
}


class Incident(msgspec.Struct, kw_only=True):
    """The columns of table incident, in their order."""

    id: UUID
    number: int
    guid: UUID | None
    source: str
    external_id: str
    rule: str
    title: str
    description: str
    severity: Severity
    state: SignalState
    url: str
    owner: str
    names: list[str]
    candidates: list[UUID]
    details: dict[str, Any]
    version: int
    opened_at: datetime
    updated_at: datetime

    @property
    def shown_state(self) -> Shown:
        """An open one that nobody could place is called unattached."""
        return "unattached" if self.guid is None and self.state == "open" else self.state


COLUMNS = Incident.__struct_fields__


def brief(incident: Incident) -> dict[str, Any]:
    """What an asset shows of it."""
    return {
        "incident_id": incident.id,
        "title": incident.title,
        "severity": incident.severity,
        "state": incident.shown_state,
        "source": incident.source,
        "rule": incident.rule,
        "external_id": incident.external_id,
        "url": incident.url,
        "owner": incident.owner,
        "opened_at": incident.opened_at,
    }


def public(incident: Incident, asset_id: str | None = None) -> dict[str, Any]:
    """The canonical JSON of an incident."""
    return {
        **brief(incident),
        "guid": incident.guid,
        "asset_id": asset_id,
        "description": incident.description,
        "names": incident.names,
        "candidates": incident.candidates,
        "details": incident.details,
        "version": incident.version,
        "updated_at": incident.updated_at,
    }


def health(severities: Iterable[str]) -> str:
    """In one word: how an asset is that has open incidents of these severities."""
    return "failing" if {"critical", "high"} & set(severities) else "degraded"


def suffering(incidents: Sequence[Incident]) -> dict[str, Any]:
    """What an asset shows of its open incidents; nothing where there are none."""
    if not incidents:
        return {}
    return {
        "incidents": [brief(each) for each in incidents],
        "health": health(each.severity for each in incidents),
    }


def told(incident: Incident, via: str, comment: str = "") -> dict[str, Any]:
    """What a fact says of it; `via` is where this change came from, and should not hear it back."""
    return {
        "incident_id": str(incident.id),
        "title": incident.title,
        "severity": incident.severity,
        "state": incident.shown_state,
        "url": incident.url,
        "rule": incident.rule,
        "external_id": incident.external_id,
        "source": incident.source,
        "via": via,
        "owner": incident.owner,
        "comment": comment,
    }
