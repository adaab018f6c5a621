"""Freshdesk: tickets, notes and status, by the rules of its API."""

import base64
import json
import re
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.vendors.server import Vendor

KEY = "fresh-secret-key"


class Freshdesk(Vendor):
    """`tickets` by id: what was given, notes, status."""

    def __init__(self, per_minute: int = 80) -> None:
        super().__init__()
        self.tickets: dict[int, dict[str, Any]] = {}
        self._left = per_minute

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        pair = base64.b64encode(f"{KEY}:X".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {pair}":
            return web.json_response({"code": "invalid_credentials"}, status=401)
        self._left -= 1
        if self._left < 0:
            return web.Response(status=429, headers={"Retry-After": "30"})
        if body and request.content_type != "application/json":
            return web.Response(status=415)
        path = request.path.removeprefix("/api/v2")
        given = json.loads(body) if body else {}
        if (request.method, path) == ("POST", "/tickets"):
            return self._create(given)
        if (request.method, path) == ("GET", "/search/tickets"):
            return self._search(unquote(request.query_string))
        return self._of_ticket(request.method, path, given)

    def _create(self, given: dict[str, Any]) -> web.StreamResponse:
        wrong = [name for name in ("subject", "description") if not given.get(name)]
        wrong += ["requester_id"] if "@" not in given.get("email", "") else []
        wrong += ["status"] if given.get("status") not in (2, 3, 4, 5) else []
        wrong += ["priority"] if given.get("priority") not in (1, 2, 3, 4) else []
        wrong += ["subject"] if len(given.get("subject", "")) > 255 else []
        wrong += ["tags"] if any(len(tag) > 32 for tag in given.get("tags", [])) else []
        if wrong:
            errors = [{"field": w, "message": "…", "code": "invalid_value"} for w in wrong]
            said = {"description": "Validation failed", "errors": errors}
            return web.json_response(said, status=400)
        id = len(self.tickets) + 1
        self.tickets[id] = {**given, "notes": []}
        return web.json_response({"id": id, **given}, status=201)

    def _search(self, query: str) -> web.StreamResponse:
        found = re.search(r"tag:'([^']+)'", query)
        assert found is not None
        seen = [{"id": id} for id, t in self.tickets.items() if found[1] in t["tags"]]
        return web.json_response({"results": seen, "total": len(seen)})

    def _of_ticket(self, method: str, path: str, given: dict[str, Any]) -> web.StreamResponse:
        parts = path.strip("/").split("/")
        ticket = self.tickets.get(int(parts[1]))
        if ticket is None:
            return web.Response(status=404)
        if method == "PUT":
            ticket["status"] = given["status"]
            return web.json_response({"id": int(parts[1])})
        if method == "POST" and parts[2:] == ["notes"] and given.get("body"):
            ticket["notes"].append(given)
            return web.json_response({"id": 1}, status=201)
        return web.Response(status=400)
