"""Jira Cloud: issues with documents, comments, transitions, and a search that lags behind."""

import asyncio
import base64
import json
import re
import time
from typing import Any

from aiohttp import web

from tests.vendors.server import Vendor

CLIENT = ("app", "secret of the app")
CLOUD = "11223344-a1b2-3b33-c444-def123456789"
SITE = f"/ex/jira/{CLOUD}"
EMAIL, TOKEN = "bot@example.com", "jira-secret-token"
NODES = {"doc", "paragraph", "text", "bulletList", "listItem", "heading", "codeBlock"}
STATES = {"11": ("To Do", "new"), "21": ("In Progress", "indeterminate"), "31": ("Done", "done")}


class Jira(Vendor):
    """`issues` by key: fields, comments, status. Search sees what is older than `lag` seconds."""

    def __init__(self, lag: float = 0.0, priority: bool = True) -> None:
        super().__init__()
        self.issues: dict[str, dict[str, Any]] = {}
        self.lag = lag
        self.priority = priority
        self.scripted: list[web.Response] = []
        self.silent = 0  # so many creations are done, and never answered

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if not self._known(request):
            return web.json_response({"errorMessages": ["no"]}, status=401)
        if self.scripted:
            return self.scripted.pop(0)
        path = self._path(request).removeprefix("/rest/api/3").removeprefix("/rest/api/2")
        given = json.loads(body) if body else {}
        if (request.method, path) == ("POST", "/issue"):
            return await self._create(request, given)
        if (request.method, path) == ("POST", "/search/jql"):
            return self._search(given)
        if path == "/serverInfo":
            return web.json_response({"versionNumbers": [9, 0, 0], "deploymentType": "Cloud"})
        return self._of_issue(request.method, path, given)

    def _known(self, request: web.Request) -> bool:
        pair = base64.b64encode(f"{EMAIL}:{TOKEN}".encode()).decode()
        return request.headers.get("Authorization") == f"Basic {pair}"

    def _path(self, request: web.Request) -> str:
        return request.path

    async def _create(self, request: web.Request, given: dict[str, Any]) -> web.StreamResponse:
        fields = given.get("fields", {})
        wrong = self._wrong(fields)
        if wrong:
            return web.json_response({"errorMessages": [], "errors": wrong}, status=400)
        key = f"{fields['project']['key']}-{len(self.issues) + 1}"
        self.issues[key] = {
            "fields": fields, "comments": [], "status": "To Do", "at": time.monotonic(),
            "moves": [],
        }  # fmt: skip
        if self.silent:
            self.silent -= 1
            assert request.transport is not None
            request.transport.close()
        made = {"id": str(10_000 + len(self.issues)), "key": key, "self": f"{self.url}/{key}"}
        return web.json_response(made, status=201)

    def _wrong(self, fields: dict[str, Any]) -> dict[str, str]:
        found = {}
        summary = fields.get("summary", "")
        if not summary or len(summary) > 255 or "\n" in summary:
            found["summary"] = "The summary is invalid."
        if any(" " in label or not label or len(label) > 255 for label in fields.get("labels", [])):
            found["labels"] = "The label contains spaces which is invalid."
        if not document(fields.get("description")):
            found["description"] = "Operation value must be an Atlassian Document"
        if "priority" in fields and not self.priority:
            found["priority"] = "Field 'priority' cannot be set. It is not on the screen."
        return found

    def _search(self, given: dict[str, Any]) -> web.StreamResponse:
        found = re.search(r'project = (\w+) AND labels = "([^"]+)"', given.get("jql", ""))
        if found is None:
            return web.json_response({"errorMessages": ["bad JQL"]}, status=400)
        seen = [
            {"key": key}
            for key, issue in self.issues.items()
            if found[2] in issue["fields"]["labels"] and key.startswith(found[1] + "-")
            and time.monotonic() - issue["at"] >= self.lag
        ]  # fmt: skip
        return web.json_response({"issues": seen[: given.get("maxResults", 50)], "isLast": True})

    def _of_issue(self, method: str, path: str, given: dict[str, Any]) -> web.StreamResponse:
        parts = path.strip("/").split("/")
        issue = self.issues.get(parts[1]) if len(parts) > 1 else None
        if issue is None:
            return web.json_response({"errorMessages": ["Issue does not exist"]}, status=404)
        if parts[2:] == ["comment"] and method == "POST":
            if not document(given.get("body")):
                return web.json_response({"errorMessages": ["not a document"]}, status=400)
            issue["comments"].append(given["body"])
            return web.json_response({"id": "1"}, status=201)
        if parts[2:] == ["transitions"] and method == "GET":
            offered = [
                {"id": id, "name": name, "to": {"name": name, "statusCategory": {"key": category}}}
                for id, (name, category) in STATES.items()
            ]
            return web.json_response({"transitions": offered})
        if parts[2:] == ["transitions"] and method == "POST":
            issue["status"] = STATES[given["transition"]["id"]][0]
            issue["moves"].append(issue["status"])
            return web.Response(status=204)
        if method == "GET" and len(parts) == 2:
            fields = {**issue["fields"], "description": "…"}
            return web.json_response(
                {"id": "1", "key": parts[1], "self": self.url, "fields": fields}
            )
        return web.Response(status=405)


class Atlassian(Jira):
    """The same site as apps reach it, and the token endpoint beside it: both kinds of grants,
    tokens that end, and refresh tokens that are good once."""

    def __init__(self) -> None:
        super().__init__()
        self.refresh = "first refresh token"
        self.access = ""
        self.given = 0  # how many access tokens
        self.refused = 0  # calls without a good one
        self.busy: list[int] = []  # answered next by the token endpoint, in order

    async def answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if request.path == "/oauth/token":
            return await self._token(request, json.loads(body))
        return await super().answer(request, body)

    def expire(self) -> None:
        """The access token is over, before it said it would be."""
        self.access = ""

    async def _token(self, request: web.Request, given: dict[str, str]) -> web.StreamResponse:
        await asyncio.sleep(0.05)  # long enough for two to ask at once
        if self.busy:
            return web.json_response({"error": "busy"}, status=self.busy.pop(0))
        if (given["client_id"], given["client_secret"]) != CLIENT:
            return web.json_response({"error": "invalid_client"}, status=401)
        refreshes = given["grant_type"] == "refresh_token"
        if refreshes and given["refresh_token"] != self.refresh:
            return web.json_response({"error": "invalid_grant"}, status=403)
        self.given += 1
        self.access = f"access token {self.given}"
        told: dict[str, Any] = {"access_token": self.access, "expires_in": 3600}
        if refreshes:
            self.refresh = f"refresh token {self.given}"
            told["refresh_token"] = self.refresh
        return web.json_response(told)

    def _known(self, request: web.Request) -> bool:
        known = bool(self.access)
        known = known and request.headers.get("Authorization") == f"Bearer {self.access}"
        self.refused += not known
        return known and request.path.startswith(SITE)

    def _path(self, request: web.Request) -> str:
        return request.path.removeprefix(SITE)


def document(node: Any, root: bool = True) -> bool:
    """Whether it is an Atlassian document: known nodes, and no empty text."""
    if not isinstance(node, dict) or node.get("type") not in NODES:
        return False
    if root and (node["type"] != "doc" or node.get("version") != 1):
        return False
    if node["type"] == "text":
        marks = node.get("marks", [])
        return bool(node.get("text")) and all(m["type"] in ("strong", "link") for m in marks)
    inside = node.get("content")
    return isinstance(inside, list) and bool(inside) and all(document(n, False) for n in inside)


def texts(node: dict[str, Any]) -> str:
    """All words of a document."""
    if node["type"] == "text":
        return str(node["text"])
    return " ".join(texts(each) for each in node.get("content", []))
