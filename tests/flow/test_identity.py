"""Logging in, staying in, and who is told what."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from httpx import Client

from lily import wiring
from lily.api.app import create_app
from lily.settings import Settings
from lily.store import feed
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.sweep import sweep
from lily.types import Tenant
from lily.wiring import Core, services
from tests.callers import PASSWORD, bearer, log_in, logged_in, person, tenant_with_admin
from tests.serving import serving

REFRESH = "refresh_token"


@pytest.fixture
def own(core: Core) -> Tenant:
    return tenant_with_admin(core, platform=True)


def attempt(client: Client, tenant: str, username: str, password: str = "wrong guess 1") -> Any:
    body = {"username": username, "password": password, "tenant": tenant}
    return client.post("/api/v1/auth/login", json=body)


def kinds(core: Core, tenant: Tenant) -> list[str]:
    with core.database.unit(tenant) as unit:
        return [link.kind for link in feed.after(unit, 0, 1000)]


def exchange(client: Client, token: str) -> Any:
    return client.post("/oauth/token", data={"grant_type": REFRESH, REFRESH: token})


def test_a_login_gives_a_token_that_says_who_one_is(client: Client, own: Tenant) -> None:
    grant = log_in(client, own)
    assert set(grant) == {"access_token", "token_type", "expires_in", "refresh_token"}
    assert (grant["token_type"], grant["expires_in"]) == ("Bearer", 900)
    said = client.get("/api/v1/auth/validate", headers=bearer(grant["access_token"])).json()
    assert said["active"] is True and said["expires_at"]
    assert (said["username"], said["tenant"], said["role"]) == ("root", own.name, "admin")
    assert "tenants:manage" in said["scopes"]


def test_oauth_takes_the_tenant_as_a_field_or_in_the_username(client: Client, own: Tenant) -> None:
    form = {"grant_type": "password", "username": "root", "password": PASSWORD}
    apart = client.post("/oauth/token", data={**form, "tenant": own.name})
    joined = client.post("/oauth/token", data={**form, "username": f"{own.name}/root"})
    assert (apart.status_code, joined.status_code) == (200, 200)
    assert apart.headers["cache-control"] == "no-store"
    wrong = client.post("/oauth/token", data={**form, "tenant": own.name, "password": "nonono"})
    assert (wrong.status_code, wrong.json()["error"]) == (400, "invalid_grant")
    odd = client.post("/oauth/token", data={"grant_type": "magic"})
    assert (odd.status_code, odd.json()["error"]) == (400, "unsupported_grant_type")


def test_wrong_user_password_and_tenant_are_told_apart_by_nothing(
    client: Client, own: Tenant
) -> None:
    answers = [
        attempt(client, own.name, "root"),
        attempt(client, own.name, "nobody"),
        attempt(client, "no-such-tenant", "root", PASSWORD),
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_guessing_is_slowed_down_whether_the_tenant_exists_or_not(
    client: Client, own: Tenant, exists: bool
) -> None:
    tenant = own.name if exists else f"no-{own.name}"
    assert [attempt(client, tenant, "root").status_code for _ in range(5)] == [401] * 5
    slowed = attempt(client, tenant, "root", PASSWORD)
    assert slowed.status_code == 429
    assert 1 <= int(slowed.headers["retry-after"]) <= 5
    other = attempt(client, tenant, "somebody")
    assert other.status_code == 401


def test_guesses_in_parallel_count_too(client: Client, own: Tenant) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: attempt(client, own.name, "root"), range(12)))
    assert [answer.status_code for answer in answers].count(401) == 5


def test_a_good_login_clears_the_failures(client: Client, own: Tenant) -> None:
    for _ in range(2):
        assert [attempt(client, own.name, "root").status_code for _ in range(4)] == [401] * 4
        assert attempt(client, own.name, "root", PASSWORD).status_code == 200


def test_many_logins_at_once_are_fine(client: Client, own: Tenant) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: attempt(client, own.name, "root", PASSWORD), range(16)))
    assert {answer.status_code for answer in answers} == {200}


def test_a_refresh_token_works_once_and_its_second_use_ends_the_session(
    client: Client, own: Tenant
) -> None:
    first = log_in(client, own)
    second = exchange(client, first[REFRESH]).json()
    me = bearer(second["access_token"])
    assert client.get("/api/v1/auth/validate", headers=me).status_code == 200
    stolen = exchange(client, first[REFRESH])
    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    assert exchange(client, second[REFRESH]).status_code == 400
    client.get("/healthz")
    assert exchange(client, "lilyr_1_" + "a" * 43).status_code == 400


def test_what_happens_is_a_fact_and_holds_no_secret(
    client: Client, core: Core, own: Tenant
) -> None:
    root = logged_in(client, own)
    attempt(client, own.name, "root", "typed-in-the-wrong-box")
    attempt(client, own.name, "typed-in-the-wrong-box")
    person(core, own, "anna", "viewer")
    hers = logged_in(client, own, "anna")
    assert client.get("/api/v1/users", headers=hers).status_code == 403
    token = client.post("/api/v1/tokens", headers=hers, json={"name": "script"}).json()
    client.delete(f"/api/v1/tokens/{token['id']}", headers=hers)
    body = {"password": "another horse 2"}
    client.post("/api/v1/users/anna/password", headers=root, json=body)
    account = client.post("/api/v1/service-accounts", headers=root, json={"name": "c"}).json()
    url = f"/api/v1/service-accounts/{account['id']}"
    assert client.patch(url, headers=root, json={"active": False}).json()["active"] is False
    client.post("/api/v1/auth/keys/rotate", headers=root)
    client.post("/api/v1/auth/logout", headers=root)
    wanted = {
        "TenantCreated",
        "UserCreated",
        "LoginSucceeded",
        "LoginRefused",
        "AccessRefused",
        "TokenCreated",
        "TokenRevoked",
        "PasswordChanged",
        "ServiceAccountCreated",
        "ServiceAccountChanged",
        "KeyRotated",
        "LoggedOut",
    }
    assert set(kinds(core, own)) == wanted
    with core.database.unit(own) as unit:
        assert feed.check(unit) is None
        text = "".join(str(link.payload) for link in feed.after(unit, 0, 1000))
    secrets = (PASSWORD, "another horse", "wrong-box", token["token"], account["client_secret"])
    assert not any(secret in text for secret in secrets)


def test_secrets_are_stored_as_digests_only(
    client: Client, core: Core, own: Tenant, server: Server
) -> None:
    root = logged_in(client, own)
    headers = {**root, "Idempotency-Key": "once"}
    token = client.post("/api/v1/tokens", headers=headers, json={"name": "script"}).json()
    with core.database.home_unit(own) as unit:
        rows = unit.conn.execute("SELECT t::text FROM token t").fetchall()
        rows += unit.conn.execute("SELECT p::text FROM person p").fetchall()
        rows += unit.conn.execute("SELECT i::text FROM idempotency i").fetchall()
    text = "".join(row[0] for row in rows)
    hidden = token["token"].encode().hex()
    assert token["token"] not in text and hidden not in text and PASSWORD not in text


def test_a_tenant_keeps_an_admin(client: Client, own: Tenant) -> None:
    root = logged_in(client, own)
    answer = client.patch("/api/v1/users/root", headers=root, json={"role": "viewer"})
    assert answer.status_code == 409
    assert "admin" in answer.json()["detail"]


def test_an_admin_of_one_tenant_cannot_take_over_the_platform(
    client: Client, core: Core, own: Tenant
) -> None:
    person(core, own, "local", "admin")
    local = logged_in(client, own, "local")
    body = {"password": "my own now 1"}
    url = "/api/v1/users/root"
    assert client.post(f"{url}/password", headers=local, json=body).status_code == 403
    assert client.patch(url, headers=local, json={"active": False}).status_code == 403
    assert client.get("/api/v1/tenants", headers=local).status_code == 403


def test_a_personal_token_gives_no_more_than_its_owner_has(
    client: Client, core: Core, own: Tenant
) -> None:
    person(core, own, "anna", "editor")
    hers = logged_in(client, own, "anna")
    url = "/api/v1/tokens"
    assert client.post(url, headers=hers, json={"name": "x", "role": "admin"}).status_code == 403
    made = client.post(url, headers=hers, json={"name": "x", "role": "viewer"}).json()
    token = bearer(made["token"])
    said = client.get("/api/v1/auth/validate", headers=token).json()
    assert (said["role"], said["username"]) == ("viewer", "anna")
    assert client.post(url, headers=token, json={"name": "y"}).status_code == 403


def test_a_personal_token_says_when_it_was_used_last(client: Client, own: Tenant) -> None:
    root, url = logged_in(client, own), "/api/v1/tokens"
    made = client.post(url, headers=root, json={"name": "job"}).json()

    def used() -> Any:
        found = client.get(url, headers=root).json()["items"]
        return next(each["used_at"] for each in found if each["id"] == made["id"])

    assert used() is None
    for _ in range(2):
        assert client.get("/api/v1/auth/validate", headers=bearer(made["token"])).is_success
    first = used()
    assert first is not None
    assert client.get("/api/v1/auth/validate", headers=bearer(made["token"])).is_success
    assert used() == first  # to a minute


def test_what_belongs_to_another_tenant_does_not_exist(
    client: Client, core: Core, own: Tenant
) -> None:
    other = tenant_with_admin(core)
    anna = person(core, other, "anna", "viewer")
    theirs, mine = logged_in(client, other), logged_in(client, own)
    token = client.post("/api/v1/tokens", headers=theirs, json={"name": "t"}).json()["id"]
    new = {"name": "crawler"}
    account = client.post("/api/v1/service-accounts", headers=theirs, json=new).json()["id"]
    missing = "00000000-0000-4000-8000-000000000000"
    requests: list[tuple[str, str, str, dict[str, Any]]] = [
        ("GET", "/api/v1/users/{}", str(anna.id), {}),
        ("PATCH", "/api/v1/users/{}", str(anna.id), {"active": False}),
        ("POST", "/api/v1/users/{}/password", str(anna.id), {"password": "another horse 2"}),
        ("GET", "/api/v1/service-accounts/{}", account, {}),
        ("PATCH", "/api/v1/service-accounts/{}", account, {"active": False}),
        ("POST", "/api/v1/service-accounts/{}/rotate", account, {}),
        ("DELETE", "/api/v1/tokens/{}", token, {}),
    ]
    for method, url, id, body in requests:
        there = client.request(method, url.format(id), headers=mine, json=body)
        nowhere = client.request(method, url.format(missing), headers=mine, json=body)
        assert there.status_code == nowhere.status_code == 404, (method, url)
        assert there.text == nowhere.text.replace(missing, id)
    assert "anna" not in client.get("/api/v1/users", headers=mine).text


def test_lists_come_in_pages(client: Client, core: Core, own: Tenant) -> None:
    for name in ("anna", "bert", "carl"):
        person(core, own, name, "viewer")
    root = logged_in(client, own)
    first = client.get("/api/v1/users", headers=root, params={"limit": 2}).json()
    rest = {"limit": 2, "after": first["next"]}
    second = client.get("/api/v1/users", headers=root, params=rest).json()
    names = [item["username"] for page in (first, second) for item in page["items"]]
    assert names == ["anna", "bert", "carl", "root"]


def test_a_dedicated_tenant_lives_in_its_own_database(
    client: Client, core: Core, own: Tenant, server: Server
) -> None:
    root = logged_in(client, own)
    url = server.create_database(f"cell_{own.number}")
    admin = {"username": "boss", "password": PASSWORD}
    wanted = {
        "name": f"d-{own.name}",
        "isolation": "dedicated",
        "database_url": url,
        "admin": admin,
    }
    made = client.post("/api/v1/tenants", headers=root, json=wanted)
    assert made.status_code == 201, made.text
    assert url not in made.text and made.json()["admin"] == {"username": "boss", "password": None}
    there = core.database.tenant(wanted["name"])  # type: ignore[arg-type]
    boss = logged_in(client, there, "boss")
    person_url = "/api/v1/users"
    new = {"username": "canary-person", "password": PASSWORD}
    assert client.post(person_url, headers=boss, json=new).status_code == 201
    assert kinds(core, there) == ["TenantCreated", "UserCreated", "LoginSucceeded", "UserCreated"]
    with core.database.home_unit(there) as unit:
        assert unit.conn.execute("SELECT count(*) FROM fact").fetchone() == (0,)
    usage = client.get(f"/api/v1/tenants/{there.name}", headers=root).json()["usage"]
    assert usage == {"assets": {"core": 0, "fields": 0}, "facts": 4, "dead_letters": 0}
    again = client.post("/api/v1/tenants", headers=root, json={**wanted, "name": f"e-{own.name}"})
    assert again.status_code == 422 and "another tenant" in again.json()["detail"]


def test_a_database_that_cannot_be_opened_is_refused_without_its_password(
    client: Client, own: Tenant
) -> None:
    root = logged_in(client, own)
    wanted = {
        "name": f"x-{own.name}",
        "isolation": "dedicated",
        "database_url": "postgresql://u:hunter2@127.0.0.1:1/none",
    }
    answer = client.post("/api/v1/tenants", headers=root, json=wanted)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "database_url"
    assert "hunter2" not in answer.text
    missing = client.get(f"/api/v1/tenants/x-{own.name}", headers=root)
    assert missing.status_code == 404


def test_a_pooled_tenant_gets_an_admin_with_a_made_up_password(client: Client, own: Tenant) -> None:
    root = logged_in(client, own)
    name = f"p-{own.name}"
    made = client.post("/api/v1/tenants", headers=root, json={"name": name}).json()
    admin = made["admin"]
    assert attempt(client, name, admin["username"], admin["password"]).status_code == 200
    twice = client.post("/api/v1/tenants", headers=root, json={"name": name})
    assert twice.status_code == 409


def test_the_first_start_makes_one_admin_whoever_is_first(
    server: Server, settings: Settings
) -> None:
    url = server.create_database("first_start")
    migrate(url)
    own = settings.model_copy(update={"database": url})
    cores = [wiring.core(own, "lily_app", pool=2) for _ in range(2)]
    try:
        with ThreadPoolExecutor(2) as pool:
            made = [each for each in pool.map(wiring.bootstrap, cores) if each is not None]
        assert len(made) == 1 and wiring.bootstrap(cores[0]) is None
        with serving(create_app(services(cores[0]))) as client:
            assert attempt(client, "default", "admin", made[0].password).status_code == 200
    finally:
        for core in cores:
            core.close()


def test_what_is_over_is_swept_away(core: Core, system: Core, own: Tenant) -> None:
    with core.database.home() as conn:
        conn.execute(
            "INSERT INTO revocation (id, before, until)"
            " VALUES (gen_random_uuid(), now() - interval '2 h', now() - interval '1 h')"
        )
    with core.database.home_unit(own) as unit:
        unit.conn.execute(
            "INSERT INTO login_failure (tenant, username, address, at)"
            " VALUES (%s, 'x', 'y', now() - interval '2 days')",
            [own.number],
        )
    assert sweep(system.database) >= 2
    assert sweep(system.database) == 0
