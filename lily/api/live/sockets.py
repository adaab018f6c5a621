"""The sockets: changes out, observations in."""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from lily.api.intake import Item as Prepared
from lily.api.intake import Outcome, prepare
from lily.api.live.door import admitted, heard, say
from lily.api.live.hub import Cut, Follower, Live
from lily.api.live.wanted import Wanted, wanted
from lily.api.rest.changes import kinds_of
from lily.errors import FieldError, Invalid, LilyError
from lily.types import Caller
from lily.wiring import Services

BEAT = 15.0
PATIENCE = 10.0  # seconds that one message may take to be sent
MOST = 1_000

Given = dict[str, Any]


async def notifications(socket: WebSocket) -> None:
    """Changes as they happen. The first filters are in the address, later ones in a message."""
    entered = await admitted(socket, "feed:read")
    if entered is None:
        return
    caller, header = entered
    live: Live = socket.app.state.live
    try:
        chosen, after = _asked(caller, dict(socket.query_params))
    except Invalid as cause:
        await say(socket, {"type": "error", "errors": cause.errors, "message": str(cause)})
        await socket.close(1008)
        return
    follower = await live.follow(header, caller, chosen, after)
    try:
        await say(socket, {"type": "hello", "position": follower.position,
                           "tenant": caller.tenant.name})  # fmt: skip
        await _converse(socket, live, follower)
    finally:
        live.unfollow(follower)


async def _converse(socket: WebSocket, live: Live, follower: Follower) -> None:
    """Both directions at once, until either ends."""
    tasks = [
        asyncio.create_task(_tell(socket, follower)),
        asyncio.create_task(_listen(socket, follower)),
    ]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            task.result()


async def _tell(socket: WebSocket, follower: Follower) -> None:
    try:
        while True:
            items = await follower.take(BEAT)
            for item in items:
                async with asyncio.timeout(PATIENCE):
                    await socket.send_text(item.text)
                follower.position = max(follower.position, item.position)
            if not items:
                await say(socket, {"type": "heartbeat", "position": follower.position})
    except Cut as cut:
        async with asyncio.timeout(PATIENCE):
            await say(socket, {"type": cut.kind, "position": follower.position})
            await socket.close(cut.code)


async def _listen(socket: WebSocket, follower: Follower) -> None:
    while True:
        try:
            message = await heard(socket)
            kind = message.pop("type", None)
            if kind == "ping":
                await say(socket, {"type": "pong", "position": follower.position})
            elif kind == "subscribe":
                chosen, after = _asked(follower.caller, message)
                follower.wanted = chosen
                if after is not None:
                    follower.leave()
                    follower.position = min(after, follower.position)
                await say(socket, {"type": "subscribed", "position": follower.position})
            else:
                raise Invalid("must be subscribe or ping", "type")
        except LilyError as cause:
            errors = cause.errors if isinstance(cause, Invalid) else []
            await say(socket, {"type": "error", "message": str(cause), "errors": errors})


def _asked(caller: Caller, given: Given) -> tuple[Wanted, int | None]:
    """Filters, and the position to begin behind; None is where the feed is now."""
    after = given.pop("after", "now")
    if after != "now" and not (str(after).isascii() and str(after).isdigit()):
        raise Invalid("must be a position, 0, or now", "after")
    start = None if after == "now" else int(str(after)[:18])
    return wanted(caller, kinds_of(caller), given), start


async def ingest(socket: WebSocket) -> None:
    """Observations in, an acknowledgement each once it is durable. `ref` comes back as it was."""
    entered = await admitted(socket, "assets:ingest")
    if entered is None:
        return
    caller, header = entered
    services: Services = socket.app.state.services
    with suppress(WebSocketDisconnect, RuntimeError):
        while True:
            ref: Any = None
            try:
                message = await heard(socket)
                ref = message.get("ref")
                await _still(services, header)
                answer = await _appended(services, caller, message)
            except LilyError as cause:
                errors = cause.errors if isinstance(cause, Invalid) else []
                answer = {"type": "error", "message": str(cause), "errors": errors}
            await say(socket, {**answer, "ref": ref})


async def _still(services: Services, header: str) -> None:
    verifier = services.identity.verifier
    if verifier.cached(header) is None:
        await run_in_threadpool(verifier.authenticate, header)


async def _appended(services: Services, caller: Caller, message: Given) -> dict[str, Any]:
    """`{"ref", "assets": […]}`, `{"ref", "asset": {…}}`, or an asset as it is posted."""
    documents = message.get("assets", [message.get("asset", message)])
    if not isinstance(documents, list) or not 1 <= len(documents) <= MOST:
        raise Invalid(f"must be a list of 1 to {MOST} assets", "assets")
    made = prepare(services, caller, documents)
    items = [each for each in made if isinstance(each, Prepared)]
    if items:
        hot = await services.hot(caller.tenant.cell)
        await hot.appender.append([item.record for item in items])
    outcomes = [_outcome(each) for each in made]
    return {"type": "ack", "accepted": len(items), "items": outcomes}


def _outcome(each: Prepared | Outcome) -> dict[str, Any]:
    if isinstance(each, Outcome):
        errors: list[FieldError] = each.errors
        return {"outcome": "rejected", "errors": errors}
    return {"outcome": "accepted", "guid": each.guid, "cause": str(each.envelope.id)}


ROUTES = [
    WebSocketRoute("/ws/notifications", notifications),
    WebSocketRoute("/ws/ingest", ingest),
]
