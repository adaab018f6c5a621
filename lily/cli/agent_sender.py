"""One crawl of an agent: differences to the API, then what is gone."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from lily import plugins
from lily.cli.agent_memory import Memory
from lily.cli.client import Client, refusal
from lily.cli.failures import UNREACHABLE, Failure
from lily.sdk import Cursor, EdgeGone, EdgeSeen, Source
from lily.workers.reading import Statement, chunks, ended, fingerprint, key_of

MOST = 1_000
BYTES = 4_000_000
ATTEMPTS = 6
BUSY = (429, 502, 503, 504)
ROUTE = "/api/v1/metadata"
EDGES = "/api/v1/metadata/lineage"


class Sender:
    """Posts lists of documents; waits while the API is busy or away, and logs in again."""

    def __init__(self, login: Callable[[], Client], wait: float = 1.0) -> None:
        self._login = login
        self._client: Client | None = None
        self._wait = wait

    def send(self, documents: Sequence[dict[str, Any]], route: str = ROUTE) -> set[int]:
        """Returns the places of those that were refused; all others are durable."""
        if not documents:
            return set()
        if len(documents) > 1 and (len(documents) > MOST or len(json.dumps(documents)) > BYTES):
            return self._halves(documents, route)
        status, answer = self._post(documents, route)
        if status == 413 and len(documents) > 1:
            return self._halves(documents, route)
        if status in (400, 413, 422):
            return set(range(len(documents)))
        if status >= 400:
            raise refusal(status, answer)
        items = answer.get("items", [])
        return {place for place, item in enumerate(items) if item.get("outcome") == "rejected"}

    def send_all(self, said: Sequence[Statement], stamp: dict[str, str]) -> set[int]:
        """Assets first, then the edges between them; the places of those that were refused."""
        refused: set[int] = set()
        for route, is_edge in ((ROUTE, False), (EDGES, True)):
            places = [n for n, each in enumerate(said) if _is_edge(each) == is_edge]
            found = self.send([_document(said[n], stamp) for n in places], route)
            refused |= {places[n] for n in found}
        return refused

    def _halves(self, documents: Sequence[dict[str, Any]], route: str) -> set[int]:
        middle = len(documents) // 2
        later = self.send(documents[middle:], route)
        return self.send(documents[:middle], route) | {middle + place for place in later}

    def _post(self, documents: Sequence[dict[str, Any]], route: str) -> tuple[int, Any]:
        prefer = {"Prefer": "respond-async"}
        for attempt in range(ATTEMPTS):
            try:
                self._client = self._client or self._login()
                status, answer = self._client.exchange("POST", route, documents, headers=prefer)
            except Failure as failure:
                if failure.code != UNREACHABLE or attempt == ATTEMPTS - 1:
                    raise
            else:
                if status == 401 and attempt == 0:
                    self._client = None  # a login ends after a while
                    continue
                if status not in BUSY or attempt == ATTEMPTS - 1:
                    return status, answer
            time.sleep(self._wait * 2**attempt)
        raise Failure("The API does not answer.", UNREACHABLE)


def run(
    name: str,
    plugin: str,
    given: dict[str, Any],
    memory: Memory,
    sender: Sender,
    at: datetime,
) -> dict[str, int]:
    """Read to the end, sending what differs; then say what is gone. Returns what became of all."""
    source: Source = plugins.build("source", plugin, given)
    number, cursor = memory.begin(name)
    counts = {"read": 0, "sent": 0, "gone": 0, "rejected": 0}
    stamp = {"source": name, "observed_at": at.isoformat()}
    for chunk in chunks(source.read(Cursor(cursor) if cursor is not None else None), size=MOST):
        counts["read"] += chunk.size
        counts["rejected"] += len(chunk.refused)
        _differences(name, number, chunk.seen, memory, sender, stamp, counts)
        memory.forget(name, [key_of(each) for each in chunk.gone])
        sender.send_all(chunk.gone, stamp)
        if chunk.cursor is not None:
            memory.keep(name, number, chunk.cursor.value)
    while names := memory.unseen(name, number, MOST):
        sender.send_all([ended(each) for each in names], stamp)
        memory.forget(name, names)
        counts["gone"] += len(names)
    memory.keep(name, number, None, done=True)
    return counts


def _differences(
    name: str,
    number: int,
    seen: Sequence[Statement],
    memory: Memory,
    sender: Sender,
    stamp: dict[str, str],
    counts: dict[str, int],
) -> None:
    said = {key_of(each): fingerprint(each) for each in seen}
    known = memory.known(name, list(said))
    new = [each for each in seen if known.get(key_of(each)) != said[key_of(each)]]
    refused = sender.send_all(new, stamp)
    for place in refused:
        del said[key_of(new[place])]
    counts["sent"] += len(new) - len(refused)
    counts["rejected"] += len(refused)
    memory.mark(name, number, said.items())


def _is_edge(each: Statement) -> bool:
    return isinstance(each, EdgeSeen | EdgeGone)


def _document(each: Statement, stamp: dict[str, str]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(each)
    kind = document.pop("type")
    document.pop("suggestions", None)
    if kind in ("AssetGone", "EdgeGone"):
        document["is_deleted"] = True
    return {**document, **stamp}
