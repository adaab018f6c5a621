"""`lily bench stream`: a sustained stream, half new and half really changed, until committed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

from lily.cli.bench.estate import Stream
from lily.cli.bench.fill import scratch
from lily.cli.bench.load import Api, Tally, closed_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report
from lily.cli.bench.usage import Meter
from lily.cli.client import Client, connect
from lily.store import raw

PATH = "/api/v1/metadata"
WARM = 5.0
RAW_ASSETS = 50_000
RAW_CHUNK = 5_000
LANES = {1: 400}  # requests in flight; batches are as large as what waits
FEW = 32  # enough that two batches are always under way


def measure(
    where: Place, size: int, lanes: int, seconds: float, hooks: int, whole: bool = False
) -> Report:
    report = Report("stream")
    with _hooks(where, hooks):
        tally = play(_load(where, report, size, lanes or LANES.get(size, FEW), seconds, whole))
    target = 5_000 if size >= 100 else 1_000 if size == 1 else None
    what = f"committed, in requests of {size}" + (f", {hooks} hooks" if hooks else "")
    report.add(what, tally.rate, "/s", None if hooks else target, "more")
    report.latency("request", tally.seconds, p95=1000 if size >= 100 and not hooks else 0)
    report.notes += [f"{why}: {count} times" for why, count in tally.failures.items()]
    with scratch(where, RAW_ASSETS) as scrap:
        limit = raw.copy_and_merge(scrap, RAW_CHUNK, 10)
    report.limit("COPY + merge of the same rows, same indexes", limit, "rows/s", tally.rate)
    return report


async def _load(
    where: Place, report: Report, size: int, lanes: int, seconds: float, whole: bool
) -> Tally:
    source, tally = Stream(uuid4().hex[:8]), Tally()
    plan = Plan(size, lanes)
    async with Api(where, lanes, prefer="" if whole else "return=minimal") as api:

        async def once(_: int) -> None:
            wanted = plan.next()
            body = source.many(wanted) if size > 1 else source.one(*wanted[0])
            answer = await api.post(PATH, body)
            if answer.status not in (200, 201):
                tally.fail(f"POST answered {answer.status}")
                return
            tally.seconds.append(answer.seconds)
            tally.items += size

        await closed_loop(lanes, WARM, once)
        tally = Tally()
        meter = Meter(where)
        tally.began, _ = await closed_loop(lanes, seconds, once)
        tally.ended = time.perf_counter()
        meter.tell(report, "event", tally.items)
        return tally


class Plan:
    """Which assets a request carries: as many new ones as second editions of older ones."""

    def __init__(self, size: int, lanes: int) -> None:
        self._size = size
        self._behind = size * lanes * 2  # those are committed: their requests were answered
        self._new = 0
        self._old = 0
        self._turn = 0

    def next(self) -> Sequence[tuple[int, int]]:
        self._turn += 1
        changed = self._size // 2 if self._size > 1 else self._turn % 2
        changed = min(changed, max(0, self._new - self._behind - self._old))
        fresh = self._size - changed
        numbers = [(self._old + step, 1) for step in range(changed)]
        numbers += [(self._new + step, 0) for step in range(fresh)]
        self._old += changed
        self._new += fresh
        return numbers


@contextmanager
def _hooks(where: Place, count: int) -> Iterator[None]:
    """So many enabled hooks while the block runs."""
    if not count:
        yield
        return
    client: Client = connect(where.settings.home, where.url)
    made = []
    try:
        for number in range(count):
            body = {
                "name": f"bench-{uuid4().hex[:8]}", "plugin": "classify", "uses": ["hook"],
                "options": {"mode": "suggest"}, "ordinal": number,
            }  # fmt: skip
            made.append(client.post("/api/v1/connections", body)["id"])
        yield
    finally:
        for each in made:
            client.delete(f"/api/v1/connections/{each}")
