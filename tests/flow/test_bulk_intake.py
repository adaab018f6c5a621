"""Taking a file in: what is refused before anything is stored, and that memory stays flat."""

import gzip
import io
import json
import os
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from uuid import uuid4

import openpyxl
import pytest

from lily.cli.bulk import files_in, send_files, told
from lily.cli.client import Client as CliClient
from lily.cli.failures import Failure
from lily.formats.columns import TEMPLATE
from lily.store.embedded import Server
from lily.store.spool import Cutter, Folder, parts_of
from tests.flow.bulk import PATH, Bulk, bulk_lily, send, status
from tests.flow.people import Person, with_role

LINE = b'{"asset_id": "a", "asset_type": "table"}\n'


@pytest.fixture(scope="module")
def lily(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bulk]:
    with bulk_lily(server, tmp_path_factory.mktemp("intake")) as running:
        yield running


@pytest.fixture
def who(lily: Bulk) -> Person:
    return lily.person()


def spooled(lily: Bulk) -> set[str]:
    return {path.name for path in (lily.settings.home / "spool").glob("*")}


def refused(who: Person, body: bytes, name: str = "", **headers: str) -> tuple[int, str]:
    answer = who.client.post(
        PATH, params={"name": name}, content=body, headers={**who.headers, **headers}
    )
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["detail"]


@pytest.mark.parametrize(
    ("name", "body", "code", "words"),
    [
        ("a.csv", b"name,tags\nx,y\n", 422, "'name' is not known; call it metadata.name"),
        ("a.xml", b"<things/>", 422, "must be <assets>"),
        ("a.xlsx", b"PK nothing", 400, "not an XLSX workbook"),
        ("a.parquet", b"nothing", 400, "not Parquet"),
        ("a.json", b"5", 400, "not a JSON array"),
        ("a.ndjson", b"[{}]", 400, "JSON array"),
        ("a.ndjson", b"", 400, "empty"),
        ("a.ndjson.gz", b"no", 400, "not valid gzip"),
        ("a.ndjson.gz", gzip.compress(LINE * 50, mtime=0)[:-12], 400, "ends too early"),
        ("a.ndjson.zst", b"no zstd at all", 400, "not valid zstd"),
        ("a.pdf", LINE, 422, "is not known"),
        ("", LINE, 422, "is not known"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_is_stored(
    lily: Bulk, who: Person, name: str, body: bytes, code: int, words: str
) -> None:
    before = spooled(lily)
    found, detail = refused(who, body, name)
    assert found == code and words in detail
    assert spooled(lily) == before
    jobs = who.client.get(PATH, headers=who.headers).json()["items"]
    assert all(job["state"] == "failed" and job["reason"] for job in jobs)
    for job in jobs:
        answer = who.client.post(f"{PATH}/{job['job_id']}/resume", headers=who.headers)
        assert answer.status_code == 409


def test_a_job_waits_until_somebody_works_on_it(who: Person) -> None:
    job = send(who, LINE * 3, **{"Content-Type": "application/x-ndjson"})["job_id"]
    found = status(who, job)
    assert (found["state"], found["stage"], found["lines"]) == ("queued", "waiting", 3)
    assert found["bytes"] == len(LINE) * 3 and found["counts"]["read"] == 0
    assert found["errors_url"] == f"{PATH}/status/{job}/errors"
    ended = who.client.post(f"{PATH}/{job}/cancel", headers=who.headers).json()
    assert ended["state"] == "cancelled" and ended["finished_at"]


def test_jobs_are_listed_newest_first_and_only_ones_own(lily: Bulk, who: Person) -> None:
    made = [send(who, LINE, name=f"{number}.ndjson")["job_id"] for number in range(3)]
    page = who.client.get(PATH, params={"limit": 2}, headers=who.headers).json()
    assert [job["job_id"] for job in page["items"]] == made[:0:-1]
    query = {"limit": 2, "after": page["next"]}
    rest = who.client.get(PATH, params=query, headers=who.headers).json()
    assert [job["job_id"] for job in rest["items"]] == made[:1] and rest["next"] is None
    stranger = lily.person()
    for request in (f"status/{made[0]}", f"status/{made[0]}/errors", f"status/{uuid4()}"):
        answer = who.client.get(f"{PATH}/{request}", headers=stranger.headers)
        assert answer.status_code == 404
    answer = who.client.post(f"{PATH}/{made[0]}/cancel", headers=stranger.headers)
    assert answer.status_code == 404


def test_the_same_idempotency_key_is_the_same_job(who: Person) -> None:
    first = send(who, LINE, **{"Idempotency-Key": "k1"})
    again = send(who, LINE, **{"Idempotency-Key": "k1"})
    other = send(who, LINE, **{"Idempotency-Key": "k2"})
    assert first["job_id"] == again["job_id"] != other["job_id"]


def test_who_may_not_ingest_may_not_send_files(lily: Bulk, who: Person) -> None:
    viewer = with_role(lily.core, who, "viewer")
    answer = who.client.post(PATH, params={"name": "a.csv"}, content=b"x", headers=viewer.headers)
    assert answer.status_code == 403


def test_the_templates_can_be_loaded_as_they_are(who: Person) -> None:
    text = who.client.get(f"{PATH}/template.csv", headers=who.headers)
    assert text.text.splitlines()[0] == ",".join(TEMPLATE)
    book = who.client.get(f"{PATH}/template.xlsx", headers=who.headers)
    sheet = openpyxl.load_workbook(io.BytesIO(book.content))["assets"]
    assert [cell.value for cell in sheet[1]] == list(TEMPLATE)
    send(who, text.content, "template.csv")
    send(who, book.content, "template.xlsx")


def test_more_than_a_thousand_nested_documents_become_a_job(who: Person) -> None:
    def item(number: int) -> dict[str, Any]:
        asset = {"asset_name": f"n{number}", "asset_type": "table"}
        return {"asset": asset, "metadata_details": {"metadata_key": "k", "metadata_value": number}}

    body = {"metadata": [item(number) for number in range(1001)]}
    answer = who.client.post("/lily/v1/metadata/bulk", json=body, headers=who.headers)
    assert answer.status_code == 202, answer.text
    assert status(who, answer.json()["job_id"])["lines"] == 1001
    body["metadata"][7] = {"asset": {}}
    answer = who.client.post("/lily/v1/metadata/bulk", json=body, headers=who.headers)
    assert answer.status_code == 400 and "metadata[7]" in answer.text


def test_the_command_line_sends_every_file_of_a_folder(who: Person, tmp_path: Path) -> None:
    token = who.headers["Authorization"].removeprefix("Bearer ")
    client = CliClient(str(who.client.base_url), token)
    (tmp_path / "b.csv").write_text("asset_id\nx\n")
    (tmp_path / "a.ndjson.gz").write_bytes(gzip.compress(LINE))
    (tmp_path / "notes.txt").write_text("not an asset")
    paths = files_in(tmp_path)
    assert [path.name for path in paths] == ["a.ndjson.gz", "b.csv"]
    jobs = send_files(client, paths, wait=False, quiet=True)
    assert [job["format"] for job in jobs] == ["ndjson", "csv"]
    assert "queued" in told(jobs[0])
    (tmp_path / "b.csv").write_text("nonsense\nx\n")
    with pytest.raises(Failure, match="call it metadata"):
        send_files(client, paths, wait=False, quiet=True)
    with pytest.raises(Failure, match="ends in"):
        (tmp_path / "empty").mkdir()
        files_in(tmp_path / "empty")


def test_an_upload_that_breaks_off_says_so(lily: Bulk, who: Person) -> None:
    before = spooled(lily)
    url = who.client.base_url
    link = HTTPConnection(url.host, url.port or 80)
    link.putrequest("POST", f"{PATH}?name=a.ndjson")
    for name, value in {**who.headers, "Content-Length": "1000000"}.items():
        link.putheader(name, value)
    link.endheaders(LINE * 10)
    link.close()
    end = time.monotonic() + 10
    while True:
        jobs = who.client.get(PATH, headers=who.headers).json()["items"]
        if jobs and jobs[0]["state"] == "failed":
            break
        assert time.monotonic() < end
        time.sleep(0.02)
    assert "broke off" in jobs[0]["reason"]
    assert spooled(lily) == before


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat_while_a_large_file_streams_in(lily: Bulk, who: Person) -> None:
    line = json.dumps({"asset_id": "x", "description": "y" * 960}).encode() + b"\n"
    block = line * 1000
    highest = 0
    send(who, block)  # what is needed once is there now
    started = resident()

    def body() -> Iterator[bytes]:
        nonlocal highest
        for _ in range(200):
            highest = max(highest, resident())
            yield block

    job = send(who, body(), name="large.ndjson")["job_id"]
    assert status(who, job)["bytes"] == 200 * len(block) > 190_000_000
    assert status(who, job)["lines"] == 200_000
    assert highest - started < 60_000_000
    Folder(lily.settings.home / "spool", job).remove()


@pytest.mark.parametrize("block", [1, 33, 100, 10_000])
def test_parts_end_with_lines_and_know_their_first_one(tmp_path: Path, block: int) -> None:
    cutter = Cutter(tmp_path, lined=False, size=100)
    lines = [b"%d" % number * (number % 7 + 1) for number in range(500)]
    text = b"\n".join(lines)
    for start in range(0, len(text), block):
        cutter.write(text[start : start + block])
    assert cutter.close() == 500
    found: list[bytes] = []
    for number, part in enumerate(parts_of(tmp_path), 1):
        assert part.number == number and part.first == len(found) + 1
        content = Path(part.path).read_bytes()
        assert content.rfind(b"\n", 0, -1) < 99
        found += content.removesuffix(b"\n").split(b"\n")
    assert found == lines
