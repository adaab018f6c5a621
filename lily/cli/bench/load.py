"""The load: an asynchronous client with kept connections, closed and open loops."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import uvloop

from lily.cli.bench.place import Place
from lily.cli.bench.wire import Wire

TOKEN_AGE = 300.0
PATIENCE = 60.0
JSON = "Content-Type: application/json\r\nAccept: application/json\r\n"
Once = Callable[[int], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    seconds: float

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Api:
    """One API under load. Connections stay open; the token is renewed before it ends."""

    def __init__(
        self, where: Place, connections: int, url: str | None = None, patience: float = PATIENCE,
        prefer: str = "",
    ) -> None:  # fmt: skip
        login = {"username": where.username, "password": where.password, "tenant": where.tenant}
        self._login = json.dumps(login).encode()
        self._wire = Wire(url or where.url, connections)
        self._patience = patience
        self._renewed = 0.0
        self._plain = f"{JSON}Prefer: {prefer}\r\n" if prefer else JSON
        self._head = self._plain

    async def __aenter__(self) -> Self:
        await self.renew()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wire.close()

    async def renew(self) -> None:
        answer = await self._call("POST", "/api/v1/auth/login", self._login)
        if answer.status != 200:
            raise RuntimeError(f"login answered {answer.status}: {answer.body[:200]!r}")
        self._renewed = time.monotonic()
        self._head = f"{self._plain}Authorization: Bearer {answer.document['access_token']}\r\n"

    async def post(self, path: str, body: bytes) -> Answer:
        return await self.call("POST", path, body)

    async def get(self, path: str) -> Answer:
        return await self.call("GET", path)

    async def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        if time.monotonic() - self._renewed > TOKEN_AGE:
            self._renewed = time.monotonic()
            await self.renew()
        return await self._call(method, path, body)

    async def _call(self, method: str, path: str, body: bytes | None) -> Answer:
        began = time.perf_counter()
        async with asyncio.timeout(self._patience):
            status, raw = await self._wire.request(method, path, self._head, body)
        return Answer(status, raw, time.perf_counter() - began)


@dataclass
class Tally:
    """What became of the requests of a run."""

    seconds: list[float] = field(default_factory=list)
    items: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0

    def fail(self, why: str) -> None:
        self.failures[why] = self.failures.get(why, 0) + 1

    @property
    def elapsed(self) -> float:
        return max(self.ended - self.began, 1e-9)

    @property
    def rate(self) -> float:
        return self.items / self.elapsed


Outcome = TypeVar("Outcome")


def play(load: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Run a load to its end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load)


async def open_loop(rate: float, seconds: float, once: Once) -> None:
    """Start a request at each tick, whether or not earlier ones are answered."""
    began = time.perf_counter()
    tasks = []
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(once(number)))
    await asyncio.gather(*tasks)


async def closed_loop(lanes: int, seconds: float, once: Once) -> tuple[float, float]:
    """So many at a time, each sending its next request when it has an answer."""
    began = time.perf_counter()
    numbers = iter(range(2**62))

    async def lane() -> None:
        while time.perf_counter() - began < seconds:
            await once(next(numbers))

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return began, time.perf_counter()
