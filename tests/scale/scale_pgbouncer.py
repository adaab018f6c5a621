"""The corridor through PgBouncer in transaction mode: API, pipeline and workers."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any, NoReturn

import psycopg
import pytest
from httpx import Response

from lily.store.database import Database
from lily.store.embedded import Server
from lily.workers.main import run
from tests.flow.people import Person, admin
from tests.live import Live, live_lily
from tests.scale.bouncer import bouncer, counted, find
from tests.scale.kafka_lily import until

NAME = "bounced"


@pytest.fixture(scope="module")
def port(
    server: Server, missing: Callable[[str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    with bouncer(find(missing), server, tmp_path_factory.mktemp("bouncer")) as running:
        yield running


@pytest.fixture(scope="module")
def lily(port: int, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    home: Path = tmp_path_factory.mktemp("bounced")
    through = f"postgresql://postgres@127.0.0.1:{port}/{NAME}"
    direct = server.url_of(NAME)
    with live_lily(
        server, home, NAME, database=through, database_direct=direct, spark="local[2]"
    ) as made:
        stop = Event()
        workers = Thread(target=run, args=(made.system, stop))
        workers.start()
        yield made
        stop.set()
        workers.join(60)


def test_what_one_process_writes_another_reads_and_nobody_sees_others(
    lily: Live, port: int
) -> None:
    people = [admin(lily.core, lily.one) for _ in range(3)]
    before = counted(port).get(NAME, 0)

    def write_and_read(number: int) -> tuple[int, str, int]:
        own, stranger = people[number % 3], people[(number + 1) % 3]
        made = _send(own, "POST", "/api/v1/metadata", _asset(f"shop/{number}"))
        path = f"/api/v1/metadata/{made.json()['guid']}"
        read = lily.other.get(path, headers=own.headers)
        asked = lily.other.get(path, headers=stranger.headers)
        return made.status_code, read.json()["qualified_name"], asked.status_code

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(write_and_read, range(120)))
    assert found == [(201, f"shop/{number}", 404) for number in range(120)]
    for turn, person in enumerate(people):
        hits = _send(person, "GET", "/api/v1/metadata/search?q=shop&limit=100").json()["items"]
        assert len(hits) == 40, turn
    assert counted(port)[NAME] > before + 100


def test_edits_and_tasks_of_the_workers_go_through(lily: Live) -> None:
    person = admin(lily.core, lily.one)
    wish = {"name": "mine", "match": {"facts": ["AssetChanged"]}}
    assert _send(person, "POST", "/api/v1/subscriptions", wish).status_code == 201
    assert _send(person, "POST", "/api/v1/metadata", _asset("a")).status_code == 201
    edit = {"description": "by a person"}
    assert _send(person, "PATCH", "/api/v1/metadata/a", edit).status_code == 200
    assert _send(person, "GET", "/api/v1/metadata/a").json()["description"] == "by a person"
    until(lambda: _send(person, "GET", "/api/v1/notices").json()["items"])


def test_nothing_that_is_set_stays_on_a_connection_for_the_next(lily: Live, port: int) -> None:
    url = f"postgresql://postgres@127.0.0.1:{port}/{NAME}"
    for _ in range(20):
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as conn:
            row = conn.execute(
                "SELECT current_user, current_setting('lily.tenant', true)"
            ).fetchone()
            assert row is not None and row[0] == "postgres" and not row[1]


def test_past_the_pooler_rights_are_as_few(lily: Live) -> None:
    database: Database = lily.core.database
    with database.home() as conn:
        row = conn.execute("SELECT current_user, current_setting('search_path')").fetchone()
        assert row == ("lily_app", "lily, pg_temp")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), database.home() as conn:
        conn.execute("SELECT * FROM log")


def _asset(name: str) -> dict[str, Any]:
    return {"qualified_name": name, "asset_type": "table"}


def _send(person: Person, method: str, path: str, body: Any = None) -> Response:
    return person.client.request(method, path, json=body, headers=person.headers, timeout=30)
