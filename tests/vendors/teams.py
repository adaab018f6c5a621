"""Teams: a workflow's webhook, which posts adaptive cards and nothing else."""

import json
from importlib import resources
from typing import Any

from aiohttp import web
from jsonschema import Draft7Validator

from tests.vendors.server import Vendor

HOOK = "/workflows/secret/triggers/manual/paths/invoke"
LARGEST = 28 * 1024


class Teams(Vendor):
    """`cards` that were posted."""

    def __init__(self) -> None:
        super().__init__()
        self.cards: list[dict[str, Any]] = []

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.path != HOOK:
            return web.Response(status=404)
        if len(body) > LARGEST:
            return web.Response(status=413)
        given = json.loads(body)
        if given.get("type") != "message":
            return web.Response(status=400)
        for attachment in given["attachments"]:
            if attachment["contentType"] != "application/vnd.microsoft.card.adaptive":
                return web.Response(status=400)
            if wrong := problems(attachment["content"]):
                return web.Response(status=400, text="; ".join(wrong))
            self.cards.append(attachment["content"])
        return web.Response(status=202)


def problems(card: dict[str, Any]) -> list[str]:
    """What the published schema of the card's version has against it."""
    folder = resources.files("adaptive_cards") / "schemas"
    text = (folder / f"schema-{card['version']}.json").read_text(encoding="utf-8-sig")
    return [error.message for error in Draft7Validator(json.loads(text)).iter_errors(card)]
