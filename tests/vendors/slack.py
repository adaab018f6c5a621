"""Slack: incoming webhooks and the Web API, with its limits."""

import itertools
import json
import time
from typing import Any

from aiohttp import web
from slack_sdk.models.blocks import Block

from tests.vendors.server import Vendor

TOKEN = "xoxb-1-secret"
HOOK = "/services/T1/B1/secret"
LEGAL = {"header", "section", "actions", "context", "divider"}


class Slack(Vendor):
    """`messages` by (channel, ts); replies have a thread_ts. `hooked` came by the webhook."""

    def __init__(self, per_second: float = 1.0, burst: int = 4) -> None:
        super().__init__()
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}
        self.hooked: list[dict[str, Any]] = []
        self.updates = 0
        self.errors: list[str] = []  # answered next, in order
        self._stamps = (f"1700000000.{n:06}" for n in itertools.count(1))
        self._per_second, self._room, self._last = per_second, float(burst), time.monotonic()
        self._burst = burst

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.path == HOOK:
            return self._hook(body)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _said(ok=False, error="invalid_auth")
        if self.errors:
            return _said(ok=False, error=self.errors.pop(0))
        given = json.loads(body)
        method = request.path.rpartition("/")[2]
        if method == "chat.postMessage" and not self._free():
            return web.Response(status=429, headers={"Retry-After": "1"})
        if (wrong := problem(given)) is not None:
            return _said(ok=False, error=wrong)
        if method == "chat.postMessage":
            return self._post(given)
        return self._update(given)

    def roots(self) -> list[dict[str, Any]]:
        return [m for m in self.messages.values() if "thread_ts" not in m]

    def replies(self) -> list[dict[str, Any]]:
        return [m for m in self.messages.values() if "thread_ts" in m]

    def _hook(self, body: bytes) -> web.StreamResponse:
        given = json.loads(body)
        if self.errors:
            error = self.errors.pop(0)
            return web.Response(status=404 if error == "no_service" else 410, text=error)
        if problem(given) is not None:
            return web.Response(status=400, text="invalid_payload")
        self.hooked.append(given)
        return web.Response(text="ok")

    def _post(self, given: dict[str, Any]) -> web.StreamResponse:
        if not given.get("channel"):
            return _said(ok=False, error="channel_not_found")
        stamp = next(self._stamps)
        self.messages[given["channel"], stamp] = given
        return _said(ok=True, channel=given["channel"], ts=stamp)

    def _update(self, given: dict[str, Any]) -> web.StreamResponse:
        key = given.get("channel", ""), given.get("ts", "")
        if key not in self.messages:
            return _said(ok=False, error="message_not_found")
        self.messages[key] = {**self.messages[key], **given}
        self.updates += 1
        return _said(ok=True, channel=key[0], ts=key[1])

    def _free(self) -> bool:
        now = time.monotonic()
        self._room = min(self._burst, self._room + (now - self._last) * self._per_second)
        self._last = now
        if self._room < 1:
            return False
        self._room -= 1
        return True


def problem(given: dict[str, Any]) -> str | None:
    """What Slack would say of a message; its own SDK judges the blocks."""
    if not given.get("text"):
        return "no_text"
    if len(given["text"]) > 4000:
        return "msg_too_long"
    blocks = given.get("blocks", [])
    if len(blocks) > 50 or sum(len(json.dumps(b, ensure_ascii=False)) for b in blocks) > 12_000:
        return "msg_blocks_too_long"
    if any(block["type"] not in LEGAL for block in blocks):
        return "invalid_blocks"
    parsed = Block.parse_all(blocks)
    if any(block is None for block in parsed):
        return "invalid_blocks"
    try:
        for block in parsed:
            block.validate_json()
    except Exception:  # noqa: BLE001  whatever it dislikes is invalid
        return "invalid_blocks"
    return None if all(_sound(block) for block in blocks) else "invalid_blocks"


def _sound(block: dict[str, Any]) -> bool:
    """What the SDK does not look at."""
    if block["type"] == "header":
        text = block["text"]
        return text["type"] == "plain_text" and 0 < len(text["text"]) <= 150
    if block["type"] == "section":
        texts = [block["text"]] if "text" in block else []
        fields = block.get("fields", [])
        return (
            all(0 < len(t["text"]) <= 3000 for t in texts)
            and len(fields) <= 10
            and all(0 < len(f["text"]) <= 2000 for f in fields)
            and bool(texts or fields)
        )
    if block["type"] == "actions":
        return len(block["elements"]) <= 25 and all(
            len(e["text"]["text"]) <= 75 and len(e.get("value", "")) <= 2000
            and len(e.get("url", "")) <= 3000
            for e in block["elements"]
        )  # fmt: skip
    return block["type"] != "context" or 0 < len(block["elements"]) <= 10


def _said(**said: Any) -> web.StreamResponse:
    return web.json_response(said)
