"""Searches and lineage from a streaming replica; everybody reads what they have written."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest
from httpx import Client

from lily.api.app import create_app
from lily.events.observations import AssetSeen
from lily.settings import load
from lily.store.embedded import BIN, SYSTEM_USER, Server, stop
from lily.store.migrate import migrate
from lily.types import Tenant
from lily.wiring import Core, services
from lily.wiring import core as build_core
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.corridor import Corridor, append
from tests.flow.lineage import join
from tests.serving import serving


class Pair(msgspec.Struct):
    """A primary and its replica, with an API that knows of both."""

    copy: Server
    process: "subprocess.Popen[bytes]"
    core: Core
    corridor: Corridor
    client: Client
    tenant: Tenant
    headers: dict[str, str]

    def say(self, *names: str) -> None:
        append(self.core, self.tenant, *(AssetSeen(qualified_name=name) for name in names))
        self.corridor.run()

    def found(self, q: str, headers: dict[str, str] | None = None) -> int:
        answer = self.client.get(
            "/api/v1/metadata/search", params={"q": q}, headers={**self.headers, **(headers or {})}
        )
        assert answer.status_code == 200, answer.text
        total: int = answer.json()["total"]
        return total

    def hold(self, pause: bool) -> None:
        with psycopg.connect(self.copy.url_of("replicated"), autocommit=True) as conn:
            conn.execute(f"SELECT pg_wal_replay_{'pause' if pause else 'resume'}()")

    def level(self) -> None:
        """Until the replica has everything."""
        url = self.core.database.url_of("home")
        with (
            psycopg.connect(url, autocommit=True) as primary,
            psycopg.connect(self.copy.url_of("replicated"), autocommit=True) as copy,
        ):
            row = primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            assert row is not None
            end = time.monotonic() + 60
            reached = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            while copy.execute(reached, [row[0]]).fetchone() != (True,):
                assert time.monotonic() < end
                time.sleep(0.05)


@pytest.fixture(scope="module")
def pair(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    url = server.create_database("replicated")
    migrate(url)
    folder = Path(tempfile.mkdtemp(prefix="lily-copy-"))
    copy = _copied(server, folder)
    with (folder / "log").open("wb") as output:
        process = copy.run(output.fileno())
    copy.wait(process)
    settings = load(
        home=tmp_path_factory.mktemp("replicated"), database=url, lake="off",
        database_replica=copy.url_of("replicated"),
    )  # fmt: skip
    core, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    corridor, built = Corridor(system), services(core)
    with serving(create_app(built)) as client:
        tenant = tenant_with_admin(core)
        made = Pair(copy, process, core, corridor, client, tenant, bearer(minted(built, tenant)))
        made.level()
        yield made
    corridor.close()
    core.close()
    system.close()
    stop(process)
    shutil.rmtree(folder, ignore_errors=True)


def _copied(server: Server, folder: Path) -> Server:
    """A copy of the whole cluster that follows it."""
    copy = Server(folder / "postgres")
    line = ["-h", str(server.socket), "-U", "postgres", "-X", "stream", "-R", "-c", "fast"]
    who = {"user": SYSTEM_USER, "group": SYSTEM_USER} if os.geteuid() == 0 else {}
    folder.chmod(0o777)
    done = subprocess.run(  # type: ignore[call-overload]
        [str(BIN / "pg_basebackup"), *line, "-D", str(copy.data)],
        capture_output=True, text=True, cwd="/", **who,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    copy.prepare()
    return copy


def test_searches_lineage_and_assets_are_read_from_the_replica(pair: Pair) -> None:
    pair.say("shop.alpha", "shop.beta")
    pair.level()
    old = {**pair.headers, "Lily-Min-Position": "1"}
    asset, edges = "/api/v1/metadata/shop.alpha", "/api/v1/metadata/lineage/shop.alpha"

    def read(headers: dict[str, str]) -> tuple[str | None, int, int]:
        one = pair.client.get(asset, headers=headers).json()
        graph = pair.client.get(edges, headers=headers).json()
        return one["description"], len(graph["edges"]), pair.found("zeta", headers)

    pair.hold(True)
    try:
        append(pair.core, pair.tenant, join("shop.alpha", "shop.beta"))
        pair.corridor.run()
        pair.client.patch(asset, json={"description": "zeta"}, headers=pair.headers)
        assert read(old) == (None, 0, 0)  # as the replica has it
        assert read(pair.headers) == ("zeta", 1, 1)  # as it was written
    finally:
        pair.hold(False)
    pair.level()
    assert read(old) == ("zeta", 1, 1)


def test_a_replica_that_is_behind_is_passed_over(pair: Pair) -> None:
    pair.say("shop.gamma")
    pair.level()
    pair.hold(True)
    try:
        pair.say("shop.delta")
        assert pair.found("delta") == 1  # read your writes, without a word about it
        edited = pair.client.patch(
            "/api/v1/metadata/shop.gamma", json={"description": "epsilon"}, headers=pair.headers
        )
        position = edited.headers["lily-position"]
        assert pair.found("epsilon", {"Lily-Min-Position": position}) == 1
        assert pair.found("epsilon", {"Lily-Min-Position": "1"}) == 0  # who does not mind
        one = pair.client.get(
            "/api/v1/metadata/shop.gamma",
            headers={**pair.headers, "Lily-Min-Position": position},
        )
        assert one.json()["description"] == "epsilon"
        graph = pair.client.get("/api/v1/metadata/lineage/shop.delta", headers=pair.headers)
        assert graph.status_code == 200
    finally:
        pair.hold(False)
    pair.level()
    assert pair.found("epsilon", {"Lily-Min-Position": "1"}) == 1


def test_a_position_that_is_none_is_refused(pair: Pair) -> None:
    asked = {**pair.headers, "Lily-Min-Position": "soon"}
    answer = pair.client.get("/api/v1/metadata/search", headers=asked)
    assert answer.status_code == 422
    assert "lily-min-position" in answer.text


def test_without_its_replica_lily_reads_from_the_database(pair: Pair) -> None:
    pair.say("shop.omega")
    stop(pair.process)
    for _ in range(3):
        answer = pair.client.get(
            "/api/v1/metadata/search", params={"q": "omega"}, headers=pair.headers
        )
        if answer.status_code == 200:
            break
    assert answer.json()["total"] == 1
    graph = pair.client.get("/api/v1/metadata/lineage/shop.omega", headers=pair.headers)
    assert graph.status_code == 200
