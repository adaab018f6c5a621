"""Okta, inbound: event hooks. Whoever is deactivated or suspended there is out here too."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.sdk import signing
from lily.sdk.webhooks import Arrived, PersonLeft

LEAVING = (
    "user.lifecycle.deactivate",
    "user.lifecycle.suspend",
    "user.lifecycle.delete.initiated",
    "application.user_membership.remove",
)


class Okta:
    """People who were deactivated or suspended lose their sessions and tokens at once."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        secret: SecretStr = Field(
            min_length=16, description="What Okta sends as Authorization, exactly."
        )

    def __init__(self, options: Options) -> None:
        self._options = options

    def greet(self, headers: Mapping[str, str]) -> bytes:
        self._check(headers)
        challenge = headers.get("x-okta-verification-challenge", "")
        return msgspec.json.encode({"verification": challenge[:1000]})

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        self._check(headers)
        data = signing.document(body).get("data")
        events = data.get("events") if isinstance(data, dict) else None
        if not isinstance(events, list):
            return []
        return [left for event in events if isinstance(event, dict) and (left := _left(event))]

    def _check(self, headers: Mapping[str, str]) -> None:
        signing.same(headers.get("authorization"), self._options.secret.get_secret_value())


def _left(event: Mapping[str, Any]) -> PersonLeft | None:
    kind = event.get("eventType")
    outcome = event.get("outcome")
    failed = isinstance(outcome, dict) and outcome.get("result") not in (None, "SUCCESS")
    if kind not in LEAVING or failed:
        return None
    targets = [t for t in event.get("target") or [] if isinstance(t, dict)]
    people = [t for t in targets if str(t.get("type", "")).lower() in ("user", "appuser")]
    logins = [str(t[name]) for t in people for name in ("alternateId", "id") if t.get(name)]
    return PersonLeft(tuple(dict.fromkeys(logins)), f"okta: {kind}") if logins else None
