"""Target `jira`: one issue for each thing, comments for what happens to it, and its transitions."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from lily.connectors.tickets import Tickets, label
from lily.sdk import Grant, Notice, Rate, Refused, Reject, Sending
from lily.sdk.text import cut, line

SUMMARY = 255
TEXT = 20_000
CATEGORY = {"acknowledged": "indeterminate", "resolved": "done"}


class OAuth(BaseModel):
    """An app of Atlassian's developer console, or a service account of the organisation."""

    model_config = ConfigDict(extra="forbid")

    cloud_id: str = Field(pattern=r"^[A-Za-z0-9-]{1,64}$", description="Of the site.")
    client_id: str = Field(min_length=1, max_length=500)
    client_secret: SecretStr = Field(min_length=1)
    refresh_token: SecretStr | None = Field(
        None,
        min_length=1,
        description="Of somebody who allowed the app (scopes read:jira-work, write:jira-work,"
        " offline_access); without one the service account's own credentials are used.",
    )
    api_url: str = "https://api.atlassian.com"
    token_url: str = "https://auth.atlassian.com/oauth/token"


class Jira(Tickets):
    """Makes an issue, comments on it, and moves it along with the incident."""

    concurrency: ClassVar[int] = 4
    rate: ClassVar[Rate | None] = Rate(per_second=5, burst=10)
    threads: ClassVar[bool] = True
    handle: ClassVar[str] = "key"

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        url: str | None = Field(None, description="Of the site: https://example.atlassian.net")
        email: str | None = Field(None, min_length=3, max_length=200)
        token: SecretStr | None = Field(
            None, min_length=1, description="An API token of that person."
        )
        oauth: OAuth | None = Field(None, description="Instead of url, email and token.")
        project: str = Field(pattern=r"^[A-Z][A-Z0-9_]{0,20}$", description="The project's key.")
        issue_type: str = Field("Task", min_length=1, max_length=60)
        labels: list[str] = Field(default_factory=list, max_length=10)
        priorities: dict[str, str] = Field(
            default={"critical": "Highest", "high": "High", "medium": "Medium", "low": "Low"},
            description="Severity to the name of a priority; empty sets none.",
        )

        @model_validator(mode="after")
        def _one_way_in(self) -> Self:
            given = [part is not None for part in (self.url, self.email, self.token)]
            if all(given) == (self.oauth is not None) or any(given) != all(given):
                raise ValueError("give url, email and token, or oauth")
            return self

    def __init__(self, options: Options) -> None:
        self._options = options
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        self._bearer = options.oauth is not None
        if options.token is not None:
            pair = f"{options.email}:{options.token.get_secret_value()}"
            encoded = base64.b64encode(pair.encode()).decode()
            self._headers["Authorization"] = f"Basic {encoded}"
        self._api = f"{self.address()}/rest/api/3"

    def address(self) -> str:
        oauth = self._options.oauth
        if oauth is not None:
            return f"{oauth.api_url.rstrip('/')}/ex/jira/{oauth.cloud_id}"
        return (self._options.url or "").rstrip("/")

    def grant(self) -> Grant | None:
        oauth = self._options.oauth
        if oauth is None:
            return None
        first = oauth.refresh_token
        return Grant(
            token_url=oauth.token_url,
            client_id=oauth.client_id,
            client_secret=oauth.client_secret.get_secret_value(),
            refresh_token=first.get_secret_value() if first is not None else "",
        )

    def find(self, notice: Notice) -> Sending:
        """The issue that carries our label; two of them are ours, and the older is the one."""
        jql = f'project = {self._options.project} AND labels = "{label(notice)}" ORDER BY created'
        body = {"jql": jql, "fields": ["key", "status"], "maxResults": 2}
        found = (yield self.call("POST", "/search/jql", body)).json() or {}
        issues = found.get("issues") or []
        return issues[0]["key"] if issues else None

    def create(self, notice: Notice) -> Sending:
        fields: dict[str, Any] = {
            "project": {"key": self._options.project},
            "issuetype": {"name": self._options.issue_type},
            "summary": line(notice.title, SUMMARY) or "Notice",
            "labels": ["lily", label(notice), *map(_word, [*self._options.labels, *notice.labels])],
            "description": document(notice),
        }
        fields["labels"] = list(dict.fromkeys(filter(None, fields["labels"])))
        priority = self._options.priorities.get(notice.severity or "")
        if priority:
            fields["priority"] = {"name": priority}
        try:
            answer = yield self.call("POST", "/issue", {"fields": fields})
        except Refused as refusal:
            wrong = (refusal.answer.json() or {}).get("errors") or {}
            if refusal.answer.status != 400 or "priority" not in wrong or not priority:
                raise
            del fields["priority"]  # not on the project's screen
            answer = yield self.call("POST", "/issue", {"fields": fields})
        made = answer.json()
        if not isinstance(made, dict) or "key" not in made:
            raise Reject("did not say which issue it made")
        return made["key"]

    def update(self, notice: Notice, name: str) -> Sending:
        """Move it first: done again, that changes nothing, while a comment would be a second."""
        wanted = CATEGORY.get(notice.event)
        if wanted is not None and not notice.echo:
            yield from self._move(name, wanted)
        body = {"body": document(notice, brief=True)}
        yield self.call("POST", f"/issue/{name}/comment", body, "POST /issue/…/comment")
        return None

    def _move(self, key: str, category: str) -> Sending:
        path, shown = f"/issue/{key}/transitions", "/issue/…/transitions"
        found = (yield self.call("GET", path, None, f"GET {shown}")).json() or {}
        for each in found.get("transitions") or []:
            to = (each.get("to") or {}).get("statusCategory") or {}
            if to.get("key") == category:
                body = {"transition": {"id": each["id"]}}
                yield self.call("POST", path, body, f"POST {shown}")
                return None
        return None


def document(notice: Notice, brief: bool = False) -> dict[str, Any]:
    """The notice in Atlassian's document format; empty text nodes are refused there."""
    content: list[dict[str, Any]] = []
    if brief:
        content.append(_paragraph([_text(notice.title, strong=True)]))
    left = TEXT
    for part in notice.text.split("\n"):
        if part.strip() and left > 0:
            content.append(_paragraph([_text(cut(part, left))]))
            left -= len(part)
    if not brief and notice.fields:
        content.append(_bullets(notice.fields))
    if notice.url.startswith(("http://", "https://")):
        content.append(_paragraph([_link("Open", notice.url)]))
    if not content:
        content.append(_paragraph([_text(notice.title or "Notice")]))
    return {"type": "doc", "version": 1, "content": content}


def _bullets(fields: Mapping[str, str]) -> dict[str, Any]:
    items = [
        {
            "type": "listItem",
            "content": [_paragraph([_text(f"{name}: ", strong=True), _text(cut(value, 2000))])],
        }
        for name, value in fields.items()
        if name.strip() and value.strip()
    ]
    return {"type": "bulletList", "content": items}


def _paragraph(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "paragraph", "content": list(nodes)}


def _text(text: str, strong: bool = False) -> dict[str, Any]:
    node: dict[str, Any] = {"type": "text", "text": text or " "}
    return {**node, "marks": [{"type": "strong"}]} if strong else node


def _link(text: str, url: str) -> dict[str, Any]:
    return {**_text(text), "marks": [{"type": "link", "attrs": {"href": url}}]}


def _word(text: str) -> str:
    """Labels carry no spaces."""
    return "-".join(text.split())[:255]
