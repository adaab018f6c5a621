"""Who is at the other end of a socket: proven by a header, or by the first message."""

import asyncio
from typing import Any
from uuid import uuid4

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from lily import telemetry
from lily.api.problems import problem_response
from lily.errors import Forbidden, Invalid, LilyError, Unauthenticated, Unreadable
from lily.identity.jwt import REFUSAL
from lily.identity.roles import Scope
from lily.types import Caller
from lily.wiring import Services

PATIENCE = 10.0  # seconds for the first message

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


async def admitted(socket: WebSocket, scope: Scope) -> tuple[Caller, str] | None:
    """Accept the socket of somebody who may; None when it was refused and closed."""
    telemetry.request_id.set(uuid4().hex)
    telemetry.traceparent.set(str(telemetry.child_trace(socket.headers.get("traceparent"))))
    given = ", ".join(socket.headers.getlist("authorization"))
    try:
        if given:
            caller = await _caller(socket, given, scope)
            await socket.accept()
            return caller, given
    except LilyError as cause:
        await _deny(socket, cause)
        return None
    await socket.accept()
    try:
        given = await _first(socket)
        return await _caller(socket, given, scope), given
    except LilyError as cause:
        code = 4403 if isinstance(cause, Forbidden) else 4401
        await say(socket, {"type": "error", "message": str(cause)})
        await socket.close(code)
    except WebSocketDisconnect:
        pass
    return None


async def say(socket: WebSocket, message: dict[str, Any]) -> None:
    await socket.send_text(_encode(message).decode())


async def heard(socket: WebSocket) -> dict[str, Any]:
    """The next message: a JSON object. Raises WebSocketDisconnect, Unreadable, Invalid."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code") or 1000)
    raw = message.get("text") or message.get("bytes") or ""
    try:
        found = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unreadable("A message must be valid JSON.") from None
    if not isinstance(found, dict):
        raise Invalid("must be a JSON object", "message")
    return found


async def _first(socket: WebSocket) -> str:
    try:
        async with asyncio.timeout(PATIENCE):
            message = await heard(socket)
    except TimeoutError:
        raise Unauthenticated(REFUSAL) from None
    token = message.get("token")
    if message.get("type") != "auth" or not isinstance(token, str):
        raise Unauthenticated(REFUSAL)
    return f"Bearer {token}"


async def _caller(socket: WebSocket, header: str, scope: Scope) -> Caller:
    services: Services = socket.app.state.services
    verifier = services.identity.verifier
    caller = verifier.cached(header)
    if caller is None:
        caller = await run_in_threadpool(verifier.authenticate, header)
    telemetry.tenant.set(caller.tenant.name)
    if not caller.may(scope):
        raise Forbidden(f"This needs the right {scope}, which your role does not have.")
    return caller


async def _deny(socket: WebSocket, cause: LilyError) -> None:
    if "websocket.http.response" in socket.scope.get("extensions", {}):
        answer: Response = problem_response(cause, socket.url.path)
        await socket.send_denial_response(answer)
    else:
        await socket.close(1008)
