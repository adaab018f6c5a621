"""Endpoints to deliver to, good and bad, in a process of their own.

The path says how one behaves: /ok/… answers, /fail/… answers 500, /hang/… never does, /trickle/…
sends a byte a second; /jira/… makes issues. GET /stats tells what arrived.
"""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from typing import Any

import uvloop

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
FAIL = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
ID = re.compile(rb"\r\nwebhook-id: ([^\r]+)", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
LABEL = re.compile(r'labels = "([^"]+)"')


class Book:
    """What arrived."""

    def __init__(self) -> None:
        self.seen: Counter[bytes] = Counter()
        self.paths: Counter[str] = Counter()
        self.first = 0.0
        self.last = 0.0
        self.issues: list[list[str]] = []  # labels of each

    def note(self, path: str, id: bytes) -> None:
        now = time.perf_counter()
        self.first = self.first or now
        self.last = now
        self.seen[path.encode() + b" " + id] += 1
        self.paths[path] += 1

    def stats(self) -> dict[str, Any]:
        labels = Counter(label for issue in self.issues for label in issue if label != "lily")
        return {
            "received": sum(self.paths.values()),
            "different": len(self.seen),
            "repeated": sum(1 for count in self.seen.values() if count > 1),
            "seconds": self.last - self.first,
            "issues": len(self.issues),
            "doubled_issues": sum(1 for count in labels.values() if count > 1),
        }


class Endpoint(asyncio.Protocol):
    """As little of HTTP as a client of ours needs."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            found = LENGTH.search(head)
            whole = end + 4 + (int(found[1]) if found else 0)
            if len(self._buffer) < whole:
                return
            body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        path = head.split(b" ", 2)[1].decode()
        kind = path.split("/", 2)[1]
        if kind == "bare":
            self._transport.write(OK)
        elif kind == "ok":
            found = ID.search(head)
            self._book.note(path, found[1] if found else b"")
            self._transport.write(OK)
        elif kind == "fail":
            self._transport.write(FAIL)
        elif kind == "trickle":
            asyncio.get_running_loop().create_task(self._trickle())
        elif kind == "jira":
            self._send(self._jira(path, body))
        elif kind == "stats":
            self._send((200, self._book.stats()))

    def _jira(self, path: str, body: bytes) -> tuple[int, Any]:
        given = json.loads(body) if body else {}
        if path.endswith("/issue"):
            self._book.issues.append(given["fields"]["labels"])
            return 201, {"key": f"B-{len(self._book.issues)}"}
        if path.endswith("/search/jql"):
            found = LABEL.search(given["jql"])
            label = found[1] if found else ""
            known = [n for n, labels in enumerate(self._book.issues, 1) if label in labels]
            return 200, {"issues": [{"key": f"B-{n}"} for n in known]}
        return 201, {}

    def _send(self, said: tuple[int, Any]) -> None:
        status, document = said
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} OK\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)

    async def _trickle(self) -> None:
        for byte in OK:
            if self._transport.is_closing():
                return
            self._transport.write(bytes([byte]))
            await asyncio.sleep(1)


async def _serve() -> None:
    book = Book()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Endpoint(book), "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)  # until whoever started it is gone


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
