"""The code before runs on the schema after: every table has a column that nobody knows of."""

from collections.abc import Iterator

import pytest
from psycopg import sql

from lily.api.app import create_app
from lily.store import feed, moving
from lily.store.embedded import Server
from lily.store.migrate import pending
from lily.wiring import Core, services
from tests.callers import bearer, minted
from tests.flow.moving import Place, shared, two_tenants
from tests.serving import serving

TABLES = """
SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'lily'::regnamespace
   AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""
ANY = {"facts": ["AssetChanged"]}
LATER = "INSERT INTO migration (number, name, checksum) VALUES (9999, '9999_later.sql', '')"


@pytest.fixture
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with shared(server, tmp_path_factory.mktemp("expanded"), "off") as cores:
        _expand(cores[0])
        with two_tenants(server, *cores) as made:
            yield made


def test_a_schema_that_is_ahead_is_used_as_it_was(place: Place) -> None:
    assert place.state(place.tenant)["asset"].rows == 3
    assert place.state(place.tenant)["edge"].rows == 1
    assert place.state(place.tenant)["dead_letter"].rows == 1
    assert pending(place.core.database.url_of("home")) == []
    built = services(place.core)
    with serving(create_app(built)) as client:
        who = bearer(minted(built, place.tenant))
        asset = "/api/v1/metadata/db%2Fpeople"
        for method, path, body, status in (
            ("PATCH", asset, {"description": "mine"}, 200),
            ("GET", f"{asset}/history", None, 200),
            ("GET", f"{asset}/sources", None, 200),
            ("POST", "/api/v1/tags", {"name": "Mine"}, 201),
            ("POST", "/api/v1/subscriptions", {"name": "s", "match": ANY}, 201),
            ("GET", "/api/v1/metadata/search?q=mine", None, 200),
            ("GET", "/api/v1/lag", None, 200),
            ("DELETE", asset, None, 200),
        ):
            answer = client.request(method, path, json=body, headers=who)
            assert answer.status_code == status, (path, answer.text)
    with place.core.database.unit(place.tenant) as unit:
        assert feed.check(unit) is None


def _expand(core: Core) -> None:
    with moving.owner(core.database.url_of("home")) as conn:
        conn.execute("RESET ROLE")
        for (name,) in conn.execute(TABLES).fetchall():
            table = sql.Identifier("lily", name)
            conn.execute(sql.SQL("ALTER TABLE {} ADD COLUMN later text").format(table))
        conn.execute(LATER)
