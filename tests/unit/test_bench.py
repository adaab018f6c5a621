"""What benches rest on: the same assets each time, honest figures, a model of promises."""

import asyncio
import json
from pathlib import Path

import pytest

from lily.cli.bench.estate import FAMILY, Stream, asset, assets
from lily.cli.bench.model import Writes
from lily.cli.bench.place import own_on
from lily.cli.bench.report import Report, percentile
from lily.cli.bench.stream import Plan
from lily.cli.bench.wire import Wire
from lily.cli.failures import Failure


def test_an_estate_is_the_same_each_time_and_never_repeats_itself() -> None:
    first = list(assets(2_000))
    assert first == list(assets(2_000))
    assert len({document["qualified_name"] for document in first}) == 2_000
    assert 800 < len(json.dumps(asset(0))) < 1_400


def test_nine_of_ten_assets_are_fields_of_the_tenth() -> None:
    parent = asset(FAMILY)["qualified_name"]
    fields = [asset(FAMILY + place)["qualified_name"] for place in range(1, FAMILY)]
    assert all(name.startswith(f"{parent}#") for name in fields)


def test_a_second_edition_changes_its_asset_and_not_its_name() -> None:
    stream = Stream("x", 10)
    first, second = json.loads(stream.one(123, 0)), json.loads(stream.one(123, 1))
    assert first["qualified_name"] == second["qualified_name"]
    assert first["description"] != second["description"]
    assert json.loads(stream.many([(1, 0), (2, 1)]))[1]["qualified_name"].endswith("_x_2")


@pytest.mark.parametrize("size", [1, 100])
def test_half_of_a_stream_is_new_and_half_changes_what_was_answered(size: int) -> None:
    plan, sent = Plan(size, lanes=2), list[tuple[int, int]]()
    for _ in range(2_000):
        sent += plan.next()
    assert len(set(sent)) == len(sent)
    changed = sum(edition for _, edition in sent)
    assert 0.48 < changed / len(sent) <= 0.5
    places = {number: place for place, (number, edition) in enumerate(sent) if edition == 0}
    late = [place - places[number] for place, (number, edition) in enumerate(sent) if edition]
    assert min(late) >= size * 2


def test_a_promise_must_be_kept_and_a_doubt_may_be() -> None:
    writes = Writes()
    for _ in range(4):
        writes.next()
    writes.promise(2, "guid")
    writes.doubt(3)
    assert writes.judge("edition 2.") is None
    assert writes.judge("edition 3.") is None
    assert writes.judge("edition 1.") is not None
    assert writes.judge("edition 4.") is not None
    assert writes.judge(None) is not None


def test_a_report_says_whether_targets_are_met() -> None:
    report = Report("x")
    report.latency("request", [0.1] * 95 + [0.2] * 5, p50=150, p95=150)
    assert [figure.met for figure in report.figures] == [True, False]
    assert not report.met
    report.limit("raw", 200, "/s", 50)
    assert report.limits[0].reached == 0.25
    assert percentile([], 0.5) == 0


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the first request of a connection and hangs up on the second."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


def test_the_wire_keeps_connections_and_tells_when_they_break() -> None:
    async def talk() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        wire = Wire(f"http://127.0.0.1:{port}", 1)
        assert await wire.request("POST", "/", "", b"hello") == (201, b"hello")
        with pytest.raises(OSError, match="closed"):
            await wire.request("GET", "/", "", None)
        wire.close()
        server.close()
        await server.wait_closed()

    asyncio.run(talk())


def test_kafka_without_its_jars_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LILY_JARS", str(tmp_path))
    with pytest.raises(Failure, match="make jars"), own_on("kafka"):
        pass
