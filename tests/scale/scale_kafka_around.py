"""What stands around the pipeline while Kafka is the log: lag, the lake, and moves of tenants."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from signal import SIGKILL
from threading import Event
from time import sleep
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from lily.cli.app import build
from lily.cli.broker import CannotFetch, broker
from lily.lake import read
from lily.log.kafka import ends
from lily.pipeline.archive import CellArchive
from lily.store import feed, moving, positions
from lily.store.embedded import Server
from lily.telemetry import exposition
from lily.types import Tenant
from lily.wiring import kafka_lag
from lily.workers import lag, move
from tests.callers import logged_in, tenant_with_admin
from tests.flow.people import Person, admin
from tests.scale.kafka_lily import KafkaLily, fetch_jars, kafka_lily, until
from tests.scale.kafka_load import Hand, Said, cluster, look, post, writing


@pytest.fixture(scope="module")
def lily(
    server: Server, missing: Callable[[str], NoReturn], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaLily]:
    fetch_jars(missing)
    home = tmp_path_factory.mktemp("around")
    try:
        with (
            broker() as node,
            kafka_lily(server, home, f"kafka://{node.address}", "around", lake="file:") as made,
        ):
            yield made
    except CannotFetch as cause:
        missing(str(cause))


@pytest.fixture
def person(lily: KafkaLily) -> Person:
    return admin(lily.core, lily.one)


def test_lag_tells_what_waits_in_kafka_since_when_and_of_whom(
    lily: KafkaLily, person: Person
) -> None:
    other = admin(lily.core, lily.one)
    assert post(person, "t").status_code == 201
    shown = _lanes(person)
    assert shown["core"]["own"]["waiting"] == 0
    assert shown["core"]["own"]["oldest_waiting_seconds"] is None
    assert 0 <= shown["core"]["own"]["newest_applied_seconds"] < 600
    assert 0 <= shown["core"]["all"]["newest_applied_seconds"] < 600

    lily.pipeline.end()
    for number in range(3):
        assert post(person, f"t#c{number}", Prefer="respond-async").status_code == 202
    for name in ("t#c1", "t"):
        assert post(other, name, Prefer="respond-async").status_code == 202
    Hand(lily, person).write("t#c4")
    shown = _lanes(person)
    assert (shown["fields"]["own"]["waiting"], shown["fields"]["all"]["waiting"]) == (4, 5)
    assert (shown["core"]["own"]["waiting"], shown["core"]["all"]["waiting"]) == (0, 1)
    assert shown["core"]["own"]["oldest_waiting_seconds"] is None
    oldest = shown["fields"]["own"]["oldest_waiting_seconds"]
    assert 0 < oldest < 600
    assert _lanes(person)["fields"]["own"]["oldest_waiting_seconds"] > oldest
    fresh = _get(person, "/api/v1/metadata/t/freshness")
    assert (fresh["fields_waiting"], fresh["complete"]) == (4, False)
    assert _get(person, "/api/v1/metadata/t/children")["fields_waiting"] == 4
    told = lag.work(lily.system, set(), kafka_lag(lily.settings))
    said = exposition().decode()
    assert 'lily_log_lag{cell="home",lane="fields"} 5.0' in said
    assert f'lily_tenant_waiting{{lane="fields",tenant="{person.tenant.name}"}} 4.0' in said
    assert f'lily_tenant_waiting{{lane="core",tenant="{other.tenant.name}"}} 1.0' in said
    assert "5 observations wait in lane fields of home" in _doctor(lily)

    lily.pipeline.start()
    until(lambda: _get(person, "/api/v1/metadata/t/freshness")["complete"])
    assert len(_get(person, "/api/v1/metadata/t/children")["items"]) == 4
    until(lambda: _lanes(person)["core"]["all"]["waiting"] == 0)
    lag.work(lily.system, told, kafka_lag(lily.settings))
    said = exposition().decode()
    assert 'lily_log_lag_seconds{cell="home",lane="core"} 0.0' in said
    assert f'lily_tenant_waiting{{lane="fields",tenant="{person.tenant.name}"}} 0.0' in said


def test_the_lake_holds_what_came_through_kafka_once(lily: KafkaLily, person: Person) -> None:
    for number in range(5):
        assert post(person, f"raw/{number}").status_code == 201
        assert post(person, f"raw/{number}#c", description=f"{number}").status_code == 201
    Hand(lily, person).write("raw/by-hand")
    until(lambda: look(person, "raw/by-hand").status_code == 200)
    archive = CellArchive(lily.system, "home")
    try:
        archive.catch_up()
        found = _observations(archive, person)
        assert sorted(row[3] for row in found) == sorted(
            [*(f"raw/{n}" for n in range(5)), *(f"raw/{n}#c" for n in range(5)), "raw/by-hand"]
        )
        assert all(part > 0 for _, part, *_ in found)
        assert {json.loads(row[4])["tenant"] for row in found} == {person.tenant.number}
        archive.catch_up()
    finally:
        archive.close()
    assert post(person, "raw/later").status_code == 201
    again = CellArchive(lily.system, "home")  # another process goes on where the table says
    try:
        again.catch_up()
        rows = _observations(again, person)
        assert len({row[:3] for row in rows}) == len(rows) == len(found) + 1
        with lily.system.database.cell("home") as conn:
            parts = positions.parts(conn)
        state = read.state(again.lake, "observations")
        assert state is not None
        assert {f"{lane}/{part}": at for (lane, part), at in parts.items()}.items() <= (
            state.position.items()
        )
    finally:
        again.close()
    shown = {each["table"]: each for each in _get(person, "/api/v1/lake")["items"]}
    assert shown["observations"]["rows"] == len(rows)


@pytest.mark.timeout(600)
def test_a_tenant_moves_under_load_and_nothing_is_lost_or_doubled(
    lily: KafkaLily, person: Person, server: Server
) -> None:
    other, twin = admin(lily.core, lily.one), Person(person.tenant, lily.other, person.headers)
    hand, own, buried = Hand(lily, person), server.create_database("around_own"), _buried(lily)
    said = dict([hand.write("first")])
    astray: list[str] = []
    killed = False
    until(lambda: look(person, "first").status_code == 200)
    with _carrying(lily), writing(person, twin, other) as told:
        for url in (own, None, own):
            for each in told:
                each.grows()
            left = lily.core.database.url_of(_now(lily, person).cell)
            for step in _moving(lily, person, url):
                if step == "opening" and url is None and not killed:
                    killed = True  # while records of the tenant go round
                    lily.pipeline.end(SIGKILL)
                    lily.pipeline.start()
                name = f"hand/{len(astray)}"
                said |= dict([hand.write(name), hand.write(f"{name}#column")])
                astray.append(hand.write(f"{name}#astray", "core")[1].name)
                assert look(person, "first").status_code == 200
            assert _left(left, person.tenant) == {}
        for each in told:
            each.grows()
    mine, others = told[:2], told[2]
    assert others.refused == []
    for each in mine:
        assert {status for status, _ in each.refused} == {503}
        assert all((after or "").isdigit() for _, after in each.refused)
        assert each.spells == 3
        said |= each.acknowledged
    _is_whole(lily, person, said, astray)
    _is_whole(lily, other, others.acknowledged, [])
    assert _left(lily.core.database.url_of("home"), person.tenant) == {}
    assert _buried(lily) == buried


@contextmanager
def _carrying(lily: KafkaLily) -> Iterator[None]:
    """As the workers do it."""
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(move.run, lily.system, stop)
        try:
            yield
        finally:
            stop.set()
    worker.result()


def _moving(lily: KafkaLily, person: Person, url: str | None) -> Iterator[str]:
    """To a database of its own, or to the shared one: tells the step until the tenant is there."""
    headers = logged_in(lily.one, tenant_with_admin(lily.core, platform=True))
    path = f"/api/v1/tenants/{person.tenant.name}/move"
    body = {"to": "dedicated", "database_url": url} if url else {"to": "pooled"}
    begun = lily.one.post(path, json=body, headers=headers)
    assert begun.status_code == 202, begun.text
    while (answer := lily.one.get(path, headers=headers)).status_code == 200:
        step = answer.json()["step"]
        assert step not in ("aborting", "failed"), answer.text
        yield step
        sleep(0.2)
    assert answer.status_code == 404, answer.text
    now = _now(lily, person)
    assert (now.isolation, now.state) == (body["to"], "active")


def _is_whole(lily: KafkaLily, person: Person, said: dict[str, Said], astray: list[str]) -> None:
    """What was said is there and nothing else, each told of once, in a chain without a break."""
    tenant = _now(lily, person)
    wanted = {name: (description, cause) for cause, (name, description) in said.items()}
    with moving.owner(lily.core.database.url_of(tenant.cell)) as conn:

        def found() -> dict[str, tuple[str, str]]:
            ask = "SELECT qualified_name, description, cause FROM asset WHERE tenant = %s"
            return {name: (told, cause) for name, told, cause in conn.execute(ask, [tenant.number])}

        with suppress(AssertionError):  # the next line tells more
            until(lambda: found() == wanted, 90)
        assert found() == wanted
        ask = "SELECT key FROM dead_letter WHERE tenant = %s"
        until(lambda: len(conn.execute(ask, [tenant.number]).fetchall()) >= len(astray), 90)
        assert sorted(key for (key,) in conn.execute(ask, [tenant.number])) == sorted(astray)
    with lily.core.database.unit(tenant) as unit:
        kinds = ["AssetCreated", "AssetChanged"]
        causes = Counter(link.cause for link in feed.after(unit, 0, 100_000, kinds=kinds))
        assert feed.check(unit) is None
    assert causes == Counter(cause for cause, (name, _) in said.items() if "#" not in name)


def _left(url: str, tenant: Tenant) -> dict[str, int]:
    """How many rows of somebody each table of a database has."""
    with moving.owner(url) as conn:
        names = [*moving.tables(conn), "log"]
        found = moving.state(conn, names, tenant.number)
    return {name: table.rows for name, table in found.items() if table.rows}


def _now(lily: KafkaLily, person: Person) -> Tenant:
    return lily.core.database.tenant(person.tenant.number)


def _buried(lily: KafkaLily) -> int:
    """How many records belonged to nobody known."""
    kafka = cluster(lily)
    return sum(ends(kafka, [(kafka.dead, part) for part in range(kafka.partitions)]).values())


def _observations(archive: CellArchive, person: Person) -> list[tuple[Any, ...]]:
    ask = 'SELECT lane, part, "offset", key, value FROM observations'
    return read.query(archive.lake, ask, person.tenant.number).rows


def _get(person: Person, path: str) -> dict[str, Any]:
    answer = person.client.get(path, headers=person.headers, timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _lanes(person: Person) -> dict[str, dict[str, Any]]:
    return {each["lane"]: each for each in _get(person, "/api/v1/lag")["lanes"]}


def _doctor(lily: KafkaLily) -> str:
    chosen = lily.settings
    given = {"LILY_LOG": chosen.log, "LILY_DATABASE": chosen.database}
    line = ["doctor", "--home", str(chosen.home), "--json"]
    return CliRunner().invoke(build(), line, env=given).output
