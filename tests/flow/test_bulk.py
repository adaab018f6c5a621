"""Files of assets, through the API, the spool and Spark into the store."""

import csv
import gzip
import io
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

import msgspec
import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from lily.cli.bench import estate
from lily.lake import read
from lily.lake.tables import OBSERVATIONS
from lily.pipeline.archive import CellArchive
from lily.store import feed
from lily.store.embedded import Server
from lily.wiring import core as build_core
from tests.flow.bulk import (
    PATH,
    PATIENCE,
    Bulk,
    bulk_lily,
    facts_of,
    finished,
    loaded,
    send,
    state_of,
    status,
)
from tests.flow.people import Person

COUNT = 1_000
MANY = 10_000


@pytest.fixture(scope="module")
def lily(
    server: Server, spark_master: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bulk]:
    with bulk_lily(server, tmp_path_factory.mktemp("bulk"), spark=spark_master) as running:
        running.start()
        yield running


def documents(count: int = COUNT) -> list[dict[str, Any]]:
    return [estate.asset(number) for number in range(count)]


def ndjson(found: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in found)


def table(found: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    keys = sorted({key for each in found for key in each["metadata"]})
    names = ["qualified_name", "asset_name", "asset_type", "data_source", "asset_owner",
             "description", "tags", "business_terms"]  # fmt: skip
    rows = []
    for each in found:
        row = [each.get(name) for name in names[:6]]
        row += [each.get("tags"), each.get("business_terms")]
        rows.append(row + [each["metadata"].get(key) for key in keys])
    return [*names, *(f"metadata.{key}" for key in keys)], rows


def as_csv(found: list[dict[str, Any]]) -> bytes:
    header, rows = table(found)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(header)
    for row in rows:
        cells = [";".join(c) if isinstance(c, list) else c for c in row]
        writer.writerow([str(c).lower() if isinstance(c, bool) else c for c in cells])
    return out.getvalue().encode()


def as_xlsx(found: list[dict[str, Any]]) -> bytes:
    header, rows = table(found)
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("assets")
    sheet.append(header)
    for row in rows:
        sheet.append([json.dumps(c) if isinstance(c, list) else c for c in row])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def as_xml(found: list[dict[str, Any]]) -> bytes:
    parts = ["<?xml version='1.0'?>\n<assets>\n"]
    for each in found:
        inner = "".join(element(name, value) for name, value in each.items())
        parts.append(f"<asset>{inner}</asset>\n")
    return ("".join(parts) + "</assets>").encode()


def element(name: str, value: Any) -> str:
    if isinstance(value, dict):
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}
        value = "".join(f'<entry key="{k}">{escape(v)}</entry>' for k, v in texts.items())
    elif isinstance(value, list):
        value = "".join(f"<item>{escape(v)}</item>" for v in value)
    else:
        value = escape(value)
    return f"<{name}>{value}</{name}>"


def as_parquet(found: list[dict[str, Any]]) -> bytes:
    header, rows = table(found)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def test_six_formats_load_the_same_state(lily: Bulk) -> None:
    found = documents(MANY)
    bodies = {
        "a.ndjson": ndjson(found),
        "a.json": json.dumps(found, indent=1).encode(),
        "a.csv": as_csv(found),
        "a.xlsx": as_xlsx(found),
        "a.xml": as_xml(found),
        "a.parquet": as_parquet(found),
    }
    assert_same(lily, bodies, MANY)


def test_packed_files_load_the_same_state(lily: Bulk) -> None:
    found = documents()
    plain = ndjson(found)
    bodies = {
        "a.ndjson": plain,
        "a.ndjson.gz": gzip.compress(plain[:5000]) + gzip.compress(plain[5000:]),
        "a.csv.zst": zstandard.compress(as_csv(found)),
    }
    assert_same(lily, bodies, COUNT)


def assert_same(lily: Bulk, bodies: dict[str, bytes], count: int) -> None:
    people = {name: lily.person() for name in bodies}
    jobs = {name: send(people[name], body, name)["job_id"] for name, body in bodies.items()}
    states, facts = {}, {}
    for name, job in jobs.items():
        done = finished(people[name], job)
        assert done["state"] == "succeeded", (name, done)
        assert done["counts"] == {
            "read": count, "accepted": count, "rejected": 0, "created": count, "updated": 0,
            "unchanged": 0,
        }, (name, done)  # fmt: skip
        states[name] = state_of(lily.core, people[name].tenant)
        facts[name] = facts_of(lily.core, people[name].tenant)
        _until(lambda job=job: not list((lily.settings.home / "spool").glob(f"{job}*")))
    assert sum(number for _, number, _ in states["a.ndjson"]) == count
    assert len(set(map(repr, states.values()))) == 1, states
    assert len(set(map(repr, facts.values()))) == 1, facts


BAD = sorted({(number * 263) % MANY for number in range(1, 38)})
BAD_JSON = (b'{"qualified_name": 5}', b"{nonsense", b'{"asset_type": "table"}', b"\xff\xfe", b"[]")
BAD_CSV = (
    b"n" + 60 * b"," + b"a cell too many", b",,table", b"n,,,,,,[not a list",
    b"n,," + 300 * b"x", b'n,,,,,,"[""a"", """"]"',
)  # fmt: skip


def with_bad_lines(lines: list[bytes], bad: Sequence[bytes], first: int) -> bytes:
    for place, number in enumerate(BAD):
        lines[number + first] = bad[place % len(bad)]
    return b"\n".join(lines)


def test_bad_lines_are_refused_by_number_and_the_rest_is_stored(lily: Bulk) -> None:
    assert len(BAD) == 37
    found = documents(MANY)
    plain, table = ndjson(found).splitlines(), as_csv(found).splitlines()
    bodies = {
        "a.ndjson": with_bad_lines(plain, BAD_JSON, 0),
        "a.csv": with_bad_lines(table, BAD_CSV, 1),  # behind its header
    }
    people = {name: lily.person() for name in bodies}
    jobs = {name: send(people[name], body, name)["job_id"] for name, body in bodies.items()}
    for name, first in (("a.ndjson", 1), ("a.csv", 2)):
        who, done = people[name], finished(people[name], jobs[name])
        assert done["state"] == "partial"
        assert done["counts"]["rejected"] == 37 and done["counts"]["created"] == 9_963
        assert len(done["errors"]) == 10
        refused = all_of(who, done["errors_url"], 10)
        assert [each["line"] for each in refused] == [number + first for number in BAD]
        assert all(each["reason"] for each in refused)
    calm, rough = (state_of(lily.core, people[name].tenant) for name in bodies)
    assert calm == rough and sum(count for _, count, _ in calm) == 9_963


def all_of(who: Person, path: str, limit: int, **query: Any) -> list[dict[str, Any]]:
    """Every item, page by page."""
    found: list[dict[str, Any]] = []
    after = None
    while True:
        asked = {**query, "limit": limit} | ({"after": after} if after else {})
        page = who.client.get(path, params=asked, headers=who.headers).json()
        found += page["items"]
        after = page["next"]
        if after is None:
            return found


def test_the_same_file_twice_changes_nothing(lily: Bulk) -> None:
    who = lily.person()
    body = ndjson(documents())
    loaded(who, body)
    before = state_of(lily.core, who.tenant), facts_of(lily.core, who.tenant)
    again = loaded(who, body)
    assert again["counts"]["unchanged"] == COUNT and again["counts"]["created"] == 0
    assert (state_of(lily.core, who.tenant), facts_of(lily.core, who.tenant)) == before


def test_lines_and_assets_of_a_file_are_in_the_lake_once(lily: Bulk) -> None:
    who = lily.person()
    found = documents()
    lines = ndjson(found) + b"{nonsense\n"
    lily.running()
    job = loaded(who, lines)["job_id"]
    _until(lambda: not list((lily.settings.home / "spool").glob(f"{job}*")))
    system = build_core(lily.settings, "lily_system")
    archive = CellArchive(system, "home")
    archive.catch_up(latest=True)
    number = who.tenant.number
    rows = read.query(archive.lake, 'SELECT lane, "offset", key, value FROM observations', number)
    said = {key: msgspec.json.decode(value) for _, _, key, value in rows.rows}
    assert len(rows.rows) == len(said) == COUNT + 1
    assert len({(lane, offset) for lane, offset, _, _ in rows.rows}) == COUNT + 1
    assert (said[""]["line"], said[""]["text"]) == (COUNT + 1, "{nonsense")
    assert all(said[each["qualified_name"]]["document"] == each for each in found)
    copies = read.query(
        archive.lake, f"SELECT {', '.join(COPIED[:-1])}, position FROM assets", number
    )
    with lily.core.database.unit(who.tenant) as unit:
        assets = f"SELECT {', '.join(COPIED)} FROM asset WHERE tenant = %s"
        assert sorted(copies.rows) == sorted(unit.conn.execute(assets, [number]).fetchall())
    assert archive.lake.table(OBSERVATIONS).properties.get(f"lily.bulk.{job}") is None
    archive.close()
    system.close()


COPIED = ("qualified_name", "asset_type", "version", "description", "tags", "lane", "feed_position")


def test_a_later_line_of_the_same_asset_wins(lily: Bulk) -> None:
    who = lily.person()
    body = ndjson([{"asset_id": "a", "description": str(number)} for number in range(50)])
    assert loaded(who, body)["state"] == "succeeded"
    asset = who.client.get("/api/v1/metadata/a", headers=who.headers).json()
    assert asset["description"] == "49"


def test_a_file_that_breaks_off_loads_what_is_there_and_says_so(lily: Bulk) -> None:
    who = lily.person()
    body = ndjson(documents(100))
    done = loaded(who, body[:-40])
    assert (done["state"], done["counts"]["created"]) == ("partial", 99)
    assert done["errors"][0]["line"] == 100
    cut = loaded(lily.person(), as_xml(documents(100))[:-500], "a.xml")
    assert cut["state"] == "partial" and "cannot be read on" in cut["errors"][0]["reason"]
    short = loaded(lily.person(), json.dumps(documents(100)).encode()[:-300], "a.json")
    assert short["state"] == "partial" and short["counts"]["created"] >= 98


def test_a_killed_job_goes_on_where_it_stopped(lily: Bulk) -> None:
    body = ndjson([estate.asset(number) for number in range(60_000)])
    calm, rough = lily.person(), lily.person()
    lily.running()
    assert loaded(calm, body)["counts"]["created"] == 60_000
    job = send(rough, body)["job_id"]
    for stored in (1, 20_000):
        lily.running()
        _until(lambda least=stored: status(rough, job)["counts"]["read"] >= least)
        lily.kill()
        assert status(rough, job)["counts"]["read"] < 60_000
    lily.running()
    done = finished(rough, job)
    assert done["state"] == "succeeded", done
    assert done["counts"]["created"] == 60_000 == done["counts"]["read"]
    assert state_of(lily.core, rough.tenant) == state_of(lily.core, calm.tenant)
    assert facts_of(lily.core, rough.tenant) == facts_of(lily.core, calm.tenant)
    with lily.core.database.unit(rough.tenant) as unit:
        assert feed.check(unit) is None


def test_a_cancelled_job_stops_and_can_be_resumed(lily: Bulk) -> None:
    who = lily.person()
    lily.running()
    job = send(who, ndjson([estate.asset(number) for number in range(60_000)]))["job_id"]
    _until(lambda: status(who, job)["counts"]["read"] > 0)
    answer = who.client.post(f"{PATH}/{job}/cancel", headers=who.headers)
    assert answer.status_code == 200 and answer.json()["state"] == "cancelled"
    assert who.client.post(f"{PATH}/{job}/resume", headers=who.headers).status_code == 200
    done = finished(who, job)
    assert done["state"] == "succeeded" and done["counts"]["created"] == 60_000
    assert who.client.post(f"{PATH}/{job}/resume", headers=who.headers).status_code == 409
    assert who.client.post(f"{PATH}/{job}/cancel", headers=who.headers).status_code == 409


def test_a_table_of_100000_columns_loads_is_found_and_pages_to_its_end(lily: Bulk) -> None:
    who, width = lily.person(), 100_000
    name = "db/wide"
    found = [{"qualified_name": name, "asset_type": "table"}]
    found += [{"qualified_name": f"{name}#c{n}", "asset_type": "column"} for n in range(width)]
    lily.running()
    assert loaded(who, ndjson(found))["counts"]["created"] == width + 1
    guid = who.client.get("/api/v1/metadata/db%2Fwide", headers=who.headers).json()["guid"]
    children = f"/api/v1/metadata/{guid}/children"
    names = [each["qualified_name"] for each in all_of(who, children, 1000)]
    assert len(names) == len(set(names)) == width
    hits = all_of(who, "/api/v1/metadata/search", 10, q="c99999")
    assert [hit["qualified_name"] for hit in hits] == [f"{name}#c99999"]
    hits = all_of(who, children, 10, q="C9999")
    assert {hit["asset_name"] for hit in hits} == {"c9999", *(f"c9999{n}" for n in range(10))}


def _until(holds: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
