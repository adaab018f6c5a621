"""What is revoked in one process is refused in every other within five seconds."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from httpx import Client

from lily.errors import Unauthenticated, Unavailable
from lily.settings import Settings
from lily.store import feed
from lily.store.database import Database
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.store.revocations import Revocations
from lily.types import Tenant
from lily.wiring import Core, Services, services
from lily.wiring import core as build_core
from tests.callers import bearer, log_in, logged_in, minted, person, subject_of, tenant_with_admin


@pytest.fixture(scope="module")
def elsewhere(settings: Settings) -> Iterator[Services]:
    """Another process, as far as the store can tell."""
    other = services(build_core(settings, "lily_app", pool=2))
    other.start()
    yield other
    other.stop()
    other.core.close()


@pytest.fixture
def admin(client: Client, core: Core) -> tuple[Tenant, dict[str, str]]:
    tenant = tenant_with_admin(core, platform=True)
    return tenant, logged_in(client, tenant)


def accepts(there: Services, headers: dict[str, str]) -> bool:
    try:
        there.identity.verifier.authenticate(headers["Authorization"])
    except Unauthenticated:
        return False
    return True


def refused_soon(there: Services, headers: dict[str, str]) -> bool:
    """Within the five seconds that are promised."""
    return _soon(lambda: not accepts(there, headers))


def _soon(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_logout_ends_the_session_everywhere(
    client: Client, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, _ = admin
    grant = log_in(client, tenant)
    me = bearer(grant["access_token"])
    assert accepts(elsewhere, me)
    assert client.post("/api/v1/auth/logout", headers=me).status_code == 204
    assert client.get("/api/v1/auth/validate", headers=me).status_code == 401
    assert refused_soon(elsewhere, me)
    form = {"grant_type": "refresh_token", "refresh_token": grant["refresh_token"]}
    assert client.post("/oauth/token", data=form).status_code == 400


def test_a_deactivated_person_is_refused_everywhere_and_cannot_come_back(
    client: Client, core: Core, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, root = admin
    anna = person(core, tenant, "anna", "viewer")
    grant = log_in(client, tenant, "anna")
    her = bearer(grant["access_token"])
    personal = client.post("/api/v1/tokens", headers=her, json={"name": "script"}).json()
    assert accepts(elsewhere, her) and accepts(elsewhere, bearer(personal["token"]))
    url = f"/api/v1/users/{anna.id}"
    assert client.patch(url, headers=root, json={"active": False}).json()["active"] is False
    assert refused_soon(elsewhere, her)
    assert refused_soon(elsewhere, bearer(personal["token"]))
    body = {"username": "anna", "password": "correct horse 1", "tenant": tenant.name}
    assert client.post("/api/v1/auth/login", json=body).status_code == 401
    form = {"grant_type": "refresh_token", "refresh_token": grant["refresh_token"]}
    assert client.post("/oauth/token", data=form).status_code == 400


def test_no_login_slips_past_a_deactivation(
    client: Client, core: Core, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    """Logins and refreshes race with it; whatever was granted is refused afterwards."""
    tenant, root = admin
    person(core, tenant, "racer", "viewer")
    refresh = log_in(client, tenant, "racer")["refresh_token"]
    body = {"username": "racer", "password": "correct horse 1", "tenant": tenant.name}

    def keep_coming(way: int) -> list[str]:
        granted: list[str] = []
        form = {"grant_type": "refresh_token", "refresh_token": refresh}
        while True:
            if way == 0:
                answer = client.post("/oauth/token", data=form)
            else:
                answer = client.post("/api/v1/auth/login", json=body)
            if answer.status_code != 200:
                assert answer.status_code in (400, 401, 429)
                return granted
            granted.append(answer.json()["access_token"])
            form["refresh_token"] = answer.json()["refresh_token"]

    with ThreadPoolExecutor(3) as pool:
        racing = [pool.submit(keep_coming, way) for way in range(3)]
        assert _soon(lambda: kinds_of(core, tenant).count("LoginSucceeded") > 4)
        done = client.patch("/api/v1/users/racer", headers=root, json={"active": False})
        assert done.status_code == 200
        granted = [token for each in racing for token in each.result()]
    assert len(granted) > 3
    elsewhere.identity.revocations.poll()
    assert not any(accepts(elsewhere, bearer(token)) for token in granted)


def kinds_of(core: Core, tenant: Tenant) -> list[str]:
    with core.database.unit(tenant) as unit:
        return [link.kind for link in feed.after(unit, 0, 1000)]


def test_a_changed_role_ends_sessions_and_a_login_right_after_works(
    client: Client, core: Core, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, root = admin
    person(core, tenant, "bert", "steward")
    before = logged_in(client, tenant, "bert")
    assert accepts(elsewhere, before)
    done = client.patch("/api/v1/users/bert", headers=root, json={"role": "viewer"})
    assert done.json()["role"] == "viewer"
    after = logged_in(client, tenant, "bert")
    assert client.get("/api/v1/auth/validate", headers=after).json()["role"] == "viewer"
    assert refused_soon(elsewhere, before)
    assert accepts(elsewhere, after)


def test_a_personal_token_follows_the_role_of_its_owner(
    client: Client, core: Core, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, root = admin
    person(core, tenant, "carl", "steward")
    his = logged_in(client, tenant, "carl")
    whole = client.post("/api/v1/tokens", headers=his, json={"name": "all"}).json()
    editor = {"name": "some", "role": "editor"}
    weaker = client.post("/api/v1/tokens", headers=his, json=editor).json()

    def may(token: str, scope: str) -> bool:
        return elsewhere.identity.verifier.authenticate(f"Bearer {token}").may(scope)

    assert may(whole["token"], "audit:read") and not may(weaker["token"], "audit:read")
    client.patch("/api/v1/users/carl", headers=root, json={"role": "viewer"})
    assert _soon(lambda: not may(whole["token"], "audit:read"))
    assert may(whole["token"], "assets:read")
    assert refused_soon(elsewhere, bearer(weaker["token"]))


def test_a_changed_password_ends_sessions(
    client: Client, core: Core, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, _ = admin
    person(core, tenant, "dora", "viewer")
    her = logged_in(client, tenant, "dora")
    url = "/api/v1/users/me/password"
    wrong = {"old_password": "not this one", "new_password": "another horse 2"}
    refusal = client.post(url, headers=her, json=wrong)
    assert refusal.status_code == 422
    assert refusal.json()["errors"][0]["field"] == "old_password"
    right = {"old_password": "correct horse 1", "new_password": "another horse 2"}
    assert accepts(elsewhere, her)
    assert client.post(url, headers=her, json=right).status_code == 204
    assert refused_soon(elsewhere, her)
    body = {"username": "dora", "password": "another horse 2", "tenant": tenant.name}
    assert client.post("/api/v1/auth/login", json=body).status_code == 200


def test_a_revoked_personal_token_is_refused_everywhere(
    client: Client, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    _, root = admin
    made = client.post("/api/v1/tokens", headers=root, json={"name": "script"}).json()
    token = bearer(made["token"])
    assert accepts(elsewhere, token)
    assert client.delete(f"/api/v1/tokens/{made['id']}", headers=root).status_code == 204
    assert refused_soon(elsewhere, token)
    assert client.get("/api/v1/tokens", headers=root).json()["items"] == []


def test_a_suspended_tenant_is_shut_out_and_a_resumed_one_comes_back(
    client: Client, core: Core, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    _, root = admin
    other = tenant_with_admin(core)
    theirs = logged_in(client, other)
    script = client.post("/api/v1/tokens", headers=theirs, json={"name": "script"}).json()
    token = bearer(script["token"])
    assert accepts(elsewhere, theirs) and accepts(elsewhere, token)
    url = f"/api/v1/tenants/{other.name}"
    assert client.post(f"{url}/suspend", headers=root).json()["state"] == "suspended"
    assert refused_soon(elsewhere, theirs) and refused_soon(elsewhere, token)
    body = {"username": "root", "password": "correct horse 1", "tenant": other.name}
    assert client.post("/api/v1/auth/login", json=body).status_code == 401
    assert client.post(f"{url}/resume", headers=root).json()["state"] == "active"
    assert accepts(elsewhere, logged_in(client, other)) and accepts(elsewhere, token)


def test_nobody_suspends_the_tenant_they_stand_on(
    client: Client, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, root = admin
    answer = client.post(f"/api/v1/tenants/{tenant.name}/suspend", headers=root)
    assert answer.status_code == 409


def test_a_rotated_secret_ends_what_the_old_one_was_issued(
    client: Client, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    _, root = admin
    url = "/api/v1/service-accounts"
    made = client.post(url, headers=root, json={"name": "crawler", "role": "ingester"}).json()
    form = {"grant_type": "client_credentials"}
    who = (made["client_id"], made["client_secret"])
    grant = client.post("/oauth/token", data=form, auth=who).json()
    token = bearer(grant["access_token"])
    assert accepts(elsewhere, token) and "refresh_token" not in grant
    again = client.post(f"{url}/{made['id']}/rotate", headers=root).json()
    assert refused_soon(elsewhere, token)
    old = client.post("/oauth/token", data=form, auth=who)
    assert (old.status_code, old.json()["error"]) == (401, "invalid_client")
    fresh = {**form, "client_id": made["client_id"], "client_secret": again["client_secret"]}
    assert client.post("/oauth/token", data=fresh).status_code == 200


def test_keys_rotate_without_a_gap(
    client: Client, elsewhere: Services, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, root = admin
    kid = client.post("/api/v1/auth/keys/rotate", headers=root).json()["kid"]
    new = logged_in(client, tenant)
    known = {key["kid"] for key in client.get("/.well-known/jwks.json").json()["keys"]}
    assert kid in known and len(known) >= 2
    assert accepts(elsewhere, new) and accepts(elsewhere, root)
    assert _soon(lambda: elsewhere.identity.keys.signing().kid == kid)


def test_processes_on_other_ports_accept_each_others_tokens(
    client: Client, settings: Settings, admin: tuple[Tenant, dict[str, str]]
) -> None:
    _, root = admin
    other = services(build_core(settings.model_copy(update={"port": 9}), "lily_app", pool=2))
    other.start()
    try:
        assert accepts(other, root)
        issuer = client.get("/.well-known/openid-configuration").json()["issuer"]
        assert other.identity.keys.signing().issuer == issuer
    finally:
        other.stop()
        other.core.close()


def test_a_new_public_url_signs_in_its_own_name_and_keeps_old_tokens(
    settings: Settings, server: Server
) -> None:
    url = server.create_database("renamed")
    migrate(url)
    own = settings.model_copy(update={"database": url})
    renamed = own.model_copy(update={"public_url": "https://lily.example"})
    before, after = (services(build_core(each, "lily_app", pool=2)) for each in (own, renamed))
    try:
        tenant = tenant_with_admin(before.core)
        token = bearer(minted(before, tenant))
        after.start()
        assert after.identity.keys.signing().issuer == "https://lily.example"
        assert accepts(after, token)
        forged = minted(after, tenant, iss=own.url)
        assert not accepts(after, bearer(forged))
    finally:
        after.stop()
        after.core.close()
        before.core.close()


def test_a_process_that_cannot_hear_of_revocations_answers_nothing(core: Core) -> None:
    nowhere = Database("postgresql://127.0.0.1:1/none", "lily_app", lambda sealed: sealed, 1)
    deaf = Revocations(nowhere)
    with pytest.raises(Unavailable):
        deaf.confirm()
    heard = Revocations(core.database, patience=0.05)
    heard.poll()
    heard.confirm()
    assert _soon(lambda: _silent(heard))


def _silent(revocations: Revocations) -> bool:
    try:
        revocations.confirm()
    except Unavailable:
        return True
    return False


def test_the_subject_of_a_session_is_the_person(
    client: Client, core: Core, admin: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, _ = admin
    emil = person(core, tenant, "emil", "viewer")
    assert subject_of(client, logged_in(client, tenant, "emil")) == emil.id
