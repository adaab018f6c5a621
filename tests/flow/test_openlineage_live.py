"""The real OpenLineage client against a served Lily with Spark; and SQL over HTTP."""

import gzip
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from httpx import Response
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    DatasetEvent,
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    StaticDataset,
)
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    documentation_dataset,
    schema_dataset,
    sql_job,
)
from openlineage.client.transport.http import (
    ApiKeyTokenProvider,
    HttpCompression,
    HttpConfig,
    HttpTransport,
)

from tests.flow.openlineage import dataset, run_event
from tests.flow.people import Person, admin, with_role
from tests.live import Live

SERVER = "postgres://db:5432"
PEOPLE, MAILS = (f"{SERVER}/shop.public.{name}" for name in ("people", "mails"))


def url(name: str) -> str:
    return f"/api/v1/metadata/{quote(name, safe='')}"


def eventually(check: Callable[[], bool]) -> None:
    """On a busy machine an event is accepted before it is applied."""
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def client_of(who: Person) -> OpenLineageClient:
    token = who.headers["Authorization"].removeprefix("Bearer ")
    config = HttpConfig(
        url=str(who.client.base_url),
        auth=ApiKeyTokenProvider({"apiKey": token}),
        compression=HttpCompression.GZIP,
        retry={"total": 0},
    )
    return OpenLineageClient(transport=HttpTransport(config))


def graph(who: Person, name: str) -> set[tuple[str, str]]:
    """Edges downstream of an asset, those of columns too, by name."""
    found: set[tuple[str, str]] = set()
    path = f"/api/v1/metadata/lineage/{quote(name, safe='')}"
    answer = who.client.get(path, headers=who.headers, params={"columns": True}).json()
    if "nodes" not in answer:
        return found
    names = {node["guid"]: node["qualified_name"] for node in answer["nodes"]}
    for edge in answer["edges"]:
        found.add((names[edge["from"]], names[edge["to"]]))
    return found


def read(who: Person, name: str) -> Response:
    return who.client.get(url(name), headers=who.headers)


def lineage() -> tuple[list[InputDataset], list[OutputDataset]]:
    made = column_lineage_dataset.Fields(
        inputFields=[column_lineage_dataset.InputField(SERVER, "shop.public.people", "email")]
    )
    outputs = [
        OutputDataset(
            SERVER,
            "shop.public.mails",
            facets={
                "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet({"mail": made})
            },
        )
    ]
    fields = [schema_dataset.SchemaDatasetFacetFields("email", "text")]
    facets: dict[str, DatasetFacet] = {"schema": schema_dataset.SchemaDatasetFacet(fields)}
    return [InputDataset(SERVER, "shop.public.people", facets=facets)], outputs


def test_the_real_client_tells_runs_jobs_and_datasets(api: Person) -> None:
    client = client_of(api)
    run = Run(runId=str(uuid4()))
    job = Job(namespace="airflow", name="etl", facets={"sql": sql_job.SQLJobFacet("select 1")})
    inputs, outputs = lineage()

    def event(state: RunState) -> RunEvent:
        now = datetime.now(UTC).isoformat()  # noqa: TID251
        return RunEvent(
            eventTime=now, eventType=state, run=run, job=job, inputs=inputs, outputs=outputs
        )

    client.emit(event(RunState.START))
    assert read(api, PEOPLE).status_code == 404
    client.emit(event(RunState.COMPLETE))
    eventually(lambda: (PEOPLE, MAILS) in graph(api, PEOPLE))
    column = api.client.get(url(f"{MAILS}#mail"), headers=api.headers).json()
    assert column["asset_type"] in ("column", "placeholder")

    [shown] = api.client.get("/api/v1/lineage/runs", headers=api.headers).json()["items"]
    assert (shown["id"], shown["state"], shown["job_id"]) == (
        run.runId,
        "COMPLETE",
        "job:airflow/etl",
    )
    whole = api.client.get(f"/api/v1/lineage/runs/{run.runId}", headers=api.headers).json()
    assert [each["qualified_name"] for each in whole["outputs"]] == [MAILS]
    assert api.client.get(url("job:airflow/etl"), headers=api.headers).json()["asset_type"] == "job"

    now = datetime.now(UTC).isoformat()  # noqa: TID251
    documented = documentation_dataset.DocumentationDatasetFacet("Everybody.")
    static = StaticDataset(
        namespace=SERVER, name="shop.public.people", facets={"documentation": documented}
    )
    client.emit(DatasetEvent(eventTime=now, dataset=static))
    eventually(lambda: read(api, PEOPLE).json()["description"] == "Everybody.")

    now = datetime.now(UTC).isoformat()  # noqa: TID251
    client.emit(JobEvent(eventTime=now, job=job, inputs=inputs, outputs=[]))
    eventually(lambda: graph(api, PEOPLE) == set())


def test_a_list_and_a_gzipped_body_are_taken_in_and_answered(api: Person) -> None:
    events = [
        run_event("START", 1, ["shop.public.a"], ["shop.public.b"]),
        run_event("COMPLETE", 2),
    ]
    packed = gzip.compress(json.dumps(events).encode())
    headers = {**api.headers, "Content-Encoding": "gzip", "Content-Type": "application/json"}
    answer = api.client.post("/api/v1/lineage", content=packed, headers=headers)
    assert (answer.status_code, answer.json()["outcome"]) in ((201, "applied"), (202, "accepted"))
    a, b = (f"{SERVER}/shop.public.{name}" for name in "ab")
    eventually(lambda: graph(api, a) == {(a, b)})
    quick = {**api.headers, "Prefer": "respond-async"}
    answer = api.client.post("/api/v1/lineage", json=events[0], headers=quick)
    assert (answer.status_code, answer.json()["outcome"]) == (202, "accepted")


def broken(**changes: Any) -> dict[str, Any]:
    return {**run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"]), **changes}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (broken(eventTime=None), "eventTime"),
        (broken(eventTime="yesterday"), "eventTime"),
        (broken(eventTime="2999-01-01T00:00:00Z"), "eventTime"),
        (broken(eventType="DONE"), "eventType"),
        (broken(run={"runId": "7"}), "run.runId"),
        (broken(run={}), "run.runId"),
        (broken(job={"name": "x"}), "job.namespace"),
        (broken(job={"namespace": " ", "name": "x"}), "job.namespace"),
        (broken(inputs=[{"namespace": "x"}]), "inputs[0].name"),
        (broken(inputs=[dataset("a", schema={"fields": 1})]), "inputs[0].facets.schema.fields"),
        (
            broken(outputs=[dataset("a", columnLineage={"fields": {"x": {"inputFields": [{}]}}})]),
            "outputs[0].facets.columnLineage.fields[...].inputFields[0].namespace",
        ),
        (broken(run={"runId": str(uuid4()), "facets": {"parent": {}}}), "run.facets.parent.job"),
        ({"eventTime": "2026-01-01T00:00:00Z"}, "job"),
        ([broken(), broken(eventType="DONE")], "[1].eventType"),
        ([], ""),
        ("text", ""),
    ],
)
def test_what_is_wrong_is_named(api: Person, body: Any, field: str) -> None:
    answer = api.client.post("/api/v1/lineage", json=body, headers=api.headers)
    assert answer.status_code == 422, answer.text
    assert [each["field"] for each in answer.json()["errors"]] == [field]


def test_what_is_no_json_is_unreadable(api: Person) -> None:
    answer = api.client.post("/api/v1/lineage", content=b"{", headers=api.headers)
    assert answer.status_code == 400


def test_sql_is_read_with_the_catalogs_columns_and_told(api: Person) -> None:
    for index, name in enumerate(("id", "email")):
        body = {"qualified_name": f"{PEOPLE}#{name}", "metadata": {"ordinal": index}}
        api.client.post("/api/v1/metadata", json=body, headers=api.headers)
    options = {"url": "postgresql://ann:secret@db:5432/shop"}
    made = {"name": f"shop {uuid4().hex[:6]}", "plugin": "postgres", "uses": ["source"]}
    connection = api.client.post(
        "/api/v1/connections", json={**made, "options": options}, headers=api.headers
    ).json()["id"]
    asked = {
        "sql": "create view mails as select * from people where id > 3; select * from nowhere",
        "connection": connection,
        "dry_run": True,
    }
    dry = api.client.post("/api/v1/lineage/sql", json=asked, headers=api.headers)
    assert (dry.status_code, dry.json()["outcome"]) == (200, "shown")
    first, second = dry.json()["statements"]
    told = [(e["from_name"], e["to_name"], e["relationship_type"]) for e in first["edges"]]
    assert told == [
        (f"{PEOPLE}#id", f"{MAILS}#id", "derived-from"),
        (f"{PEOPLE}#email", f"{MAILS}#email", "derived-from"),
        (f"{PEOPLE}#id", MAILS, "influences"),
    ]
    assert [each["missing"] for each in second["problems"]] == ["star"]
    assert api.client.get(url(MAILS), headers=api.headers).status_code == 404

    asked["dry_run"] = False
    done = api.client.post("/api/v1/lineage/sql", json=asked, headers=api.headers)
    assert (done.status_code, done.json()["outcome"], done.json()["edges"]) == (201, "applied", 3)
    assert (PEOPLE, MAILS) in graph(api, PEOPLE)
    # The view is created anew, from something else: what it said before is gone.
    asked["sql"] = "create or replace view mails as select 1 as id"
    again = api.client.post("/api/v1/lineage/sql", json=asked, headers=api.headers)
    assert again.status_code == 201
    assert graph(api, PEOPLE) == set()


def test_sql_needs_a_place_and_a_known_dialect(api: Person) -> None:
    for body, field in (
        ({"sql": "select 1"}, "connection"),
        ({"sql": "select 1", "namespace": "x"}, "dialect"),
        ({"sql": "select 1", "namespace": "x", "dialect": "klingon"}, "dialect"),
        ({"sql": "select 1", "dialect": "postgres", "connection": str(uuid4())}, "connection"),
    ):
        answer = api.client.post("/api/v1/lineage/sql", json=body, headers=api.headers)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["field"].endswith(field)


def test_runs_jobs_and_names_of_another_tenant_do_not_exist(api: Person, live: Live) -> None:
    event = run_event("COMPLETE", 1, ["shop.public.a"], ["shop.public.b"])
    api.client.post("/api/v1/lineage", json=event, headers=api.headers)
    run = event["run"]["runId"]
    stranger, path = admin(live.core, live.one), f"/api/v1/lineage/runs/{run}"
    eventually(lambda: api.client.get(path, headers=api.headers).status_code == 200)
    for path in (
        f"/api/v1/lineage/runs/{run}",
        url("job:airflow/etl"),
        url(f"{SERVER}/shop.public.a"),
    ):
        assert stranger.client.get(path, headers=stranger.headers).status_code == 404
    listed = stranger.client.get("/api/v1/lineage/runs", headers=stranger.headers).json()
    assert listed == {"items": [], "next": None}


def test_a_viewer_reads_runs_but_tells_nothing(api: Person, live: Live) -> None:
    viewer = with_role(live.core, api, "viewer")
    event = run_event("COMPLETE", 1)
    assert (
        viewer.client.post("/api/v1/lineage", json=event, headers=viewer.headers).status_code == 403
    )
    assert viewer.client.get("/api/v1/lineage/runs", headers=viewer.headers).status_code == 200
