"""`lily bench incident`: a signed webhook, until the incident is on its asset and told outside."""

import asyncio
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from lily.cli.bench.fill import scratch
from lily.cli.bench.load import Api, Tally, open_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.cli.bench.wire import Wire
from lily.store import raw

TABLES = 200
PATIENCE = 30.0
POLL = 0.05  # more often would be a load of its own
RAW_ASSETS = 20_000
SECRET = "a secret of the bench"


class Heard:
    """A receiver of our own: when each incident was first delivered."""

    def __init__(self, run: str) -> None:
        self.at: dict[str, float] = {}
        self._name = re.compile(rf"{run}-\d+".encode())
        self._open: set[asyncio.StreamWriter] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """As little of HTTP as a sender of webhooks needs."""
        self._open.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                now = time.perf_counter()
                for name in self._name.findall(body):
                    self.at.setdefault(name.decode(), now)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            self._open.discard(writer)

    async def leave(self) -> None:
        """Close what senders keep open, and let each handler see it."""
        for writer in list(self._open):
            writer.close()
        while self._open:
            await asyncio.sleep(0.01)


def measure(where: Place, rate: float, seconds: float) -> Report:
    report = Report("incident")
    seen, told, tally, note = play(_load(where, rate, seconds))
    report.latency("webhook → visible on the asset", seen, p95=1000)
    asked = round(rate * seconds)
    report.add("visible", len(seen), "incidents", asked, "more")
    if told is not None:
        report.latency("webhook → first delivery", told, p95=2000)
        report.add("delivered", len(told), "incidents", asked, "more")
    report.latency("webhook acknowledged", tally.seconds)
    report.add("rate", tally.rate, "/s")
    report.notes += [*note, *(f"{why}: {count} times" for why, count in tally.failures.items())]
    with scratch(where, RAW_ASSETS) as url:
        values = [_call("raw", number)[1].decode() for number in range(1000)]
        append = percentile(raw.appends(url, values, 5), 0.5)
    report.limit("bare append to the log, p50", append * 1e3, "ms", percentile(seen, 0.5) * 1e3)
    return report


async def _load(
    where: Place, rate: float, seconds: float
) -> tuple[list[float], list[float] | None, Tally, list[str]]:
    run = f"bench{uuid4().hex[:8]}"
    heard, tally = Heard(run), Tally()
    began: dict[str, float] = {}
    seen: list[float] = []
    async with Api(where, 256) as api, _receiver(heard) as receiver:
        guids = await _tables(api, run)
        path = await _connection(api, run)
        problem = await _subscription(api, run, receiver)
        tool = Wire(where.url, 64)

        async def once(number: int) -> None:
            proof, body = _call(run, number)
            name, start = f"{run}-{number}", time.perf_counter()
            began[name] = start
            head = f"Content-Type: application/json\r\nx-mcd-signature: {proof}\r\n"
            status, _ = await tool.request("POST", path, head, body)
            if status != 200:
                tally.fail(f"the webhook answered {status}")
                return
            tally.seconds.append(time.perf_counter() - start)
            tally.items += 1
            if await _visible(api, guids[number % TABLES], name):
                seen.append(time.perf_counter() - start)
            else:
                tally.fail("not on the asset in time")

        await open_loop(5, 2, lambda number: once(10**6 + number))
        seen.clear()
        tally = Tally(began=time.perf_counter())
        await open_loop(rate, seconds, once)
        tally.ended = time.perf_counter()
        if problem is None:
            await _delivered(heard, round(rate * seconds) + 10)
        tool.close()
    told = [at - began[n] for n, at in heard.at.items() if int(n.partition("-")[2]) < 10**6]
    return seen, None if problem else told, tally, [problem] if problem else []


async def _tables(api: Api, run: str) -> list[str]:
    body = [{"qualified_name": f"bench://{run}/{run}.t{n}", "asset_type": "table"}
            for n in range(TABLES)]  # fmt: skip
    answer = await api.post("/api/v1/metadata", json.dumps(body).encode())
    return [item["guid"] for item in answer.document["items"]]


async def _connection(api: Api, run: str) -> str:
    made = await _made(api, "connections", {
        "name": f"{run} in", "plugin": "montecarlo", "uses": ["webhook"],
        "options": {"secret": SECRET},
    })  # fmt: skip
    return urlsplit(str(made["webhook_url"])).path


async def _subscription(api: Api, run: str, receiver: str) -> str | None:
    """None when deliveries can be measured, else why not."""
    try:
        made = await _made(api, "connections", {
            "name": f"{run} out", "plugin": "webhook", "uses": ["target"],
            "options": {"url": receiver, "secret": "whsec_" + "c2VjcmV0" * 4},
        })  # fmt: skip
        match = {"facts": ["IncidentOpened"]}
        body = {"name": run, "match": match, "connection_id": made["id"]}
        await _made(api, "subscriptions", body)
    except RuntimeError as cause:
        return f"deliveries not measured: {cause}"
    return None


async def _made(api: Api, what: str, body: dict[str, Any]) -> Any:
    answer = await api.post(f"/api/v1/{what}", json.dumps(body).encode())
    if answer.status != 201:
        raise RuntimeError(f"{what} answered {answer.status}: {answer.body[:300]!r}")
    return answer.document


async def _visible(api: Api, guid: str, name: str) -> bool:
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        answer = await api.get(f"/api/v1/metadata/{guid}")
        if name.encode() in answer.body:
            return True
        await asyncio.sleep(POLL)
    return False


async def _delivered(heard: Heard, wanted: int) -> None:
    end = time.perf_counter() + PATIENCE
    while len(heard.at) < wanted and time.perf_counter() < end:
        await asyncio.sleep(0.05)


def _call(run: str, number: int) -> tuple[str, bytes]:
    """As Monte Carlo makes it: what is signed is a rendering of the parsed body."""
    event = {"event_details": "Has 42 rows vs. 101 expected", "table_name": f"t{number % TABLES}"}
    payload = {"event_list": [event], "group_id": run, "incident_id": f"{run}-{number}", "url": ""}
    call = {"account": {"id": run}, "action": "incident", "payload": payload,
            "type": "open_anomaly_incident", "version": "v0.1"}  # fmt: skip
    return signed(call, SECRET), json.dumps(call).encode()


def signed(call: dict[str, Any], secret: str) -> str:
    """What Monte Carlo proves a call with."""
    return hmac.new(secret.encode(), urlencode(call).encode(), hashlib.sha512).hexdigest()


@asynccontextmanager
async def _receiver(heard: Heard) -> AsyncIterator[str]:
    server = await asyncio.start_server(heard.take, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        await heard.leave()
