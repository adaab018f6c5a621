"""Pretend Slack, Jira, Teams and Freshdesk for the demonstration: on this machine, in memory.

Each keeps what it was told and answers as its namesake documents it, as far as Lily's calls go.
"""

import base64
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, ClassVar

Given = dict[str, Any]
Said = tuple[int, Any]

MOVES = {"11": ("To Do", "new"), "21": ("In Progress", "indeterminate"), "31": ("Done", "done")}
STATUSES = {2: "Open", 3: "Pending", 4: "Resolved", 5: "Closed"}
UNKNOWN: Said = (404, {"error": "there is nothing here"})


class Pretend:
    """One tool on a port of its own. Calls without `proof` are refused."""

    proof: ClassVar[str] = ""

    def __init__(self) -> None:
        self.calls = 0
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._answer))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, method: str, path: list[str], given: Given) -> Said:
        raise NotImplementedError

    def _answer(self, method: str, path: str, proof: str, given: Given) -> Said:
        with self._lock:
            self.calls += 1
            if self.proof and proof != self.proof:
                return 401, {"error": "who are you?"}
            return self.answer(method, path.partition("?")[0].strip("/").split("/"), given)


class Slack(Pretend):
    """A channel: messages by their time stamp, and replies below them."""

    token = "xoxb-of-the-demonstration"
    proof = f"Bearer {token}"

    def __init__(self) -> None:
        self.messages: dict[str, Given] = {}
        self.replies: list[Given] = []
        super().__init__()

    def answer(self, method: str, path: list[str], given: Given) -> Said:
        if path[-1] == "chat.update":
            if given.get("ts") not in self.messages:
                return 200, {"ok": False, "error": "message_not_found"}
            self.messages[given["ts"]] = given
            return 200, {"ok": True, "channel": given["channel"], "ts": given["ts"]}
        if path[-1] != "chat.postMessage" or not given.get("text"):
            return 200, {"ok": False, "error": "unknown_method"}
        stamp = f"1700000000.{len(self.messages) + len(self.replies) + 1:06}"
        if "thread_ts" in given:
            self.replies.append(given)
        else:
            self.messages[stamp] = given
        return 200, {"ok": True, "channel": given["channel"], "ts": stamp}

    def button(self) -> str:
        """What a click on `Acknowledge` would send."""
        elements = [
            element
            for message in self.messages.values()
            for block in message["blocks"]
            for element in block.get("elements", [])
        ]
        return next(str(e["value"]) for e in elements if e.get("action_id") == "lily_ack")


class Jira(Pretend):
    """A project: issues by key, each with its fields, comments and the statuses that it had."""

    email, token = "bot@example.org", "of-the-demonstration"
    proof = "Basic " + base64.b64encode(f"{email}:{token}".encode()).decode()

    def __init__(self) -> None:
        self.issues: dict[str, Given] = {}
        super().__init__()

    def answer(self, method: str, path: list[str], given: Given) -> Said:
        match [method, *path[3:]]:
            case ["POST", "issue"]:
                key = f"{given['fields']['project']['key']}-{len(self.issues) + 1}"
                self.issues[key] = {**given["fields"], "comments": [], "statuses": ["To Do"]}
                return 201, {"id": key, "key": key}
            case ["POST", "search", "jql"]:
                found = [k for k, i in self.issues.items() if set(i["labels"]) & _quoted(given)]
                return 200, {"issues": [{"key": key} for key in found]}
            case ["POST", "issue", key, "comment"] if key in self.issues:
                self.issues[key]["comments"].append(given)
                return 201, {"id": "1"}
            case ["GET", "issue", key, "transitions"] if key in self.issues:
                return 200, {"transitions": [_offered(id) for id in MOVES]}
            case ["POST", "issue", key, "transitions"] if key in self.issues:
                self.issues[key]["statuses"].append(MOVES[given["transition"]["id"]][0])
                return 204, None
        return UNKNOWN


class Teams(Pretend):
    """A workflow's webhook: the cards that it posted."""

    def __init__(self) -> None:
        self.cards: list[Given] = []
        super().__init__()

    def answer(self, method: str, path: list[str], given: Given) -> Said:
        if given.get("type") != "message":
            return 400, {"error": "not a message"}
        self.cards += [attachment["content"] for attachment in given["attachments"]]
        return 202, None


class Freshdesk(Pretend):
    """Tickets by id, with their notes."""

    key = "of-the-demonstration"
    proof = "Basic " + base64.b64encode(f"{key}:X".encode()).decode()

    def __init__(self) -> None:
        self.tickets: dict[int, Given] = {}
        super().__init__()

    def answer(self, method: str, path: list[str], given: Given) -> Said:
        match [method, *path[2:]]:
            case ["POST", "tickets"]:
                id = len(self.tickets) + 1
                self.tickets[id] = {**given, "notes": []}
                return 201, {"id": id}
            case ["GET", "search", "tickets"]:
                return 200, {"results": [{"id": id} for id in self.tickets]}
            case ["PUT", "tickets", name] if int(name) in self.tickets:
                self.tickets[int(name)] |= given
                return 200, {"id": int(name)}
            case ["POST", "tickets", name, "notes"] if int(name) in self.tickets:
                self.tickets[int(name)]["notes"].append(given)
                return 201, {"id": 1}
        return UNKNOWN


def _quoted(given: Given) -> set[str]:
    return set(str(given.get("jql", "")).split('"')[1::2])


def _offered(id: str) -> Given:
    name, category = MOVES[id]
    return {"id": id, "name": name, "to": {"name": name, "statusCategory": {"key": category}}}


def _handler(answer: Callable[[str, str, str, Given], Said]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            given = json.loads(raw) if raw else {}
            proof = self.headers.get("Authorization", "")
            status, said = answer(self.command, self.path, proof, given)
            body = b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the story tells what matters."""

    return Handler
