"""The hot routes, as plain Starlette: observations in, one asset out."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lily.api.deps import decoded, guarded, services_of
from lily.api.intake import Outcome, submit
from lily.api.operations import INGEST, READ
from lily.assets.model import INCIDENTS, Asset, public
from lily.assets.names import candidates
from lily.errors import Invalid, NotFound, TooLarge, Unreadable
from lily.incidents.model import Incident, suffering
from lily.notify import documents
from lily.store import deliveries
from lily.store.database import LEAST
from lily.store.incident_views import open_incidents
from lily.store.reads import Brief, Question, Reads
from lily.types import Caller
from lily.wiring import Services

MOST = 1_000
JSON = "application/json"
MINIMAL = "return=minimal"
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


@guarded("assets:ingest", INGEST)
async def ingest(request: Request, caller: Caller) -> Response:
    """Observe one asset, or a list of at most 1000."""
    given = await request.body()
    body = _pieces(given) or parse(given)
    preferred = request.headers.get("prefer", "")
    wait, brief = "respond-async" not in preferred, MINIMAL in preferred
    services = services_of(request)
    if isinstance(body, list):
        try:
            return await _many(services, caller, body, wait, brief)
        except UNREADABLE:
            parse(given)  # says where
            raise
    [outcome] = await submit(services, caller, [body], wait=wait, brief=brief)
    return await _one(services, caller, outcome)


@guarded("assets:read", READ)
async def read(request: Request, caller: Caller) -> Response:
    """One asset, by guid, alias or percent-encoded qualified name."""
    try:
        given = decoded(request.path_params["id"])
    except ValueError:
        raise NotFound("asset", request.path_params["id"]) from None
    services = services_of(request)
    reads = None
    if LEAST.get() is not None:  # else the question how far the feed is would cost as much
        reads = await (await services.hot(caller.tenant.cell)).to_read(caller.tenant.number)
    asset = await find(services, caller, given, reads)
    more = await _suffering(services, caller, asset) if asset.layers & INCIDENTS else {}
    if asset.details and (names := documents.ids(asset.details)):
        more["details"] = await run_in_threadpool(_told, services, caller, asset, names)
    return shown(asset, caller, **more)


def _told(services: Services, caller: Caller, asset: Asset, names: list[str]) -> dict[str, Any]:
    """The details with what became of the notifications that a document asked for."""
    with services.core.database.unit(caller.tenant) as unit:
        known = deliveries.statuses(unit, names)
    return documents.overlaid(asset.details or {}, known)


async def _suffering(services: Services, caller: Caller, asset: Asset) -> dict[str, Any]:
    """The open incidents of an asset that has some."""
    hot = await services.hot(caller.tenant.cell)

    async def look(conn: Any) -> list[Incident]:
        return await open_incidents(conn, caller.tenant.number, asset.guid)

    return suffering(await hot.reads.run(caller.tenant.number, look))


async def find(services: Services, caller: Caller, given: str, reads: Reads | None = None) -> Asset:
    """The asset that an id means; foreign and missing ones look alike."""
    reads = reads or (await services.hot(caller.tenant.cell)).reads
    guids = candidates(caller.tenant, given)
    answer = await reads.ask(caller.tenant.number, Question(guids))
    for guid in guids:
        if (asset := answer.assets.get(guid)) is not None:
            return asset
    answer = await reads.ask(caller.tenant.number, Question(aliases=[given]))
    if (aliased := answer.aliases.get(given)) is not None:
        answer = await reads.ask(caller.tenant.number, Question([aliased]))
        if (asset := answer.assets.get(aliased)) is not None:
            return asset
    raise NotFound("asset", given)


def _pieces(body: bytes) -> list[msgspec.Raw] | None:
    """The items of a list, each to be read by itself; None for anything else."""
    try:
        return _split(body) if body[:1] == b"[" else None
    except UNREADABLE:
        return None


def parse(body: bytes) -> Any:
    """JSON, or an error that says where it stops being JSON."""
    try:
        return _decode(body)
    except RecursionError:
        raise Unreadable("The body is nested too deeply; flatten it.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        raise Unreadable(f"The body is not valid JSON: {cause}.") from None


def shown(asset: Asset, caller: Caller, status: int = 200, **more: Any) -> Response:
    document = {**public(asset, caller.tenant.id), **more}
    return Response(_encode(document), status, _marks(asset), JSON)


def _marks(asset: Asset | Brief) -> dict[str, str]:
    return {"ETag": f'"{asset.version}"', "Lily-Position": str(asset.feed_position)}


async def _one(services: Services, caller: Caller, outcome: Outcome) -> Response:
    if outcome.status == "rejected":
        raise Invalid(outcome.errors)
    if outcome.status == "accepted":
        return _accepted(outcome)
    asset = outcome.asset
    if isinstance(asset, Brief):
        status = 201 if outcome.status == "created" else 200
        headers = {**_marks(asset), "Preference-Applied": MINIMAL}
        return Response(_encode(_entry(outcome, caller)), status, headers, JSON)
    if asset is None:
        # An own id that is another asset's alias, or a word that an unknown asset is gone.
        assert outcome.guid is not None
        try:
            asset = await find(services, caller, str(outcome.guid))
        except NotFound:
            return Response(_encode(_brief(outcome)), 200, media_type=JSON)
    status = 201 if outcome.status == "created" else 200
    more = {"shadowed": outcome.shadowed} if outcome.shadowed else {}
    return shown(asset, caller, status, **more)


async def _many(
    services: Services, caller: Caller, body: Sequence[Any], wait: bool, brief: bool
) -> Response:
    if not body:
        raise Invalid("is an empty list; send at least one asset")
    if len(body) > MOST:
        raise TooLarge(f"A list holds at most {MOST} assets; send several, or a file.")
    outcomes = await submit(services, caller, body, wait=wait, brief=brief)
    items = [_entry(outcome, caller) for outcome in outcomes]
    if all(outcome.status == "rejected" for outcome in outcomes):
        raise Invalid([error for outcome in outcomes for error in outcome.errors])
    partial = any(outcome.status == "rejected" for outcome in outcomes)
    waiting = any(outcome.status == "accepted" for outcome in outcomes)
    status = 207 if partial else 202 if waiting else 200
    headers = {"Preference-Applied": MINIMAL} if brief else None
    return Response(_encode({"items": items}), status, headers, JSON)


def _entry(outcome: Outcome, caller: Caller) -> dict[str, Any]:
    codes = {"created": 201, "accepted": 202, "rejected": 422}
    entry: dict[str, Any] = {"status": codes.get(outcome.status, 200), **_brief(outcome)}
    if outcome.asset is not None:
        entry["asset_id"] = outcome.asset.asset_id
        if isinstance(outcome.asset, Asset):
            entry["asset"] = public(outcome.asset, caller.tenant.id)
        else:
            entry["version"] = outcome.asset.version
    if outcome.errors:
        entry["errors"] = outcome.errors
    if outcome.shadowed:
        entry["shadowed"] = outcome.shadowed
    return entry


def _brief(outcome: Outcome) -> dict[str, Any]:
    return {"outcome": outcome.status, "guid": outcome.guid, "cause": outcome.cause}


def _accepted(outcome: Outcome) -> Response:
    headers = {
        "Location": f"/api/v1/metadata/{outcome.guid}",
        "Preference-Applied": "respond-async",
    }
    return Response(_encode(_brief(outcome)), 202, headers, JSON)


INGEST_ROUTE = Route("/api/v1/metadata", ingest, methods=["POST"])
READ_ROUTE = Route("/api/v1/metadata/{id}", read, methods=["GET"])
ROUTES = [INGEST_ROUTE, READ_ROUTE]
