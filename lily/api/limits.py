"""Request bodies: bounded, gunzipped, and read once."""

import zlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lily.api.problems import problem_response
from lily.errors import LilyError, TooLarge, Unreadable

BULK_PATH = "/api/v1/metadata/bulk"


def is_streamed(scope: Scope) -> bool:
    """Whether the route itself takes the body, piece by piece, without a limit of ours."""
    return bool(scope["path"] == BULK_PATH and scope["method"] == "POST")


class Bodies:
    """Reads the body before the application does; what is over the limit is not read on."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else None
        if headers is None or not _has_body(headers) or is_streamed(scope):
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(headers, receive)
        except LilyError as exc:
            response = problem_response(exc, scope["path"])
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        if body is not None:
            _tell_plain(scope, len(body))
            await self.app(scope, replay(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """The whole body as it was meant; None when the client went away."""
        if int(_digits(headers.get("content-length"))) > self.limit:
            raise self._too_large()
        raw = await read(receive, self.limit)
        if raw is None:
            return None
        if len(raw) > self.limit:
            raise self._too_large()
        return self._decode(raw, headers.get("content-encoding", "identity").strip().lower())

    def _decode(self, raw: bytes, encoding: str) -> bytes:
        if encoding in ("", "identity"):
            return raw
        if encoding != "gzip":
            raise Unreadable("Content-Encoding must be gzip, or absent.")
        try:
            return self._gunzip(raw)
        except zlib.error as cause:
            raise Unreadable("The body is not valid gzip.") from cause

    def _gunzip(self, raw: bytes) -> bytes:
        """Stops as soon as the limit is passed: a small bomb never unfolds."""
        plain = b""
        while raw:
            member = zlib.decompressobj(wbits=31)
            plain += member.decompress(raw, self.limit + 1 - len(plain))
            if len(plain) > self.limit:
                raise self._too_large()
            if not member.eof:
                raise Unreadable("The gzip body ends too early.")
            raw = member.unused_data
        return plain

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"The body is larger than {self.limit} bytes; send less at once,"
            " or raise LILY_BODY_LIMIT."
        )


async def read(receive: Receive, limit: int) -> bytes | None:
    """Up to a little more than the limit; None when the client went away."""
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
    return b"".join(chunks)


def replay(body: bytes, receive: Receive) -> Receive:
    """The body again as one message; then whatever the connection says."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _digits(value: str | None) -> str:
    if value is not None and not (value.isascii() and value.isdigit() and len(value) < 19):
        raise Unreadable("Content-Length is not a number.")
    return value or "0"


def _tell_plain(scope: Scope, size: int) -> None:
    headers = MutableHeaders(scope=scope)
    if "content-encoding" in headers:
        del headers["content-encoding"]
        headers["content-length"] = str(size)
