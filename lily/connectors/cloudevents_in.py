"""CloudEvents from anywhere, signed as Standard Webhooks: incidents and assets."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.errors import Unreadable
from lily.sdk import AssetGone, AssetSeen, Severity, SignalSeen, SignalState, signing
from lily.sdk.webhooks import Arrived

BATCH = "application/cloudevents-batch+json"
_SIGNAL = (
    "external_id", "incident", "state", "severity", "title", "description", "rule", "url", "owner",
    "comment", "person",
)  # fmt: skip


class CloudEvents:
    """Anything that can sign: `data` is an asset when it has a qualified_name, else an incident."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        secret: SecretStr = Field(
            min_length=16, description="`whsec_` and base64, as Standard Webhooks has it."
        )

    def __init__(self, options: Options) -> None:
        self._options = options

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        id = signing.standard(self._options.secret.get_secret_value(), headers, body)
        return [arrived(event, id) for event in _events(headers, body)]


def arrived(event: Mapping[str, Any], id: str) -> Arrived:
    """What an event means."""
    data = event.get("data")
    if not isinstance(data, dict):
        raise Unreadable("data: must be an object.")
    if "qualified_name" in data:
        return _asset(data)
    source, own = str(event.get("source") or ""), str(event.get("id") or id)
    given = {name: str(data[name])[:4000] for name in _SIGNAL if data.get(name) not in (None, "")}
    for name, allowed in (("state", get_args(SignalState)), ("severity", get_args(Severity))):
        if name in given and given[name] not in allowed:
            raise Unreadable(f"data.{name}: must be one of {', '.join(allowed)}.")
    asset = data.get("asset") or data.get("asset_id") or event.get("subject")
    return msgspec.convert(
        {
            "state": "open",
            "external_id": own,
            "title": str(event.get("type") or "")[:500],
            **given,
            "type": "SignalSeen",
            "key": f"{source}|{own}",
            "reopens": "state" in given,
            "names": [str(asset)] if asset else [],
            "details": {k: v for k, v in event.items() if k in ("type", "source", "data", "time")},
        },
        SignalSeen,
    )


def _asset(data: Mapping[str, Any]) -> AssetSeen | AssetGone:
    gone = data.get("is_deleted") is True
    kind: Any = AssetGone if gone else AssetSeen
    known = {k: v for k, v in data.items() if k in kind.__struct_fields__}
    try:
        found: AssetSeen | AssetGone = msgspec.convert({**known, "type": kind.__name__}, kind)
    except msgspec.ValidationError as cause:
        raise Unreadable(f"data: {cause}.") from None
    return found


def _events(headers: Mapping[str, str], body: bytes) -> Sequence[Mapping[str, Any]]:
    """Structured, binary, batched, or the plain form of Standard Webhooks."""
    if headers.get("content-type", "").partition(";")[0].strip() == BATCH:
        try:
            found = msgspec.json.decode(body, type=list[dict[str, Any]])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Unreadable("The body is not a list of events.") from None
        return found[:1000]
    whole = signing.document(body)
    if "ce-id" in headers:
        names = ("id", "source", "type", "subject", "time")
        return [{**{n: headers[f"ce-{n}"] for n in names if f"ce-{n}" in headers}, "data": whole}]
    return [whole]
