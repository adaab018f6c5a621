"""A notice as a CloudEvent, for machines."""

from typing import Any

import msgspec

from lily.sdk import Notice

TYPES = {
    "AssetCreated": "asset.created", "AssetChanged": "asset.updated",
    "AssetDeleted": "asset.deleted", "AssetRestored": "asset.restored",
    "AssetArchived": "asset.archived", "AssetPurged": "asset.purged",
    "TagsChanged": "tag.changed", "TagsSuggested": "tag.suggested",
    "IncidentOpened": "incident.opened", "IncidentAcknowledged": "incident.acknowledged",
    "IncidentChanged": "incident.changed", "IncidentResolved": "incident.resolved",
    "IncidentSuppressed": "incident.suppressed", "IncidentAttached": "incident.attached",
    "NotificationTriggered": "notification", "Test": "test",
}  # fmt: skip
CONTENT = "application/cloudevents+json"


def encoded(notice: Notice, source: str, most: int) -> bytes:
    """In structured mode; without its details where it would be larger than that."""
    body = msgspec.json.encode(_event(notice, source, whole=True))
    if len(body) <= most:
        return body
    return msgspec.json.encode(_event(notice, source, whole=False))


def _event(notice: Notice, source: str, whole: bool) -> dict[str, Any]:
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": notice.id,
        "source": source,
        "type": f"io.lily.{TYPES.get(notice.kind) or notice.kind.lower()}",
        "time": notice.at,
        "datacontenttype": "application/json",
        "data": _data(notice, whole),
    }
    if notice.asset is not None:
        event["subject"] = notice.asset.qualified_name
    if notice.traceparent:
        event["traceparent"] = notice.traceparent
    return event


def _data(notice: Notice, whole: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "title": notice.title[:1000],
        "text": notice.text[: 8000 if whole else 1000],
        "severity": notice.severity,
        "by": notice.by,
        "url": notice.url,
        "asset": notice.asset,
        "incident": notice.incident or None,
    }
    return {**data, **notice.data} if whole else {**data, "truncated": True}
