"""The SQL gateway: a question of somebody's, answered with what they may see."""

from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from lily import plugins
from lily.access.gateway import Refused, Rewriter, Rewritten, Source
from lily.api.deps import ServicesDep, requires, uuid_of
from lily.api.fields import Request, example
from lily.assets.hooks import reason_of
from lily.assets.names import guid_of
from lily.errors import Invalid, PluginError, Reject, Retry, Unavailable
from lily.sdk.enforcers import Grantee
from lily.sdk.gateways import Gateway
from lily.store import connections, protections
from lily.store.connections import Connection
from lily.types import Caller
from lily.wiring import Services

router = APIRouter(prefix="/api/v1/sql", tags=["access"])

Reader = Annotated[Caller, requires("sql:run")]
ARROW = "application/vnd.apache.arrow.stream"


_rewriter = Rewriter()


class Statement(Request):
    model_config = example(
        {
            "connection": "b7c0a3f2-5d0a-4a52-a3d1-7a9e6f0e9f11",
            "sql": "SELECT country, count(email) FROM people GROUP BY country",
            "default_schema": "public",
        }
    )

    connection: str = Field(description="A connection that is used as gateway.")
    sql: str = Field(min_length=1, max_length=100_000)
    default_schema: str | None = Field(None, max_length=200)


class Question(Statement):
    rows: int = Field(1000, ge=1, le=100_000, description="How many rows at most.")
    seconds: float = Field(10, gt=0, le=60, description="How long at most.")
    format: Literal["json", "arrow"] = "json"


class RewrittenShown(BaseModel):
    """What would be run, and which tables it reads."""

    sql: str
    tables: list[str]


class Answer(BaseModel):
    columns: list[str]
    rows: list[list[Any]]
    truncated: bool
    tables: list[str]


@router.post("/rewrite", summary="Show what a statement becomes for you")
def rewritten(body: Statement, caller: Reader, services: ServicesDep) -> RewrittenShown:
    _, made = _rewritten(services, caller, body)
    return RewrittenShown(sql=made.sql, tables=list(made.tables))


@router.post(
    "",
    summary="Ask an engine, and see what you may see",
    response_model=Answer,
    responses={200: {"content": {ARROW: {"schema": {"type": "string", "format": "binary"}}}}},
)
def ask(body: Question, caller: Reader, services: ServicesDep) -> Response:
    """One SELECT. Masked columns are masked before the statement sees them."""
    gateway, made = _rewritten(services, caller, body)
    try:
        result = gateway.run(made.sql, body.seconds, body.rows)
    except Reject as cause:
        raise Invalid(reason_of(cause), "sql") from None
    except Retry as cause:
        raise Unavailable(reason_of(cause)) from None
    if body.format == "arrow":
        columns = zip(*result.rows, strict=True) if result.rows else [[] for _ in result.columns]
        table = pa.table([_array(list(each)) for each in columns], names=list(result.columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
    shown = {
        "columns": result.columns,
        "rows": result.rows,
        "truncated": result.truncated,
        "tables": made.tables,
    }
    return Response(msgspec.json.encode(shown, enc_hook=str), media_type="application/json")


def _rewritten(services: Services, caller: Caller, body: Statement) -> tuple[Gateway, Rewritten]:
    with services.core.database.unit(caller.tenant) as unit:
        connection = connections.get(unit, uuid_of("connection", body.connection))
    gateway = _gateway(services, caller, connection)
    known: dict[str, Source | None] = {}

    def lookup(schema: str, name: str) -> Source | None:
        table = gateway.table(schema, name)
        if table not in known:
            known[table] = _source(services, caller, connection, table)
        return known[table]

    schema = body.default_schema or gateway.default_schema
    try:
        return gateway, _rewriter.rewrite(body.sql, gateway.dialect, schema, lookup)
    except Refused as cause:
        raise Invalid(str(cause), "sql") from None


def _gateway(services: Services, caller: Caller, connection: Connection) -> Gateway:
    if "gateway" not in connection.uses or not connection.enabled:
        raise Invalid("is not used as gateway; add that use to it", "connection")
    secrets = connections.opened(services.core.seal.open, caller.tenant.number, connection)
    options = plugins.join(connection.options, secrets)
    try:
        gateway: Gateway = plugins.build("gateway", connection.plugin, options)
        plugins.reach(gateway, services.core.settings.egress_allow)
    except (PluginError, Reject) as cause:
        raise Invalid(reason_of(cause, plugins.hidden(secrets)), "connection") from None
    return gateway


def _source(
    services: Services, caller: Caller, connection: Connection, table: str
) -> Source | None:
    """A table as the catalog knows it, with what holds for the caller."""
    guid, now = guid_of(caller.tenant.id, table), services.core.clock.now()
    roles = {caller.name: frozenset({caller.role})}
    with services.core.database.whole(caller.tenant) as unit:
        wanted = protections.wanted(unit, guid, connection.plugin, now, roles)
        if wanted is None or not (columns := protections.columns(unit, guid)):
            return None
    rules = wanted.rules(Grantee(caller.name))
    if wanted.is_denied(Grantee(caller.name)):
        return None  # what may not be read looks like what is not there
    return Source(columns, rules)


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if value is None else str(value) for value in values])
