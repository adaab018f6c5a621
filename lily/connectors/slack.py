"""Target `slack`: messages with Block Kit, by an incoming webhook or as a bot."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from lily.sdk import Answer, Call, Gone, Notice, Rate, Refused, Reject, Retry, Sending
from lily.sdk.text import cut, line

HEADER, SECTION, FIELD, FIELDS, BUTTON = 150, 3000, 2000, 10, 75
WHOLE = 9_000  # characters in all blocks; reports say that Slack refuses about 12,000
TEXT = 3_900

MARKS = {"critical": "🔴", "high": "🟠", "medium": "🟡", "low": "🔵"}
DONE = {"acknowledged": "👀", "resolved": "✅"}

BUSY = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
ENDED = frozenset(
    {"channel_is_archived", "is_archived", "no_service", "no_team", "team_disabled",
     "account_inactive"}
)  # fmt: skip
LOST = frozenset({"message_not_found", "thread_not_found", "cant_update_message"})


class Slack:
    """Posts to a channel; as a bot it keeps what happens to an incident in one thread."""

    concurrency: ClassVar[int] = 2
    rate: ClassVar[Rate | None] = Rate(per_second=1, burst=3)
    threads: ClassVar[bool] = True

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        webhook_url: SecretStr | None = Field(None, description="Of an incoming webhook.")
        token: SecretStr | None = Field(None, description="Of a bot with chat:write, xoxb-…")
        channel: str | None = Field(None, max_length=100, description="Id or name, for the bot.")
        api_url: str = Field("https://slack.com/api", description="Of the Web API.")

        @model_validator(mode="after")
        def _one_way(self) -> Self:
            if (self.webhook_url is None) == (self.token is None):
                raise ValueError("give either webhook_url, or token and channel")
            if self.token is not None and not self.channel:
                raise ValueError("a bot needs a channel")
            return self

    def __init__(self, options: Options) -> None:
        self._webhook = options.webhook_url.get_secret_value() if options.webhook_url else ""
        self._token = options.token.get_secret_value() if options.token else ""
        self._channel = options.channel or ""
        self._api = options.api_url.rstrip("/")

    def address(self) -> str:
        return self._webhook or self._api

    def send(self, notice: Notice) -> Sending:
        if self._webhook:
            return (yield from self._post(notice))
        if notice.handle and notice.incident:
            try:
                return (yield from self._follow(notice, notice.handle))
            except Reject as refusal:
                if str(refusal) not in LOST:
                    raise
        if notice.echo:
            return None
        body = {"channel": self._channel, **message(notice)}
        answer = yield from self._call("chat.postMessage", body)
        if not notice.incident:
            return None
        return {"channel": answer.get("channel") or self._channel, "ts": answer.get("ts")}

    def _post(self, notice: Notice) -> Sending:
        if notice.echo:
            return None  # it cannot be updated, and who clicked knows
        try:
            yield _call(self._webhook, message(notice), {})
        except Refused as refusal:
            said = refusal.answer.text().strip()
            if said in ENDED:
                raise Gone(said) from None
            raise
        return None

    def _follow(self, notice: Notice, handle: Mapping[str, Any]) -> Sending:
        """The first message shows how it stands; what happened is told below it."""
        place = {"channel": handle["channel"]}
        if notice.event in ("acknowledged", "resolved", "changed"):
            yield from self._call("chat.update", {**place, "ts": handle["ts"], **message(notice)})
        if not notice.echo:
            reply = {"text": cut(_summary(notice), TEXT), "thread_ts": handle["ts"]}
            yield from self._call("chat.postMessage", {**place, **reply})
        return handle

    def _call(self, method: str, body: Mapping[str, Any]) -> Sending:
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = yield _call(f"{self._api}/{method}", body, headers, f"POST {method}")
        return _judged(answer)


def message(notice: Notice) -> dict[str, Any]:
    """Text for notifications, and blocks for everybody who looks."""
    return {"text": cut(_summary(notice), TEXT), "blocks": _blocks(notice)}


def _summary(notice: Notice) -> str:
    said = f"{_mark(notice)}{notice.title or 'Notice'}"
    return _escaped(f"{said}\n{notice.text}" if notice.text else said)


def _blocks(notice: Notice) -> list[dict[str, Any]]:
    title = line(f"{_mark(notice)}{notice.title}", HEADER) or "Notice"
    blocks: list[dict[str, Any]] = [{"type": "header", "text": _plain(title)}]
    left = WHOLE - len(title)
    fields = [
        cut(f"*{_escaped(name)}*\n{_escaped(value)}", min(FIELD, 300))
        for name, value in list(notice.fields.items())[:FIELDS]
        if value.strip()
    ]
    left -= sum(map(len, fields))
    if notice.text.strip():
        text = cut(_escaped(notice.text), min(SECTION, max(200, left - 500)))
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": text}})
    if fields:
        shown = [{"type": "mrkdwn", "text": text} for text in fields]
        blocks.append({"type": "section", "fields": shown})
    if buttons := _buttons(notice):
        blocks.append({"type": "actions", "block_id": f"lily:ack:{notice.id}", "elements": buttons})
    stamp, plain = int(notice.at.timestamp()), f"{notice.at:%F %H:%M} UTC"
    when = f"<!date^{stamp}^{{date_short_pretty}} {{time}}|{plain}>"
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": f"Lily · {when}"}]})
    return blocks


def _buttons(notice: Notice) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if notice.incident and notice.event in ("opened", "changed"):
        found.append(
            {
                "type": "button",
                "action_id": "lily_ack",
                "style": "primary",
                "text": _plain("Acknowledge"),
                "value": f"incident:{notice.incident}",
            }
        )
    if notice.url.startswith(("http://", "https://")) and len(notice.url) <= FIELDS * 300:
        found.append(
            {"type": "button", "action_id": "lily_open", "text": _plain("Open"), "url": notice.url}
        )
    return found


def _mark(notice: Notice) -> str:
    mark = DONE.get(notice.event) or MARKS.get(notice.severity or "")
    return f"{mark} " if mark else ""


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": True}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _call(url: str, body: Mapping[str, Any], headers: Mapping[str, str], label: str = "") -> Call:
    sent = {"Content-Type": "application/json; charset=utf-8", **headers}
    return Call("POST", url, sent, msgspec.json.encode(body), label)


def _judged(answer: Answer) -> Mapping[str, Any]:
    """Slack says 200 to everything: what counts is `ok`."""
    said = answer.json()
    if not isinstance(said, dict):
        raise Retry("answered something that is not JSON")
    if said.get("ok") is True:
        return said
    error = str(said.get("error") or "unknown_error")
    if error in ("ratelimited", "rate_limited"):
        wait = answer.headers.get("retry-after", "")
        raise Retry(error, float(wait) if wait.isdigit() else 30.0)
    if error in BUSY:
        raise Retry(error)
    if error in ENDED:
        raise Gone(error)
    raise Reject(error)
