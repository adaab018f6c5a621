"""Lily on older PostgreSQLs: the one that comes with the embedded one, and the system's own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lily.api.app import create_app
from lily.store import tenants
from lily.store.embedded import BIN, SYSTEM_USER, Server, stop
from lily.store.migrate import pending
from lily.wiring import Core, services
from tests.callers import HASHED, TESTER, bearer, minted
from tests.flow.moving import Place, same_but_for_the_news, shared, two_tenants, verifies
from tests.serving import serving

PLACES = {
    15: Path("/usr/lib/postgresql/15/bin"),  # where the system has one
    16: BIN.parents[1] / "pginstall" / "bin",  # comes with the embedded one
}


class Older(Server):
    """A server of another version, started and stopped by the test."""

    def start(self, programs: Path) -> "subprocess.Popen[bytes]":
        who = {"user": SYSTEM_USER, "group": SYSTEM_USER} if os.geteuid() == 0 else {}
        line = [str(programs / "initdb"), "--auth=trust", "--username=postgres", "-E", "utf8"]
        self.socket.mkdir(exist_ok=True)
        for folder in (self.data.parent, self.socket):
            folder.chmod(0o777)
        done = subprocess.run(  # type: ignore[call-overload]
            [*line, "--locale=C.UTF-8", "-D", str(self.data)],
            capture_output=True, text=True, cwd="/", **who,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        command = [str(programs / "postgres"), "-D", str(self.data), "-k", str(self.socket)]
        with (self.data.parent / "log").open("wb") as output:
            process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
                [*command, "-c", "listen_addresses="],
                stdout=output, stderr=output, cwd="/", **who,
            )  # fmt: skip
        self.wait(process)
        return process


@pytest.fixture(scope="module", params=[n for n in PLACES if (PLACES[n] / "initdb").exists()])
def older(request: pytest.FixtureRequest) -> Iterator[Older]:
    programs = PLACES[request.param]
    folder = Path(tempfile.mkdtemp(prefix="lily-older-"))
    server = Older(folder / "postgres")
    process = server.start(programs)
    with psycopg.connect(server.url) as conn:
        assert conn.info.server_version // 10_000 == request.param
    yield server
    stop(process)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cores(older: Older, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Core, Core]]:
    with shared(older, tmp_path_factory.mktemp("older"), "file:") as both:
        yield both


@pytest.fixture
def place(older: Older, cores: tuple[Core, Core]) -> Iterator[Place]:
    with two_tenants(older, *cores) as made:
        yield made


def test_assets_are_read_searched_edited_and_walked(place: Place) -> None:
    assert pending(place.core.database.url_of("home")) == []
    built = services(place.core)
    with serving(create_app(built)) as client:
        who = bearer(minted(built, place.tenant))
        path = "/api/v1/metadata/db%2Fpeople"
        assert client.get(path, headers=who).json()["tags"] == ["PII"]
        found = client.get("/api/v1/metadata/search?q=people&tag=PII", headers=who).json()
        assert [each["qualified_name"] for each in found["items"]] == ["db/people"]
        edited = client.patch(path, json={"description": "new"}, headers=who)
        assert edited.json()["description"] == "new"
        graph = client.get("/api/v1/metadata/lineage/db%2Fpeople", headers=who).json()
        assert len(graph["edges"]) == 1
        history = client.get(f"{path}/history", headers=who).json()
        assert len(history["items"]) == 2


def test_a_tenant_moves_there_and_back(place: Place) -> None:
    before = place.state(place.tenant)
    moved = place.move("dedicated", place.away())
    same_but_for_the_news(before, place.state(moved))
    verifies(place, moved)
    there = place.state(moved)
    back = place.move("pooled")
    same_but_for_the_news(there, place.state(back))
    verifies(place, back)


def test_a_user_without_superuser_owns_a_database_of_its_own(place: Place, older: Older) -> None:
    """Migrations, roles and a tenant need no more than the right to make roles."""
    with psycopg.connect(older.url, autocommit=True) as conn:
        for role in ("lily_owner", "lily_app", "lily_system"):
            conn.execute(f"GRANT {role} TO postgres")
        conn.execute("CREATE ROLE plain LOGIN CREATEROLE")
        conn.execute("GRANT lily_owner, lily_app, lily_system TO plain WITH ADMIN OPTION")
        conn.execute("CREATE DATABASE plain OWNER plain")
    url = older.url_of("plain").replace("postgres@", "plain@")
    core, admin = place.core, tenants.Admin("root", HASHED)
    tenant = tenants.create_dedicated(
        core.database, core.clock, core.seal, "plain", url, admin, TESTER
    )
    place.say(tenant, "db/own")
    assert place.state(tenant)["asset"].rows == 1
