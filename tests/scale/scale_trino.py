"""A real Trino 476 asks Lily: tagged, masked at the next statement, and shut when Lily is gone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import pytest
from httpx import Client

from lily.api.app import create_app
from lily.store.embedded import Server, stop
from lily.types import Tenant
from lily.wiring import Core, services
from tests.callers import bearer, minted, tenant_with_admin
from tests.flow.apply import seen
from tests.flow.warehouse import Warehouse
from tests.scale.trino_server import CannotFetch, Trino, TrinoError, fetched, free_port
from tests.serving import serving
from tests.waiting import until

CLEAR, MASKED = [["a@x.io"], ["b@x.io"]], [[None], [None]]
MASK = "SELECT email FROM people ORDER BY id"
GROUPS = {"pii_reader": "rita", "outside": "joe"}
pytestmark = pytest.mark.timeout(1500)


class TcpServer(Server):
    """A PostgreSQL that listens on a loopback port, since JDBC knows no sockets."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.port = free_port()

    def url_of(self, database: str) -> str:
        return f"{super().url_of(database)}&port={self.port}"

    def prepare(self) -> None:
        super().prepare()
        with (self.data / "lily.conf").open("a") as conf:
            conf.write(f"listen_addresses = '127.0.0.1'\nport = {self.port}\n")


class Place:
    """A warehouse behind Trino, and a Lily that Trino asks."""

    def __init__(self, core: Core, system: Core, warehouse: TcpServer) -> None:
        self.core, self.system = core, system
        self.tenant: Tenant = tenant_with_admin(core)
        self.house = Warehouse(warehouse)
        self.port = warehouse.port
        self._wired = services(core)
        self._lily = ExitStack()
        self.client: Client = self._lily.enter_context(serving(create_app(self._wired)))
        self._admin = bearer(minted(self._wired, self.tenant, "admin"))
        self.see("people", "id", "email", "country")
        place = self.house.name().removesuffix(".s.people")
        body = {"name": "trino", "plugin": "trino", "uses": ["engine"],
                "options": {"catalogs": {"pg": place}}}  # fmt: skip
        made = self.send("POST", "/connections", json=body)
        self.address = str(self.client.base_url) + "/engine/" + (
            made["webhook_url"].partition("/engine/")[2]
        )  # fmt: skip

    def see(self, table: str, *columns: str) -> None:
        name = self.house.name(table)
        seen(self.system, self.tenant, name, asset_type="table")
        for column in columns:
            kind = "integer" if column == "id" else "text"
            seen(self.system, self.tenant, f"{name}#{column}", asset_name=column,
                 asset_type="column", metadata={"data_type": kind})  # fmt: skip

    def send(self, method: str, path: str, **more: Any) -> Any:
        answer = self.client.request(method, f"/api/v1{path}", headers=self._admin, **more)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def policy(self, **fields: Any) -> str:
        return str(self.send("POST", "/policies", json={"name": "p", **fields})["policy_id"])

    def tag(self, tag: str = "PII") -> None:
        column = quote(f"{self.house.name()}#email", safe="")
        self.send("POST", f"/metadata/{column}/tags", json={"tag": tag})

    def untag(self, tag: str = "PII") -> None:
        column = quote(f"{self.house.name()}#email", safe="")
        self.send("DELETE", f"/metadata/{column}/tags/{tag}")

    def stop(self) -> None:
        self._lily.close()

    def trino(self, home: Path, access: dict[str, str]) -> Trino:
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/{self.house.database}"
        catalog = {"connector.name": "postgresql", "connection-url": url,
                   "connection-user": "postgres", "connection-password": "x"}  # fmt: skip
        return Trino(home, access, {"pg": catalog}, GROUPS)


@pytest.fixture(scope="module")
def place(
    core: Core, system: Core, tmp_path_factory: pytest.TempPathFactory,
    missing: Callable[[str], NoReturn],
) -> Iterator[Place]:  # fmt: skip
    try:
        fetched()
    except CannotFetch as cause:
        missing(str(cause))
    warehouse = TcpServer(tmp_path_factory.mktemp("warehouse") / "postgres")
    warehouse.prepare()
    process = warehouse.run()
    warehouse.wait(process)
    made = Place(core, system, warehouse)
    yield made
    made.stop()
    made.house.root.close()
    stop(process)


def soon(trino: Trino, user: str, sql: str, wanted: list[list[Any]]) -> None:
    def shown() -> bool:
        try:
            return trino.ask(user, sql) == wanted
        except TrinoError:
            return False

    until(shown, seconds=10)


def refused(trino: Trino, user: str, sql: str) -> str:
    with pytest.raises(TrinoError) as told:
        trino.ask(user, sql)
    return str(told.value)


def test_the_file_of_rules_is_understood(place: Place, tmp_path: Path) -> None:
    place.tag()
    hidden = place.policy(
        effect="deny",
        resource={"asset": f"{place.house.name()}#country"},
        subject={"group": "outside"},
    )
    trino = place.trino(tmp_path, {
        "access-control.name": "file", "security.refresh-period": "1s",
        "security.config-file": f"{place.address}/rules",
    })  # fmt: skip
    try:
        trino.wait()
        assert trino.ask("ana", MASK) == MASKED
        assert trino.ask("rita", MASK) == CLEAR
        assert "Access Denied" in refused(trino, "joe", "SELECT country FROM people")
        assert trino.ask("ana", "SELECT country FROM people ORDER BY id") == [["FR"], ["DE"]]
        place.untag()
        soon(trino, "ana", MASK, CLEAR)
    finally:
        trino.close()
        place.send("DELETE", f"/policies/{hidden}")


def test_a_tag_bites_at_the_next_statement(place: Place, tmp_path: Path) -> None:
    trino = place.trino(tmp_path, {
        "access-control.name": "opa",
        "opa.policy.uri": f"{place.address}/allow",
        "opa.policy.batched-uri": f"{place.address}/batch",
        "opa.policy.row-filters-uri": f"{place.address}/rowFilters",
        "opa.policy.batch-column-masking-uri": f"{place.address}/batchColumnMasks",
    })  # fmt: skip
    try:
        trino.wait()
        _tags(place, trino)
        _denies_and_filters(place, trino)
        _holds_back(place, trino)
        place.stop()
        for user in ("ana", "rita"):
            assert "OPA" in refused(trino, user, "SELECT id FROM people")
    finally:
        trino.close()


def _tags(place: Place, trino: Trino) -> None:
    assert trino.ask("ana", MASK) == CLEAR
    for _ in range(3):
        place.tag()
        soon(trino, "ana", MASK, MASKED)
        assert trino.ask("ana", "SELECT count(*) FROM people WHERE email LIKE 'a%'") == [[0]]
        assert trino.ask("ana", "SELECT id FROM people ORDER BY id") == [[1], [2]]
        assert trino.ask("rita", MASK) == CLEAR  # of the exempt group
        place.untag()
        soon(trino, "ana", MASK, CLEAR)


def _denies_and_filters(place: Place, trino: Trino) -> None:
    column = {"asset": f"{place.house.name()}#email"}
    denied = place.policy(effect="deny", resource=column, subject={"group": "outside"})
    hashed = place.policy(effect="mask", mask="hash", resource=column, subject={"user": "ana"})
    rows = place.policy(
        effect="filter", row_filter="country = 'FR'", resource={"under": place.house.name()},
        subject={"user": "eve"},
    )  # fmt: skip
    soon(trino, "eve", "SELECT id FROM people", [[1]])
    assert "Access Denied" in refused(trino, "joe", MASK)
    assert trino.ask("joe", "SELECT id FROM people ORDER BY id") == [[1], [2]]
    [first, _] = trino.ask("ana", MASK)
    assert len(first[0]) == 64
    for policy in (denied, hashed, rows):
        place.send("DELETE", f"/policies/{policy}")
    soon(trino, "joe", MASK, CLEAR)


def _holds_back(place: Place, trino: Trino) -> None:
    """What nobody told Lily of is not read, and nothing goes round its tables."""
    place.house.run("CREATE TABLE s.fresh AS SELECT * FROM s.people")
    assert "Access Denied" in refused(trino, "ana", "SELECT * FROM fresh")
    passed = "SELECT * FROM TABLE(pg.system.query(query => 'SELECT email FROM s.people'))"
    assert "Access Denied" in refused(trino, "ana", passed)
    place.see("fresh", "id", "email", "country")
    soon(trino, "ana", "SELECT email FROM fresh ORDER BY id", CLEAR)
