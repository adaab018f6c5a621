"""Target `freshdesk`: a ticket for each thing, notes for what happens to it, and its status."""

import base64
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.connectors.tickets import Tickets, label
from lily.sdk import Notice, Rate, Reject, Sending
from lily.sdk.text import cut, escaped, line

SUBJECT = 255
TEXT = 20_000
TAG = 32
PRIORITY = {"critical": 4, "high": 3, "medium": 2, "low": 1}
OPEN, PENDING, RESOLVED = 2, 3, 4
STATUS = {"acknowledged": PENDING, "resolved": RESOLVED}
PORTAL = 2


class Freshdesk(Tickets):
    """Makes a ticket, adds private notes, and sets its status along with the incident."""

    concurrency: ClassVar[int] = 2
    rate: ClassVar[Rate | None] = Rate(per_second=80 / 60, burst=5)
    threads: ClassVar[bool] = True
    handle: ClassVar[str] = "id"

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        url: str = Field(description="https://example.freshdesk.com")
        api_key: SecretStr = Field(min_length=1)
        requester: str = Field(min_length=3, max_length=200, description="E-mail of who asks.")
        custom_fields: dict[str, Any] = Field(default_factory=dict, max_length=50)

    def __init__(self, options: Options) -> None:
        self._api = options.url.rstrip("/") + "/api/v2"
        pair = f"{options.api_key.get_secret_value()}:X"
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/json",
        }
        self._options = options

    def address(self) -> str:
        return self._options.url

    def find(self, notice: Notice) -> Sending:
        query = quote(f"\"tag:'{tag(notice)}'\"")
        answer = yield self.call("GET", f"/search/tickets?query={query}", None, "GET /search")
        found = (answer.json() or {}).get("results") or []
        return min((each["id"] for each in found), default=None)

    def create(self, notice: Notice) -> Sending:
        body: dict[str, Any] = {
            "email": self._options.requester,
            "subject": line(notice.title, SUBJECT) or "Notice",
            "description": page(notice),
            "status": OPEN,
            "priority": PRIORITY.get(notice.severity or "", 2),
            "source": PORTAL,
            "tags": ["lily", tag(notice)],
        }
        if self._options.custom_fields:
            body["custom_fields"] = self._options.custom_fields
        made = (yield self.call("POST", "/tickets", body)).json()
        if not isinstance(made, dict) or "id" not in made:
            raise Reject("did not say which ticket it made")
        return made["id"]

    def update(self, notice: Notice, name: int) -> Sending:
        """The status first: set again, it changes nothing, while a note would be a second."""
        status = STATUS.get(notice.event)
        if status is not None and not notice.echo:
            yield self.call("PUT", f"/tickets/{name}", {"status": status}, "PUT /tickets/…")
        note = {"body": page(notice, brief=True), "private": True}
        yield self.call("POST", f"/tickets/{name}/notes", note, "POST /tickets/…/notes")
        return None


def tag(notice: Notice) -> str:
    """Tags are short; the beginning of an incident's id names it well enough."""
    return label(notice)[:TAG]


def page(notice: Notice, brief: bool = False) -> str:
    """The notice as HTML."""
    parts = [f"<p><b>{escaped(notice.title)}</b></p>"] if brief or not notice.text else []
    parts += [f"<p>{escaped(part)}</p>" for part in cut(notice.text, TEXT).split("\n") if part]
    if notice.fields and not brief:
        rows = "".join(
            f"<li><b>{escaped(name)}</b>: {escaped(cut(value, 2000))}</li>"
            for name, value in notice.fields.items()
        )
        parts.append(f"<ul>{rows}</ul>")
    if notice.url.startswith(("http://", "https://")):
        parts.append(f'<p><a href="{escaped(notice.url)}">Open</a></p>')
    return "".join(parts)
