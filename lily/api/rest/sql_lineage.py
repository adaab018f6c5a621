"""Lineage from SQL: what a statement says, shown, and told like any other source's word."""

from hashlib import sha256
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import Field, field_validator
from starlette.concurrency import run_in_threadpool

from lily import plugins
from lily.api.deps import ServicesDep, requires
from lily.api.fields import Request, Shown, example
from lily.api.stating import Sending, send
from lily.errors import Conflict, Invalid, NotFound
from lily.events.lineage import Edge, LineageStated
from lily.lineage import sql
from lily.lineage.names import job as job_name
from lily.lineage.names import joined
from lily.lineage.rules import problems
from lily.lineage.sql_model import Relation, SqlLineage
from lily.sdk import Queried, SqlPlace
from lily.store import columns, connections
from lily.store.database import Unit
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/lineage", tags=["lineage"])

JOBS = "sql"  # the namespace of jobs that are statements

Editor = Annotated[Caller, requires("assets:edit")]
Name = Annotated[str | None, Field(min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]


class Asked(Request):
    """Names in the SQL are looked up where `connection` reads, or below `namespace`."""

    model_config = example(
        {
            "sql": "create view adults as select id, sha256(email) as mail from people",
            "dialect": "postgres",
            "namespace": "postgres://db.example.com:5432",
            "default_schema": "shop.public",
            "dry_run": True,
        }
    )

    sql: Annotated[str, Field(min_length=1, max_length=sql.LENGTH_LIMIT, pattern=r"^[^\x00]*$")]
    dialect: Annotated[
        str | None, Field(max_length=40, description="As sqlglot calls it: postgres, snowflake, …")
    ] = None
    connection: UUID | None = None
    namespace: Annotated[
        Name, Field(description="Instead of a connection, e.g. postgres://host:5432.")
    ] = None
    default_schema: Annotated[
        Name, Field(description="`schema` or `database.schema`, for names without one.")
    ] = None
    process: Annotated[
        Name,
        Field(
            description="The job that runs this SQL: all of it is then one statement of that job,"
            " which replaces what the job said before."
        ),
    ] = None
    dry_run: Annotated[bool, Field(description="Only show what would be told.")] = False

    @field_validator("dialect")
    @classmethod
    def _known(cls, dialect: str | None) -> str | None:
        if dialect is not None and dialect.lower() not in sql.DIALECTS:
            raise ValueError(f"is not one of {', '.join(sorted(sql.DIALECTS))}")
        return dialect and dialect.lower()


class ShownEdge(Shown):
    from_name: str
    to_name: str
    relationship_type: str
    transformation: str | None = None
    properties: dict[str, Any] | None = None


class ShownProblem(Shown):
    missing: str
    message: str


class Statement(Shown):
    """What one statement says; what could not be read or resolved is under `problems`."""

    kind: str
    target: str | None = None
    columns: list[str]
    edges: list[ShownEdge]
    problems: list[ShownProblem]


class Found(Shown):
    """`outcome`: shown only, applied, or accepted and about to be."""

    outcome: Literal["shown", "applied", "accepted"]
    statements: list[Statement]
    edges: int
    causes: list[str]


@router.post(
    "/sql",
    status_code=201,
    summary="Read lineage from SQL",
    responses={
        200: {"description": "Nothing was told.", "model": Found},
        202: {"description": "Durable, not yet applied.", "model": Found},
    },
)
async def read(body: Asked, response: Response, caller: Editor, services: ServicesDep) -> Found:
    """Column-level: direct edges are `derived-from`, filters and joins `influences`.

    Stars are expanded by what the catalog knows. What cannot be parsed or resolved is reported and
    not guessed. Edges are told as those of a job: of the target for CREATE, of the statement else.
    """
    found, stated = await run_in_threadpool(_read, services, caller, body)
    now = services.core.clock.now()
    sendings = [Sending(each, each.qualified_name, now) for each in stated]
    shown = [_shown(lineage, edges, target) for lineage, target, edges in found]
    count = sum(len(each.edges) for each in stated)
    if body.dry_run or not sendings:
        response.status_code = 200
        return Found(outcome="shown", statements=shown, edges=count, causes=[])
    sent = await send(services, caller, sendings, services.core.settings.wait_limit)
    if sent.refused:
        raise Invalid("; ".join(sent.refused.values()), "sql")
    response.status_code = 201 if sent.applied else 202
    outcome: Literal["applied", "accepted"] = "applied" if sent.applied else "accepted"
    return Found(outcome=outcome, statements=shown, edges=count, causes=sent.causes)


Read = tuple[SqlLineage, str | None, list[Edge]]


def _read(
    services: Services, caller: Caller, body: Asked
) -> tuple[list[Read], list[LineageStated]]:
    with services.core.database.unit(caller.tenant) as unit:
        place = _place(services, unit, body)

        def name_of(relation: Relation) -> str:
            return joined(place.namespace, relation.catalog, relation.schema, relation.name)

        def columns_of(relation: Relation) -> list[str] | None:
            return columns.of_table(unit, name_of(relation))

        schema = ".".join(part for part in (place.catalog, place.schema) if part) or None
        lineages = sql.of_script(body.sql, place.dialect, schema, columns_of)
    found: list[Read] = []
    jobs: dict[str, list[Edge]] = {}
    for lineage in lineages:
        target = name_of(lineage.target) if lineage.target is not None else None
        edges: list[Edge] = []
        if target is not None:
            process = _process(body, lineage, target)
            edges = sql.edges(lineage, target, name_of, process)
            # That a statement reads nothing is only certain where all of it was understood.
            if edges or not lineage.problems:
                jobs.setdefault(process, []).extend(edges)
        found.append((lineage, target, edges))
    stated = [
        LineageStated(job=job.removeprefix("job:"), edges=_once(edges))
        for job, edges in jobs.items()
    ]
    for each in stated:
        if wrong := problems(each):
            raise Invalid(wrong)
    return found, stated


def _place(services: Services, unit: Unit, body: Asked) -> SqlPlace:
    """Where names mean something: what the caller says stands above what the connection says."""
    if body.connection is None:
        if body.namespace is None:
            raise Invalid("is missing; give a connection or a namespace", "connection")
        place = SqlPlace(namespace=body.namespace.rstrip("/"), dialect=body.dialect or "")
    else:
        place = _of_connection(services, unit, body.connection)
    if not (body.dialect or place.dialect):
        raise Invalid("is missing; say which SQL this is, e.g. postgres", "dialect")
    catalog, _, schema = (body.default_schema or "").rpartition(".")
    return SqlPlace(
        namespace=body.namespace.rstrip("/") if body.namespace else place.namespace,
        dialect=body.dialect or place.dialect,
        catalog=catalog or place.catalog,
        schema=schema or place.schema,
    )


def _of_connection(services: Services, unit: Unit, id: UUID) -> SqlPlace:
    try:
        found = connections.get(unit, id)
    except NotFound:
        raise Invalid(f"there is no connection {id}", "connection") from None
    if "source" not in found.uses:
        raise Conflict(f"{found.name!r} is a {found.uses[0]}; SQL is read where a source is.")
    secrets = connections.opened(services.core.seal.open, unit.tenant.number, found)
    source = plugins.build("source", found.plugin, plugins.join(found.options, secrets))
    place = source.sql_place() if isinstance(source, Queried) else None
    if place is None:
        raise Conflict(f"{found.name!r} does not tell where SQL names lie; give a namespace.")
    return place


def _process(body: Asked, lineage: SqlLineage, target: str) -> str:
    """The job that says it: the caller's, the creation of the target, or this very statement."""
    if body.process is not None:
        return job_name(JOBS, body.process)
    if lineage.kind == "CREATE":
        return job_name(JOBS, target)
    digest = sha256(body.sql.strip().encode()).hexdigest()[:16]
    return job_name(JOBS, f"{target}/{digest}")


def _once(edges: list[Edge]) -> list[Edge]:
    return list({(e.from_name, e.to_name, e.relationship_type): e for e in edges}.values())


def _shown(lineage: SqlLineage, edges: list[Edge], target: str | None) -> Statement:
    return Statement(
        kind=lineage.kind,
        target=target,
        columns=list(lineage.columns),
        edges=[ShownEdge.model_validate(edge) for edge in edges],
        problems=[ShownProblem.model_validate(each) for each in lineage.problems],
    )
