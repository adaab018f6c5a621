"""A fact in words that people like to read, and templates of their own."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from lily.errors import Invalid
from lily.events.facts import Fact
from lily.notify.match import Subject, severity_of
from lily.sdk.targets import About, Event, Notice

EVENTS: dict[str, Event] = {
    "IncidentOpened": "opened",
    "IncidentAcknowledged": "acknowledged",
    "IncidentResolved": "resolved",
    "IncidentSuppressed": "resolved",
    "IncidentChanged": "changed",
    "IncidentAttached": "changed",
}
TITLES = {
    "AssetCreated": "{asset} is new",
    "AssetChanged": "{asset} has changed",
    "AssetDeleted": "{asset} was deleted",
    "AssetRestored": "{asset} is back",
    "AssetArchived": "{asset} was archived",
    "AssetPurged": "{asset} was purged",
    "FieldsCreated": "{asset} has new fields",
    "TagsSuggested": "Tags are suggested for {asset}",
    "IncidentOpened": "{incident}",
    "IncidentAcknowledged": "Acknowledged: {incident}",
    "IncidentResolved": "Resolved: {incident}",
    "IncidentSuppressed": "Suppressed: {incident}",
    "IncidentChanged": "Changed: {incident}",
    "IncidentAttached": "{incident} is about {asset}",
    "EdgeCreated": "{asset} has a new source",
    "EdgeDeleted": "{asset} lost a source",
    "CrawlFinished": "A crawl has finished",
    "DeliveryFailed": "A notice could not be delivered",
    "TargetDisabled": "A channel was switched off",
}
NAMES = (
    "title", "text", "asset", "asset_name", "asset_id", "qualified_name", "asset_type", "owner",
    "tags", "severity", "state", "kind", "by", "at", "url", "comment", "incident", "source",
)  # fmt: skip
_PLACE = re.compile(r"\{(\w+)\}")
SHOWN_CHANGES = 8


def composed(
    fact: Fact, subject: Subject | None, id: str, base_url: str, template: Mapping[str, str] | None
) -> Notice:
    """A notice with everything that a channel may want to show of it."""
    after = fact.after or {}
    asset = _about(fact, subject)
    incident = str(after.get("incident_id") or "")
    title, text = _title(fact, asset), _text(fact, after)
    page = f"{base_url}/api/v1/metadata/{quote(asset.guid)}" if asset is not None else ""
    notice = Notice(
        id=id,
        key=key_of(fact),
        kind=fact.kind,
        event=EVENTS.get(fact.kind, "told"),
        at=fact.at,
        by=fact.by,
        title=title,
        text=text,
        severity=severity_of(fact),  # type: ignore[arg-type]
        fields=_fields(fact, after, asset),
        labels=sorted({*asset.tags} if asset is not None else set()),
        url=str(after.get("url") or "") or page,
        incident=incident,
        asset=asset,
        data=_data(fact),
        traceparent=fact.traceparent,
    )
    return dressed(notice, template)


def key_of(fact: Fact) -> str:
    """What a fact is about: all of one incident, else all of one asset, else itself."""
    if fact.kind.startswith("Incident") and (incident := (fact.after or {}).get("incident_id")):
        return f"incident:{incident}"
    return f"asset:{fact.guid}" if fact.guid is not None else f"fact:{fact.kind}:{fact.cause}"


def checked(template: object) -> dict[str, str] | None:
    """A template as it is stored; refuses places that nothing fills."""
    if template is None:
        return None
    given = {"text": template} if isinstance(template, str) else template
    if not isinstance(given, dict) or set(given) - {"title", "text"}:
        raise Invalid("is a text, or an object with title and text", "template")
    for part, value in given.items():
        if not isinstance(value, str) or not value.strip() or len(value) > 4000 or "\0" in value:
            raise Invalid("must be a text of at most 4000 characters", f"template.{part}")
        for place in _PLACE.findall(value):
            if place not in NAMES:
                known = ", ".join(NAMES)
                raise Invalid(f"{{{place}}} is not known; there are {known}", f"template.{part}")
    return given


def dressed(notice: Notice, template: Mapping[str, str] | None) -> Notice:
    """The notice in the words of a template."""
    if not template:
        return notice
    values = _values(notice)
    filled = {
        part: _PLACE.sub(lambda found: values.get(found[1], ""), text)
        for part, text in template.items()
    }
    return msgspec.structs.replace(notice, **filled)


def _values(notice: Notice) -> dict[str, str]:
    asset, after = notice.asset, notice.data.get("after") or {}
    said = {
        "title": notice.title, "text": notice.text, "kind": notice.kind, "by": notice.by,
        "at": notice.at.isoformat(timespec="seconds"), "url": notice.url,
        "severity": notice.severity or "", "state": str(after.get("state") or ""),
        "comment": str(after.get("comment") or ""), "incident": str(after.get("title") or ""),
        "source": str(after.get("source") or ""), "asset": "",
    }  # fmt: skip
    if asset is not None:
        said |= {
            "asset": asset.name or asset.qualified_name, "asset_name": asset.name,
            "asset_id": asset.asset_id, "qualified_name": asset.qualified_name,
            "asset_type": asset.type, "owner": asset.owner, "tags": ", ".join(asset.tags),
        }  # fmt: skip
    return said


def _about(fact: Fact, subject: Subject | None) -> About | None:
    if subject is not None:
        return About(
            guid=str(subject.guid), asset_id=subject.asset_id, owner=subject.owner,
            qualified_name=subject.qualified_name, name=subject.name, type=subject.type,
            tags=subject.tags,
        )  # fmt: skip
    if fact.guid is None:
        return None
    return About(
        guid=str(fact.guid), asset_id=fact.asset_id or str(fact.guid),
        qualified_name=fact.qualified_name, name=fact.qualified_name, type=fact.asset_type,
    )  # fmt: skip


def _title(fact: Fact, asset: About | None) -> str:
    after = fact.after or {}
    name = (asset.name or asset.qualified_name) if asset is not None else "Something"
    if fact.kind == "TagsChanged":
        return _tags_title(fact, name)
    if fact.kind == "NotificationTriggered":
        return str(after.get("title") or after.get("message") or "Notification")
    pattern = TITLES.get(fact.kind) or re.sub(r"(?<!^)(?=[A-Z])", " ", fact.kind).capitalize()
    return pattern.replace("{asset}", name).replace("{incident}", str(after.get("title") or name))


def _tags_title(fact: Fact, name: str) -> str:
    had = set((fact.before or {}).get("tags") or [])
    has = set((fact.after or {}).get("tags") or [])
    if added := sorted(has - had):
        return f"{', '.join(added)} tag added: {name}"
    if lost := sorted(had - has):
        return f"{', '.join(lost)} tag removed: {name}"
    return f"Tags of {name} have changed"


def _text(fact: Fact, after: Mapping[str, Any]) -> str:
    if fact.kind == "NotificationTriggered":
        return str(after.get("message") or "")
    for name in ("comment", "description", "reason"):
        if isinstance(after.get(name), str) and after[name]:
            return str(after[name])
    if fact.kind == "AssetChanged":
        before = fact.before or {}
        changed = [f"{name}: {_short(before.get(name))} → {_short(value)}"
                   for name, value in list(after.items())[:SHOWN_CHANGES]]  # fmt: skip
        return "\n".join(changed)
    return ""


def _short(value: object) -> str:
    text = str(value) if value not in (None, "", [], {}) else "nothing"
    return text if len(text) <= 200 else text[:199] + "…"


def _fields(fact: Fact, after: Mapping[str, Any], asset: About | None) -> dict[str, str]:
    found: dict[str, str] = {}
    if asset is not None:
        found |= {"Asset": asset.qualified_name, "Type": asset.type, "Owner": asset.owner}
        found["Tags"] = ", ".join(asset.tags)
    found["Severity"] = severity_of(fact) or ""
    found["State"] = str(after.get("state") or "") if fact.kind.startswith("Incident") else ""
    found["Rule"] = str(after.get("rule") or "") if fact.kind.startswith("Incident") else ""
    found["By"] = fact.by
    return {name: value for name, value in found.items() if value}


def _data(fact: Fact) -> dict[str, Any]:
    """For machines: the fact as the feed tells it."""
    found: dict[str, Any] = {"fact": fact.kind, "cause": fact.cause, "version": fact.version}
    for side in ("before", "after"):
        if (value := getattr(fact, side)) is not None:
            found[side] = value
    return found
