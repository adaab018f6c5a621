"""`lily bench post`: one asset at a time, until it can be read, from anywhere."""

import time
from uuid import uuid4

from lily.cli.bench.estate import Stream
from lily.cli.bench.fill import scratch
from lily.cli.bench.load import Api, Tally, open_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.store import raw

PATH = "/api/v1/metadata"
RAW_ASSETS = 20_000


def measure(where: Place, rate: float, seconds: float, also_url: str | None) -> Report:
    report = Report("post")
    tally, readable = play(_load(where, rate, seconds, also_url))
    report.latency("POST → readable", tally.seconds, p50=150, p95=300)
    asked = round(rate * seconds)
    report.add("readable at once after the answer", readable, "assets", asked, "more")
    report.add("rate", tally.rate, "/s")
    report.notes += [f"{why}: {count} times" for why, count in tally.failures.items()]
    _limits(where, report, percentile(tally.seconds, 0.5))
    return report


async def _load(
    where: Place, rate: float, seconds: float, also_url: str | None
) -> tuple[Tally, int]:
    stream, tally = Stream(uuid4().hex[:8]), Tally()
    readable = 0
    async with Api(where, 256) as writer, Api(where, 256, also_url) as reader:

        async def once(number: int) -> None:
            nonlocal readable
            answer = await writer.post(PATH, stream.one(number))
            if answer.status not in (200, 201):
                tally.fail(f"POST answered {answer.status}")
                return
            tally.seconds.append(answer.seconds)
            tally.items += 1
            wrote = answer.document
            found = await reader.get(f"{PATH}/{wrote['guid']}")
            if found.status == 200 and found.document["description"] == wrote["description"]:
                readable += 1
            else:
                tally.fail(f"GET after POST answered {found.status}")

        await open_loop(min(rate, 10), 2, lambda number: once(10**6 + number))
        readable = 0
        tally = Tally(began=time.perf_counter())
        await open_loop(rate, seconds, once)
        tally.ended = time.perf_counter()
    return tally, readable


def _limits(where: Place, report: Report, median: float) -> None:
    """The same rows in the same PostgreSQL, without anything around it."""
    with scratch(where, RAW_ASSETS) as url:
        upsert = percentile(raw.single_upserts(url, 5), 0.5)
        values = _observations()
        append = percentile(raw.appends(url, values, 5), 0.5)
    report.limit("single-row upsert and commit, p50", upsert * 1e3, "ms", median * 1e3)
    report.limit("bare append to the log, p50", append * 1e3, "ms", median * 1e3)


def _observations() -> list[str]:
    stream = Stream("raw", 1000)
    return [stream.one(number).decode() for number in range(1000)]
