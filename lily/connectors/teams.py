"""Target `teams`: an Adaptive Card through a Workflows webhook."""

from typing import Any, ClassVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lily.sdk import Call, Notice, Rate, Sending
from lily.sdk.text import cut, cut_bytes, line

MOST = 20_000  # bytes; 28 KB is the documented end, failures are known from 21 KB on
SCHEMA = "http://adaptivecards.io/schemas/adaptive-card.json"
COLOUR = {"critical": "Attention", "high": "Attention", "medium": "Warning", "low": "Accent"}


class Teams:
    """Posts a card; acknowledging goes through a signed link, for a card cannot call back."""

    concurrency: ClassVar[int] = 2
    rate: ClassVar[Rate | None] = Rate(per_second=2, burst=4)
    threads: ClassVar[bool] = False

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        webhook_url: SecretStr = Field(description="Of the workflow; it is the password too.")

    def __init__(self, options: Options) -> None:
        self._url = options.webhook_url.get_secret_value()

    def address(self) -> str:
        return self._url

    def send(self, notice: Notice) -> Sending:
        if notice.echo:
            return None  # a card cannot be changed, and who acknowledged knows
        headers = {"Content-Type": "application/json"}
        yield Call("POST", self._url, headers, body(notice))
        return None


def body(notice: Notice) -> bytes:
    """The envelope, small enough; the text is what gives way."""
    text = cut(notice.text, 8_000)
    while True:
        made = msgspec.json.encode(_envelope(notice, text))
        if len(made) <= MOST or not text:
            return made
        text = cut_bytes(text, len(text.encode()) // 2) if len(text) > 100 else ""


def _envelope(notice: Notice, text: str) -> dict[str, Any]:
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card(notice, text),
    }
    return {"type": "message", "attachments": [attachment]}


def card(notice: Notice, text: str) -> dict[str, Any]:
    title: dict[str, Any] = {
        "type": "TextBlock", "size": "Medium", "weight": "Bolder", "wrap": True,
        "text": _plain(line(notice.title, 300)) or "Notice",
    }  # fmt: skip
    if notice.event == "resolved":
        title["color"] = "Good"
    elif notice.severity is not None:
        title["color"] = COLOUR[notice.severity]
    blocks = [title]
    if text.strip():
        blocks.append({"type": "TextBlock", "wrap": True, "text": _plain(text)})
    facts = [
        {"title": name, "value": _plain(line(value, 300))}
        for name, value in list(notice.fields.items())[:12]
        if value.strip()
    ]
    if facts:
        blocks.append({"type": "FactSet", "facts": facts})
    made: dict[str, Any] = {
        "$schema": SCHEMA, "type": "AdaptiveCard", "version": "1.4", "body": blocks,
    }  # fmt: skip
    if actions := _actions(notice):
        made["actions"] = actions
    return made


def _actions(notice: Notice) -> list[dict[str, Any]]:
    links = [("Acknowledge", notice.acknowledge_url), ("Open", notice.url)]
    return [
        {"type": "Action.OpenUrl", "title": title, "url": url}
        for title, url in links
        if url.startswith(("http://", "https://")) and len(url) <= 2000
    ]


def _plain(text: str) -> str:
    """A card reads a little Markdown: a name with brackets must not become a link."""
    return text.replace("[", "\\[").replace("](", "]\\(")
