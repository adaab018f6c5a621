"""The edge of the API: problems, limits, encoded paths, repeated requests, health."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from fastapi import APIRouter
from httpx import Client
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from lily.api.app import create_app
from lily.api.deps import AssetKey, guarded
from lily.errors import Invalid
from lily.store.presence import presence
from lily.types import Caller, Tenant
from lily.wiring import Core, Services, services
from tests.callers import bearer, minted, tenant_with_admin
from tests.serving import serving
from tests.waiting import until

probes = APIRouter()
entered, gate = Event(), Event()


@probes.get("/probe/key/{id}/more")
def key(id: AssetKey) -> dict[str, str]:
    return {"id": id}


@probes.get("/probe/broken")
def broken() -> None:
    raise RuntimeError("a secret in a stack trace")


@probes.post("/probe/slow")
def slow() -> dict[str, str]:
    entered.set()
    gate.wait(10)
    return {"done": "yes"}


@probes.post("/metadata/probe")
def documents() -> None:
    raise Invalid("is missing", "entity_id")


@guarded("assets:ingest", {"summary": "Echo"})
async def echo(request: Request, caller: Caller) -> Response:
    return PlainTextResponse(f"{caller.name}:{len(await request.body())}")


@pytest.fixture(scope="module")
def built(core: Core) -> Services:
    return services(core)


@pytest.fixture(scope="module")
def client(built: Services) -> Iterator[Client]:
    app = create_app(built)
    app.router.routes.extend([*probes.routes, Route("/probe/echo", echo, methods=["POST"])])
    with serving(app) as client:
        yield client


@pytest.fixture
def me(core: Core, built: Services) -> dict[str, str]:
    return bearer(minted(built, tenant_with_admin(core)))


@pytest.mark.parametrize(
    "name",
    ["postgres://h:1/a.b.c#d", "ü/ñ 漢字", "100%/a%2Fb", "a?b=c&d", "plain", "..", "a+b"],
)
def test_an_encoded_name_arrives_whole(client: Client, name: str) -> None:
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    answer = client.get(f"/probe/key/{encoded}/more")
    assert answer.json() == {"id": name}


def test_a_name_that_is_no_unicode_is_refused(client: Client) -> None:
    for bad in ("%ff%fe", "a%00b"):
        answer = client.get(f"/probe/key/{bad}/more")
        assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "id"


def test_every_error_is_a_problem(client: Client, me: dict[str, str]) -> None:
    as_json = {"Content-Type": "application/json"}
    answers = {
        404: client.get("/no/such/path"),
        405: client.put("/healthz"),
        401: client.get("/api/v1/users"),
        422: client.post("/api/v1/users", headers=me, json={"username": "x"}),
        400: client.post("/api/v1/users", headers={**me, **as_json}, content=b"{"),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert body["status"] == status and body["title"] and body["detail"]
    assert answers[422].json()["errors"] == [{"field": "password", "message": "Field required"}]
    assert answers[405].headers["allow"] == "GET"


def test_an_unexpected_error_tells_nothing_but_where_to_look(client: Client) -> None:
    answer = client.get("/probe/broken", headers={"X-Request-Id": "find-me"})
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == "find-me"
    assert "find-me" in answer.json()["detail"]
    assert "secret" not in answer.text and "Traceback" not in answer.text


def test_invalid_fields_are_400_on_the_paths_of_the_documents(client: Client) -> None:
    answer = client.post("/metadata/probe")
    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"field": "entity_id", "message": "is missing"}]


@pytest.mark.parametrize(
    "body",
    [
        b'{"username": "a\\u0000b", "password": "correct horse 1"}',
        b'{"username": "\\ud800", "password": "correct horse 1"}',
        b'{"username": "a b", "password": "correct horse 1"}',
        b'{"username": "a/b", "password": "correct horse 1"}',
        b'{"username": "", "password": "correct horse 1"}',
        b'{"username": "anna", "password": "\\ud800 horse and more"}',
        b'{"username": "anna", "password": "short"}',
        b'{"username": "anna", "password": "correct horse 1", "role": "king"}',
        b'{"username": "anna", "password": "correct horse 1", "platform": true}',
        b'{"username": 7, "password": "correct horse 1"}',
        b'["anna"]',
        b"[" * 10_000,
        b'{"username": "\xff\xfe"}',
        b"1e400",
        b"9" * 10_000,
        b"",
    ],
)
def test_bad_bodies_are_refused_and_say_where(
    client: Client, me: dict[str, str], body: bytes
) -> None:
    headers = {**me, "Content-Type": "application/json"}
    answer = client.post("/api/v1/users", headers=headers, content=body)
    assert answer.status_code in (400, 422), answer.text
    assert "correct horse" not in answer.text
    items = client.get("/api/v1/users", headers=me).json()["items"]
    assert [item["username"] for item in items] == ["root"]


@pytest.mark.parametrize("field", ["username", "password", "tenant"])
def test_a_login_with_broken_text_is_refused_not_broken(client: Client, field: str) -> None:
    good = {"username": "a", "password": "b", "tenant": "c"}
    for bad in ("a\x00b", "\ud800", "x" * 5000):
        body = json.dumps({**good, field: bad})
        answer = client.post("/api/v1/auth/login", content=body)
        assert answer.status_code in (401, 422), answer.text
    form = {"grant_type": "password", **good, field: "a\x00b"}
    assert client.post("/oauth/token", data=form).status_code == 400


def test_a_body_over_the_limit_is_not_read(client: Client, me: dict[str, str]) -> None:
    assert client.post("/probe/echo", headers=me, content=b"x" * 5_000_000).status_code == 200
    told = client.post("/probe/echo", headers=me, content=b"x" * 5_000_001)
    assert told.status_code == 413 and "LILY_BODY_LIMIT" in told.json()["detail"]
    stream = (b"x" * 65_536 for _ in range(100))
    assert client.post("/probe/echo", headers=me, content=stream).status_code == 413


def test_gzip_comes_in_and_goes_out(client: Client, me: dict[str, str]) -> None:
    headers = {**me, "Content-Encoding": "gzip"}
    answer = client.post("/probe/echo", headers=headers, content=gzip.compress(b"x" * 9000))
    assert answer.text == "some admin:9000"
    described = client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert described.headers["content-encoding"] == "gzip"


def test_a_gzip_bomb_never_unfolds(client: Client, me: dict[str, str]) -> None:
    packer = zlib.compressobj(9, wbits=31)
    chunk = b"\0" * 1_000_000
    bomb = b"".join(packer.compress(chunk) for _ in range(60)) + packer.flush()
    headers = {**me, "Content-Encoding": "gzip"}
    assert len(bomb) < 100_000
    assert client.post("/probe/echo", headers=headers, content=bomb).status_code == 413
    for broken in (b"no gzip at all", bomb[:100], io.BytesIO(bomb).read(10)):
        assert client.post("/probe/echo", headers=headers, content=broken).status_code in (400, 413)
    other = {**me, "Content-Encoding": "br"}
    assert client.post("/probe/echo", headers=other, content=b"x").status_code == 400


def test_a_trace_and_a_request_id_are_kept_or_made(client: Client) -> None:
    given = client.get("/healthz", headers={"X-Request-Id": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    forged = client.get("/healthz", headers={"X-Request-Id": "a b; c"})
    assert forged.headers["x-request-id"] not in ("", "a b; c")


def test_the_same_key_gives_the_same_answer_and_one_effect(
    client: Client, me: dict[str, str]
) -> None:
    headers = {**me, "Idempotency-Key": "k-1"}
    body = {"username": "anna", "password": "correct horse 1"}

    def send(_: int) -> Response:
        while True:
            answer = client.post("/api/v1/users", headers=headers, json=body)
            if answer.status_code != 409:
                return answer  # type: ignore[return-value]
            assert answer.headers["retry-after"] == "1"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1  # type: ignore[attr-defined]
    replayed = [answer.headers.get("idempotent-replayed") for answer in answers]
    assert replayed.count("true") == 19


def test_a_key_belongs_to_one_request_and_one_caller(
    client: Client, built: Services, tenant: Tenant, me: dict[str, str]
) -> None:
    body = {"username": "anna", "password": "correct horse 1"}
    headers = {**me, "Idempotency-Key": "k-2"}
    assert client.post("/api/v1/users", headers=headers, json=body).status_code == 201
    other = client.post("/api/v1/users", headers=headers, json={**body, "username": "bert"})
    assert other.status_code == 422
    assert other.json()["errors"][0]["field"] == "Idempotency-Key"
    foreign = {**bearer(minted(built, tenant)), "Idempotency-Key": "k-2"}
    again = client.post("/api/v1/users", headers=foreign, json=body)
    assert again.status_code == 201 and "idempotent-replayed" not in again.headers
    bad = {**me, "Idempotency-Key": "x" * 300}
    assert client.post("/api/v1/users", headers=bad, json=body).status_code == 422


def test_a_second_request_while_the_first_runs_is_told_to_wait(
    client: Client, me: dict[str, str]
) -> None:
    headers = {**me, "Idempotency-Key": "k-3"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/probe/slow", headers=headers)
        assert entered.wait(10)
        second = client.post("/probe/slow", headers=headers)
        gate.set()
        assert first.result().json() == {"done": "yes"}
    assert (second.status_code, second.headers["retry-after"]) == (409, "1")
    again = client.post("/probe/slow", headers=headers)
    assert again.headers["idempotent-replayed"] == "true"


def test_plain_routes_are_guarded_and_described(
    client: Client, built: Services, tenant: Tenant
) -> None:
    assert client.post("/probe/echo").status_code == 401
    viewer = bearer(minted(built, tenant, "viewer"))
    assert client.post("/probe/echo", headers=viewer).status_code == 403
    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    operation = described["paths"]["/probe/echo"]["post"]
    assert operation["x-scope"] == "assets:ingest" and "401" in operation["responses"]


def test_ready_means_a_warm_pipeline(client: Client, core: Core) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    cold = client.get("/readyz")
    assert cold.status_code == 503 and "pipeline" in cold.json()["reasons"][0]
    with presence(core, "pipeline") as pipeline:
        pipeline.say(warm=True, lag={"core": 0})
        while (answer := client.get("/readyz")).status_code != 200:
            assert "pipeline" in answer.json()["reasons"][0].lower()
        assert answer.json()["pipeline"] == {"warm": True, "lag": {"core": 0}}
        with presence(core, "pipeline") as waiting:
            waiting.say(warm=True, state="standby")
            wanted = {"warm": True, "lag": {"core": 0}, "standbys": 1}
            until(lambda: client.get("/readyz").json()["pipeline"] == wanted)


def test_metrics_count_by_route_and_never_by_id(client: Client) -> None:
    client.get("/probe/key/some-id/more")
    text = client.get("/metrics").text
    assert 'route="/probe/key/{id}/more"' in text and "some-id" not in text


def test_the_docs_are_there(client: Client) -> None:
    assert client.get("/docs").status_code == 200
    known = client.get("/.well-known/openid-configuration").json()
    assert known["jwks_uri"].endswith("/.well-known/jwks.json")
