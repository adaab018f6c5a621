"""HTTP/1.1 over kept connections, with as little of the machine as possible.

The load shares its cores with what it measures: a request costs about 60 µs here, three times as
much in a general client.
"""

import asyncio
import re
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CLOSING = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
NO_BODY = (204, 304)


@dataclass(frozen=True)
class Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        self.writer.close()


class Wire:
    """Connections to one server; each carries one request at a time."""

    def __init__(self, url: str, connections: int) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if secure else 80)
        self._tls = ssl.create_default_context() if secure else None
        self._free = asyncio.Semaphore(connections)
        self._idle: list[Link] = []

    async def request(
        self, method: str, path: str, head: str, body: bytes | None
    ) -> tuple[int, bytes]:
        """Status and body; raises OSError when the connection breaks."""
        raw = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n{head}"
            f"Content-Length: {len(body or b'')}\r\n\r\n"
        ).encode() + (body or b"")
        async with self._free:
            link = self._idle.pop() if self._idle else await self._open()
            try:
                link.writer.write(raw)
                status, answer, keep = await _answer(link.reader)
            except asyncio.IncompleteReadError as cause:
                link.close()
                raise ConnectionResetError("the server closed the connection") from cause
            except BaseException:
                link.close()
                raise
            if keep:
                self._idle.append(link)
            else:
                link.close()
        return status, answer

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _open(self) -> Link:
        return Link(*await asyncio.open_connection(self._host, self._port, ssl=self._tls))


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    length = LENGTH.search(head)
    if length is None and CHUNKED.search(head):
        return status, await _chunks(reader), CLOSING.search(head) is None
    if length is None and status not in NO_BODY:
        raise OSError("an answer without a length")
    body = await reader.readexactly(int(length.group(1))) if length else b""
    return status, body, CLOSING.search(head) is None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        found.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return b"".join(found)
