"""Two isolated tenants: two installations side by side that share nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from httpx import Client

from lily.api.app import create_app
from lily.cli.deploy import values
from lily.cli.first_start import first_start
from lily.cli.home import read_credentials
from lily.events.observations import AssetSeen
from lily.settings import Settings, load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.wiring import core as build_core
from lily.wiring import services
from tests.flow.apply import apply
from tests.serving import serving


class Installation(msgspec.Struct):
    settings: Settings
    client: Client
    headers: dict[str, str]


def install(server: Server, stack: ExitStack, name: str, folder: Path) -> Installation:
    """What the rendered deployment does: migrate, first admin, API; all of it the tenant's own."""
    assert f"tenant: {name}" in values(name, "isolated", "lily.example.org", "lily")
    url = server.create_database(f"isolated_{name}")
    migrate(url)
    settings = load(home=folder / name, database=url, public_url=f"https://{name}.lily.example.org")
    settings.home.mkdir()
    first_start(settings)
    core, system = build_core(settings, "lily_app"), build_core(settings, "lily_system")
    stack.callback(core.close)
    stack.callback(system.close)
    (tenant,) = core.database.tenants()
    apply(system, tenant, [AssetSeen(qualified_name=f"{name}.secrets", description=name)])
    client = stack.enter_context(serving(create_app(services(core))))
    known = read_credentials(settings.home) or {}
    body = {key: known[key] for key in ("username", "password", "tenant")}
    token = client.post("/api/v1/auth/login", json=body).json()["access_token"]
    return Installation(settings, client, {"Authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
def both(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installation, Installation]]:
    folder = tmp_path_factory.mktemp("isolated")
    with ExitStack() as stack:
        yield tuple(install(server, stack, name, folder) for name in ("acme", "globex"))  # type: ignore[misc]


def names(where: Installation) -> list[Any]:
    answer = where.client.get(
        "/api/v1/metadata/search", params={"q": "secrets"}, headers=where.headers
    )
    return [item["qualified_name"] for item in answer.json()["items"]]


def test_each_shows_its_own_and_nothing_of_the_other(
    both: tuple[Installation, Installation],
) -> None:
    assert [names(each) for each in both] == [["acme.secrets"], ["globex.secrets"]]


def test_a_token_of_one_is_worth_nothing_at_the_other(
    both: tuple[Installation, Installation],
) -> None:
    one, other = both
    answer = other.client.get(
        "/api/v1/metadata/search", params={"q": "secrets"}, headers=one.headers
    )
    assert answer.status_code == 401


def test_a_password_of_one_opens_nothing_at_the_other(
    both: tuple[Installation, Installation],
) -> None:
    one, other = both
    known = read_credentials(one.settings.home) or {}
    body = {key: known[key] for key in ("username", "password", "tenant")}
    assert other.client.post("/api/v1/auth/login", json=body).status_code == 401


def test_keys_databases_and_folders_are_apart(both: tuple[Installation, Installation]) -> None:
    one, other = both
    assert one.settings.home != other.settings.home
    assert one.settings.database != other.settings.database
    files = [(each.settings.home / "secret.key").read_bytes() for each in both]
    assert files[0] != files[1]
    rows = []
    for each in both:
        with psycopg.connect(each.settings.database) as conn:
            rows.append(
                {
                    *conn.execute("SELECT kid FROM lily.token_key").fetchall(),
                    *conn.execute("SELECT id FROM lily.tenant").fetchall(),
                    *conn.execute("SELECT guid FROM lily.asset").fetchall(),
                }
            )
    assert all(rows)
    assert rows[0].isdisjoint(rows[1])
