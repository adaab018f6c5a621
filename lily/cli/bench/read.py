"""`lily bench read`: GET by id as fast as it goes."""

from uuid import UUID, uuid4

from lily.cli.bench.estate import Stream
from lily.cli.bench.load import Api, Tally, closed_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report
from lily.cli.bench.usage import Meter
from lily.store import raw
from lily.wiring import home_url

PATH = "/api/v1/metadata"
TOGETHER = 64


def measure(where: Place, connections: int, assets: int, seconds: float) -> Report:
    report = Report("read")
    guids, tally, hello = play(_load(where, report, connections, assets, seconds))
    report.add("GET by id", tally.rate, "/s", 4_000, "more")
    report.latency("GET", tally.seconds)
    report.notes += [f"{why}: {count} times" for why, count in tally.failures.items()]
    report.limit("the same API answering /healthz", hello.rate, "/s", tally.rate)
    tenant, address = where.known_tenant(), home_url(where.settings)
    rows = raw.reads(address, tenant.number, guids, TOGETHER, min(10, seconds))
    report.limit(f"PostgreSQL, {TOGETHER} ids a statement", rows, "rows/s", tally.rate)
    return report


async def _load(
    where: Place, report: Report, connections: int, assets: int, seconds: float
) -> tuple[list[UUID], Tally, Tally]:
    async with Api(where, connections) as api:
        guids = await _write(api, assets)
        paths = [f"{PATH}/{guid}" for guid in guids]
        await _loop(api, paths, connections, 3)
        hello = await _loop(api, ["/healthz"], connections, min(10, seconds))
        meter = Meter(where)
        tally = await _loop(api, paths, connections, seconds)
        meter.tell(report, "GET", tally.items)
        return guids, tally, hello


async def _write(api: Api, assets: int) -> list[UUID]:
    stream, guids = Stream(uuid4().hex[:8]), []
    for start in range(0, assets, 500):
        numbers = [(number, 0) for number in range(start, min(start + 500, assets))]
        answer = await api.post(PATH, stream.many(numbers))
        if answer.status != 200:
            raise RuntimeError(f"POST answered {answer.status}: {answer.body[:200]!r}")
        guids += [UUID(item["guid"]) for item in answer.document["items"]]
    return guids


async def _loop(api: Api, paths: list[str], connections: int, seconds: float) -> Tally:
    tally = Tally()

    async def once(number: int) -> None:
        # A stride that shares no factor with the number of assets visits all of them.
        answer = await api.get(paths[number * 7919 % len(paths)])
        if answer.status == 200:
            tally.seconds.append(answer.seconds)
            tally.items += 1
        else:
            tally.fail(f"GET answered {answer.status}")

    tally.began, tally.ended = await closed_loop(connections, seconds, once)
    return tally
