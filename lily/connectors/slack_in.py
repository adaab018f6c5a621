"""Slack, inbound: clicks on the buttons of Lily's messages."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.errors import Unreadable
from lily.sdk import SignalSeen, signing
from lily.sdk.webhooks import Arrived

ACTIONS: Mapping[str, Any] = {
    "lily_ack": "acknowledged",
    "lily_resolve": "resolved",
    "lily_suppress": "suppressed",
}


class Slack:
    """Interactivity: whoever is known may acknowledge, resolve or suppress an incident."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        signing_secret: SecretStr = Field(min_length=8, description="Of the Slack app.")
        users: dict[str, str] = Field(
            default_factory=dict,
            description="Slack user id to the name in Lily; others may not acknowledge.",
        )

    def __init__(self, options: Options) -> None:
        self._options = options

    def receive(self, headers: Mapping[str, str], body: bytes) -> Sequence[Arrived]:
        stamp = signing.in_time(headers, headers.get("x-slack-request-timestamp"))
        secret = self._options.signing_secret.get_secret_value()
        wanted = signing.hexadecimal(secret, f"v0:{stamp}:".encode() + body, "sha256")
        signing.same(headers.get("x-slack-signature"), f"v0={wanted}")
        return self._clicks(_payload(body))

    def _clicks(self, call: Mapping[str, Any]) -> list[Arrived]:
        if call.get("type") != "block_actions":
            return []
        user = str((call.get("user") or {}).get("id") or "")
        person = self._options.users.get(user)
        if person is None:
            return []
        message = str((call.get("message") or {}).get("ts") or "")
        return [
            click
            for action in call.get("actions") or []
            if isinstance(action, dict) and (click := _click(action, message, user, person))
        ]


def _click(action: Mapping[str, Any], message: str, user: str, person: str) -> SignalSeen | None:
    state = ACTIONS.get(str(action.get("action_id")))
    incident = str(action.get("value") or "").removeprefix("incident:")
    if state is None or not incident:
        return None
    return SignalSeen(
        key=f"{message}:{action.get('action_id')}:{action.get('action_ts')}:{user}",
        incident=incident[:100],
        state=state,
        person=person,
    )


def _payload(body: bytes) -> dict[str, Any]:
    try:
        form = parse_qs(body.decode(), max_num_fields=20)
    except ValueError:
        raise Unreadable("The body is not a form.") from None
    return signing.document((form.get("payload") or ["{}"])[0].encode())
