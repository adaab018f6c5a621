"""`Idempotency-Key` on POST: the same request twice has one effect and one answer."""

import hashlib
import re

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lily.api.deps import authenticated
from lily.api.limits import is_streamed, read, replay
from lily.api.problems import problem_response
from lily.errors import Conflict, Invalid, LilyError
from lily.store.idempotency import Answer, Answers, Earlier
from lily.types import Caller

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
LARGEST = 1_000_000
KEPT = ("content-type", "etag", "location")
# These say nothing about the request itself: it may be sent again with the same key.
PASSING = frozenset({401, 403, 408, 409, 429})


class Idempotency:
    """Works around any route, as it sees requests and answers only."""

    def __init__(self, app: ASGIApp, answers: Answers, limit: int) -> None:
        self.app = app
        self.answers = answers
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = None
        if scope["type"] == "http" and scope["method"] == "POST" and not is_streamed(scope):
            key = Headers(scope=scope).get("idempotency-key")
        caller = await _known(Request(scope)) if key is not None else None
        if key is None or caller is None:
            await self.app(scope, receive, send)
            return
        body = await read(receive, self.limit)
        if body is not None:
            await self._once(key, caller, body, scope, replay(body, receive), send)

    async def _once(
        self, key: str, caller: Caller, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = _digest(scope, body)
        try:
            if not _KEY.fullmatch(key):
                raise Invalid("must be 1 to 255 visible ASCII characters", "Idempotency-Key")
            earlier = await run_in_threadpool(self.answers.claim, caller, key, request)
            response = _replayed(earlier, request) if earlier else None
        except LilyError as exc:
            response = problem_response(exc, scope["path"])
            if isinstance(exc, Conflict):
                response.headers["Retry-After"] = "1"
        if response is not None:
            await response(scope, receive, send)
            return
        await self._first(key, caller, request, scope, receive, send)

    async def _first(
        self, key: str, caller: Caller, request: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        try:
            await self.app(scope, receive, collect)
        except Exception:
            await run_in_threadpool(self.answers.forget, caller, key, request)
            raise
        answer = _answer(messages)
        if answer is not None:
            await run_in_threadpool(self.answers.keep, caller, key, request, answer)
        else:
            await run_in_threadpool(self.answers.forget, caller, key, request)
        for message in messages:
            await send(message)


async def _known(request: Request) -> Caller | None:
    """Who asks; a bad token is left for the route to refuse."""
    try:
        return await authenticated(request)
    except LilyError:
        return None


def _digest(scope: Scope, body: bytes) -> bytes:
    text = f"{scope['method']} {scope['path']}?{scope['query_string'].decode('latin-1')}\n"
    return hashlib.sha256(text.encode() + body).digest()


def _replayed(earlier: Earlier, request: bytes) -> Response:
    if earlier.request != request:
        raise Invalid("was used for another request; take a new key", "Idempotency-Key")
    if earlier.answer is None:
        raise Conflict("The first request with this Idempotency-Key is still under way.")
    headers = {**earlier.answer.headers, "Idempotent-Replayed": "true"}
    return Response(earlier.answer.body, earlier.answer.status, headers)


def _answer(messages: list[Message]) -> Answer | None:
    """What to keep; None for what should rather be tried again."""
    start = next((m for m in messages if m["type"] == "http.response.start"), None)
    if start is None or start["status"] >= 500 or start["status"] in PASSING:
        return None
    body = b"".join(m.get("body", b"") for m in messages if m["type"] == "http.response.body")
    headers = Headers(raw=start["headers"])
    kept = {name: headers[name] for name in KEPT if name in headers}
    return Answer(start["status"], kept, body) if len(body) <= LARGEST else None
