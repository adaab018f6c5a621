"""The description of the API is whole, and the API does what it says."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from httpx import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.failures import FailureGroup

from lily.cli.handbook import described
from tests.flow.people import Person
from tests.live import Live

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SECONDS = 60.0
EXAMPLES = 4
# They would end the session that asks, or are measured elsewhere.
SKIPPED = {("POST", "/api/v1/auth/logout"), ("GET", "/metrics")}


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return described()


def operations(openapi: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_description_is_openapi_3_1(openapi: dict[str, Any]) -> None:
    assert openapi["openapi"].startswith("3.1")
    assert len(list(operations(openapi))) > 50


def test_every_request_has_a_summary_a_tag_and_a_good_answer(openapi: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(openapi)]
    assert len(set(names)) == len(names)
    for request, operation in operations(openapi):
        made_up = operation["operationId"].partition("_api_v1")[0].replace("_", " ").title()
        assert operation["summary"] != made_up, request
        assert operation["tags"], request
        assert any(status[0] in "23" for status in operation["responses"]), request
        assert all(answer["description"] for answer in operation["responses"].values()), request


def test_every_body_has_an_example(openapi: dict[str, Any]) -> None:
    missing = []
    for request, operation in operations(openapi):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if not _has_example(content, openapi):
                missing.append(request)
    assert missing == []


def _has_example(content: dict[str, Any], openapi: dict[str, Any]) -> bool:
    if "example" in content or "examples" in content:
        return True
    schema = content["schema"]
    for choice in [schema, *schema.get("anyOf", [])]:
        name = choice.get("$ref", "").rpartition("/")[2]
        whole = openapi["components"]["schemas"].get(name, choice)
        fields = whole.get("properties", {}).values()
        if (
            "examples" in choice
            or "examples" in whole
            or any("examples" in field for field in fields)
        ):
            return True
    return False


def test_every_path_parameter_and_scope_is_described(openapi: dict[str, Any]) -> None:
    for request, operation in operations(openapi):
        given_names = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert given_names == {part[1:-1] for part in request.split("/") if part[:1] == "{"}
        protected = {"401", "403"} <= operation["responses"].keys()
        assert protected == bool(operation.get("security")), request


def test_the_api_answers_as_described_whatever_it_is_asked(live: Live, api: Person) -> None:
    url = str(live.one.base_url).rstrip("/")
    schema: Any = schemathesis.openapi.from_dict(live.one.get("/openapi.json").json())
    asker = Asker(url, api.headers, seeds(live.one, api.headers))
    for operation in schema.get_all_operations():
        if (operation.ok().method.upper(), operation.ok().path) not in SKIPPED:
            asker.ask(operation.ok())
    assert sum(asker.statuses.values()) > 500
    assert asker.statuses[200] > 100 and asker.statuses[201] > 10
    assert asker.found == {}, "\n\n".join(f"{k}: {v}" for k, v in asker.found.items())


def seeds(client: Client, headers: dict[str, str]) -> dict[str, str]:
    """The beginning of a path, and an id that exists behind it."""

    def made(path: str, body: Any, status: int = 201) -> Any:
        answer = client.post(f"/api/v1/{path}", json=body, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    hook = {"name": "h", "plugin": "rename", "uses": ["hook"], "options": {"tags": {"tmp": ""}}}
    user = {"username": "somebody", "password": "correct horse 3"}
    found = {
        "/api/v1/metadata/": made("metadata", {"asset_id": "seed"})["guid"],
        "/metadata/": "seed",
        "/api/v1/connections/": made("connections", hook)["id"],
        "/api/v1/users/": made("users", user)["id"],
        "/api/v1/service-accounts/": made("service-accounts", {"name": "robot"})["id"],
        "/api/v1/tokens/": made("tokens", {"name": "script"})["id"],
    }
    wrong = {"asset_id": "seed", "title": "Late"}
    found["/api/v1/incidents/"] = made("incidents", wrong)["incident_id"]
    made("metadata", {"asset_id": "bad", "tags": ["tmp"]}, 422)
    letters = client.get("/api/v1/dead-letters", headers=headers).json()["items"]
    return {**found, "/api/v1/dead-letters/": letters[0]["id"]}


class Asker:
    """Asks every operation, with ids that exist and any others, and notes what was wrong."""

    def __init__(self, url: str, headers: dict[str, str], seeds: dict[str, str]) -> None:
        self.found: dict[str, str] = {}
        self.statuses: Counter[int] = Counter()
        self._url = url
        self._headers = headers
        self._seeds = seeds
        self._end = time.monotonic() + SECONDS

    def ask(self, operation: Any) -> None:
        known = next(
            (id for start, id in self._seeds.items() if operation.path.startswith(start)), ""
        )
        if known and "{" in operation.path:
            name = operation.path.partition("{")[2].partition("}")[0]
            self._run(operation, GenerationMode.POSITIVE, path_parameters={name: known})
        for mode in GenerationMode:
            self._run(operation, mode)

    def _run(self, operation: Any, mode: GenerationMode, **fixed: Any) -> None:
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode, **fixed))
        def once(case: Any) -> None:
            if time.monotonic() < self._end:
                answer = case.call(base_url=self._url, headers=self._headers, timeout=30)
                self.statuses[answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)

        try:
            once()
        except Unsatisfiable:
            return  # nothing can be wrong with a request that has no parts
        except FailureGroup as failures:
            said = "\n".join(str(each) for each in failures.exceptions)
            self.found[f"{operation.label} ({mode.value})"] = said[:3000]
