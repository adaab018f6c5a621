"""Another provider's word on people: believed when everything fits, and never otherwise."""

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from httpx import Client, Response
from joserfc import jwt

from lily.clock import SystemClock
from lily.errors import Reject, Unavailable
from lily.identity import jwks
from lily.identity.actor import Actor
from lily.identity.jwks import KeySets, Published
from lily.outside import Outside
from lily.settings import Settings, load
from lily.store import leaving
from lily.types import Tenant
from lily.wiring import Core, Services, services
from lily.wiring import core as build_core
from tests.callers import bearer, minted, tenant_with_admin
from tests.provider import Provider, provider

ROLES = {"stewards": "steward", "everyone": "viewer", "bosses": "admin"}


@pytest.fixture(scope="module")
def okta() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.fixture(scope="module")
def wired(
    settings: Settings, home: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Services]:
    allowed = load(home=settings.home, database=home, egress_allow=["127.0.0.0/8"])
    built = build_core(allowed, "lily_app")
    yield services(built)
    built.close()


@pytest.fixture(scope="module")
def tenant(core: Core) -> Tenant:
    return tenant_with_admin(core)


@pytest.fixture(scope="module")
def trusted(wired: Services, client: Client, tenant: Tenant, okta: Provider) -> dict[str, Any]:
    body = {"name": "okta", "issuer": okta.url, "audience": "api://lily", "client_id": "client",
            "client_secret": "secret text", "roles": ROLES}  # fmt: skip
    admin = bearer(minted(wired, tenant))
    answer = client.post("/api/v1/identity-providers", json=body, headers=admin)
    assert answer.status_code == 201, answer.text
    assert "secret text" not in answer.text
    made: dict[str, Any] = answer.json()
    return made


def asked(client: Client, token: str) -> Response:
    return client.get("/api/v1/auth/validate", headers=bearer(token))


def test_a_providers_token_gives_the_role_of_its_groups(
    client: Client, okta: Provider, trusted: dict[str, Any], tenant: Tenant
) -> None:
    answer = asked(client, okta.token()).json()
    assert (answer["role"], answer["username"]) == ("steward", "ann@example.com")
    assert answer["tenant"] == tenant.name
    strongest = okta.token(groups=["everyone", "bosses", "unknown"])
    assert asked(client, strongest).json()["role"] == "admin"


@pytest.mark.parametrize("groups", [None, [], ["nobody knows"], "text", {"stewards": 1}, [1, None]])
def test_without_a_known_group_nobody_may_do_anything(
    client: Client, okta: Provider, trusted: dict[str, Any], groups: Any
) -> None:
    token = okta.token(groups=groups)
    assert asked(client, token).json()["scopes"] == []
    answer = client.get("/api/v1/metadata/search", headers=bearer(token))
    assert answer.status_code == 403


def plain(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def forged(okta: Provider) -> dict[str, str]:
    """T31, for a provider's tokens."""
    good = okta.token()
    head, body, proof = good.split(".")
    key = okta.keys[0]
    now = int(SystemClock().now().timestamp())

    def part(value: Any) -> str:
        return plain(json.dumps(value).encode())

    mixed = f"{part({'alg': 'HS256', 'kid': key.kid})}.{body}"
    mixed_proof = hmac.new(key.as_pem(private=False), mixed.encode(), hashlib.sha256).digest()
    stranger = okta.another_key()
    return {
        "alg none": f"{part({'alg': 'none', 'kid': key.kid})}.{body}.",
        "HS256 keyed with the public key": f"{mixed}.{plain(mixed_proof)}",
        "another algorithm": okta.token(header={"alg": "PS256"}),
        "jku": okta.token(stranger, {"kid": key.kid, "jku": f"{okta.url}/evil"}),
        "x5u": okta.token(stranger, {"kid": key.kid, "x5u": f"{okta.url}/evil"}),
        "jwk": okta.token(stranger, {"kid": key.kid, "jwk": stranger.as_dict(private=False)}),
        "x5c": okta.token(header={"x5c": ["MIIB"]}),
        "another key under this id": okta.token(stranger, {"kid": key.kid}),
        "unknown kid": okta.token(stranger),
        "no kid": jwt.encode({"alg": "RS256"}, okta.claims(), key, algorithms=["RS256"]),
        "another issuer": okta.token(iss="https://evil.example"),
        "the issuer with a slash": okta.token(iss=f"{okta.url}/"),
        "another audience": okta.token(aud="api://other"),
        "no audience": okta.token(aud=None),
        "another type": okta.token(header={"typ": "logout+jwt"}),
        "no exp": okta.token(exp=None),
        "exp as a text": okta.token(exp=str(now + 600)),
        "no iat": okta.token(iat=None),
        "nbf ahead": okta.token(nbf=now + 3600),
        "iat ahead": okta.token(iat=now + 3600),
        "expired": okta.token(exp=now - 1),
        "no subject": okta.token(sub=None),
        "a number as subject": okta.token(sub=7),
        "truncated": good[:-2],
        "without a signature": f"{head}.{body}.",
        "another body": f"{head}.{part(okta.claims(groups=['bosses']))}.{proof}",
        "two tokens": f"{good},{good}",
        "too long": good + "A" * 20_000,
        "an ID token": okta.token(aud="client", nonce="n"),
    }  # fmt: skip


def test_forged_tokens_are_all_refused_alike_and_fetch_nothing_foreign(
    client: Client, okta: Provider, trusted: dict[str, Any]
) -> None:
    assert asked(client, okta.token()).status_code == 200
    before = len(okta.asked)
    answers = {name: asked(client, token) for name, token in forged(okta).items()}
    assert {n: a.status_code for n, a in answers.items() if a.status_code != 401} == {}
    assert len({answer.text for answer in answers.values()}) == 1
    assert len(answers) >= 20
    # At most one look for a key that nobody knows, and only where the keys always are.
    assert okta.asked[before:] in ([], ["/keys"])


def test_whom_okta_suspended_is_refused_with_a_good_token(
    client: Client, wired: Services, okta: Provider, trusted: dict[str, Any], tenant: Tenant
) -> None:
    token = okta.token(sub="bob@example.com", uid="00u2")
    assert asked(client, token).status_code == 200
    core, life = wired.core, timedelta(minutes=5)
    leaving.leave(
        core.database, core.clock, tenant, Actor("okta", "test"), ["00u2"], "suspended", life
    )
    wired.identity.revocations.poll()
    assert asked(client, token).status_code == 401


def test_two_tenants_that_claim_one_audience_get_nothing(
    core: Core, client: Client, wired: Services, okta: Provider, trusted: dict[str, Any]
) -> None:
    twins = [tenant_with_admin(core) for _ in range(2)]
    for twin in twins:
        body = {"name": "okta", "issuer": okta.url, "audience": "api://twins", "roles": ROLES}
        admin = bearer(minted(wired, twin))
        made = client.post("/api/v1/identity-providers", json=body, headers=admin)
        assert made.status_code == 201
    wired.identity.verifier._foreign._providers._known.clear()  # type: ignore[union-attr]
    assert asked(client, okta.token(aud="api://twins")).status_code == 401


def test_a_login_goes_there_and_comes_back(
    client: Client, wired: Services, okta: Provider, trusted: dict[str, Any], tenant: Tenant
) -> None:
    def there(**claims: Any) -> tuple[dict[str, str], dict[str, str]]:
        left = client.get(f"/api/v1/auth/oidc/{tenant.name}/okta")
        assert left.status_code == 302, left.text
        code, state = okta.log_in(left.headers["location"], **claims)
        cookies = {"lily_oidc": left.cookies["lily_oidc"]}
        client.cookies.clear()
        return {"code": code, "state": state}, cookies

    def back(query: dict[str, str], cookies: dict[str, str]) -> Response:
        pairs = "; ".join(f"{k}={v}" for k, v in cookies.items())
        path = "/api/v1/auth/oidc/callback"
        return client.get(path, params=query, headers={"Cookie": pairs} if pairs else {})

    query, cookies = there(sub="eve@example.com")
    assert back(query, {}).status_code == 400
    assert back({**query, "state": query["state"][:-4]}, cookies).status_code == 400
    assert back({**query, "code": "odd"}, cookies).status_code == 401
    grant = back(query, cookies)
    assert grant.status_code == 200, grant.text
    token = grant.json()["access_token"]
    assert asked(client, token).json()["role"] == "steward"
    assert back(query, cookies).status_code == 401  # a code is good once
    assert back(*there(sub="eve@example.com", groups=["nobody knows"])).status_code == 403
    assert back(*there(sub="eve@example.com", nonce="another")).status_code == 401
    assert back(*there(sub="root")).status_code == 409  # has a password of their own
    changed = back(*there(sub="eve@example.com", groups=["everyone"])).json()["access_token"]
    assert asked(client, changed).json()["role"] == "viewer"
    wired.identity.revocations.poll()
    assert asked(client, token).status_code == 401  # what she had before is over
    for path in (f"{tenant.name}/other", "nobody/okta"):
        assert client.get(f"/api/v1/auth/oidc/{path}").status_code == 404


def test_providers_are_managed_by_admins_and_told_without_secrets(
    core: Core,
    client: Client,
    wired: Services,
    okta: Provider,
    trusted: dict[str, Any],
    tenant: Tenant,
) -> None:
    admin, path = bearer(minted(wired, tenant)), "/api/v1/identity-providers"
    assert client.get(path, headers=bearer(minted(wired, tenant, "steward"))).status_code == 403
    [shown] = client.get(path, headers=admin).json()["items"]
    assert shown["has_secret"] is True
    body = {"name": "okta", "issuer": okta.url, "audience": "api://lily", "client_id": "client"}
    for wrong, field in (
        ({"roles": {"a": "king"}}, "roles"),
        ({"roles": {}, "issuer": "http://169.254.169.254/x"}, "issuer"),
        ({"roles": {}, "issuer": "ftp://a"}, "issuer"),
        ({"roles": {}, "issuer": "http://93.184.216.34"}, "issuer"),
    ):
        answer = client.post(path, json={**body, "name": "x", **wrong}, headers=admin)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"].startswith(field)
    answer = client.post(path, json={**body, "roles": {}}, headers=admin)
    assert answer.status_code == 409
    one = f"{path}/{shown['id']}"
    kept = client.put(one, json={**body, "roles": ROLES}, headers=admin).json()
    assert (kept["has_secret"], kept["roles"]) == (True, ROLES)
    other = bearer(minted(wired, tenant_with_admin(core)))
    assert client.get(one, headers=other).status_code == 404
    facts = client.get("/api/v1/changes?kinds=ProviderChanged", headers=admin).text
    assert "secret" not in facts


# The keys, on a clock of their own --------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def test_keys_are_kept_rotated_and_survive_an_outage(okta: Provider) -> None:
    clock = Clock()
    outside = Outside(["127.0.0.0/8"])
    keys = KeySets(outside.get, clock)
    with provider() as other:
        first = "key-0"
        assert keys.key(other.url, first) is not None
        asked = len(other.asked)
        for _ in range(50):
            assert keys.key(other.url, first) is not None
            assert keys.key(other.url, "made up") is None
        assert len(other.asked) == asked  # the cool-down holds
        other.rotate()
        clock.at += jwks.COOL_DOWN
        assert keys.key(other.url, "key-1") is not None
        other.away = True
        clock.at += 1000
        assert keys.key(other.url, first) is not None
        assert keys.key(other.url, "made up") is None
        other.away = False
        other.keys = other.keys[1:]
        clock.at += 1000
        assert keys.key(other.url, first) is None  # withdrawn there is withdrawn here


def test_a_provider_that_never_answered_is_unavailable_not_wrong() -> None:
    def silent(url: str) -> Published:
        raise Unavailable("no")

    with pytest.raises(Unavailable):
        KeySets(silent).key("https://nowhere.example", "a")


def test_a_provider_that_calls_itself_otherwise_is_not_believed(okta: Provider) -> None:
    def lying(url: str) -> Published:
        return Published(json.dumps({"issuer": "https://x", "jwks_uri": "https://x/k"}).encode())

    with pytest.raises(Unavailable):
        KeySets(lying).key("https://y", "a")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/", "http://[::1]/", "http://169.254.169.254/", "http://10.0.0.1/",
     "file:///etc/passwd", "http://user@127.0.0.1/", "http://2130706433/", "http://0.0.0.0/"],
)  # fmt: skip
def test_private_addresses_are_not_called_unless_allowed(url: str) -> None:
    with pytest.raises((Reject, Unavailable)) as refused:
        Outside([]).get(url)
    assert "does not answer" not in str(refused.value)
