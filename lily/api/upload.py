"""A request's body on its way to the spool: unpacked, cut, never held in memory."""

import errno
import os
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol
from uuid import UUID

import zstandard
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from lily.errors import TooLarge, Unavailable, Unreadable
from lily.formats import files
from lily.formats.columns import Kind, Packing
from lily.store.spool import Cutter, Folder, sync_folder

BLOCK = 1 << 20
FULL = "The disk of the spool is full; make room, or send a smaller file."


class Sink(Protocol):
    def write(self, data: bytes) -> object: ...


class Unpacker(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...

    @property
    def eof(self) -> bool: ...


class Upload:
    """One file of one job. Call `take` with the body; it is safe on disk afterwards."""

    def __init__(self, spool: Path, job: UUID, kind: Kind, limit: int) -> None:
        self._folder = Folder(spool, job)
        self._kind = kind
        self._limit = limit
        self.bytes = 0
        self.lines: int | None = None
        self._plain = 0

    async def take(self, body: AsyncIterator[bytes]) -> None:
        """Raises what is wrong with it; then nothing of it is left."""
        try:
            await self._take(body)
        except OSError as cause:
            await run_in_threadpool(self._folder.remove)
            if cause.errno == errno.ENOSPC:
                raise Unavailable(FULL, after=60) from None
            raise
        except BaseException:
            await run_in_threadpool(self._folder.remove)
            raise

    async def _take(self, body: AsyncIterator[bytes]) -> None:
        await run_in_threadpool(self._folder.create)
        writing = await run_in_threadpool(self._open)
        try:
            held: list[bytes] = []
            size = 0
            async for data in body:
                held.append(data)
                size += len(data)
                if size >= BLOCK:
                    await run_in_threadpool(writing.write, b"".join(held))
                    held, size = [], 0
            if held:
                await run_in_threadpool(writing.write, b"".join(held))
            await run_in_threadpool(writing.finish)
        except ClientDisconnect:
            raise Unreadable(f"The upload broke off after {self.bytes} bytes.") from None
        finally:
            await run_in_threadpool(writing.close)

    def _open(self) -> "Writing":
        return Writing(self, self._folder, self._kind, self._limit)


class Writing:
    """The open files of an upload."""

    def __init__(self, upload: Upload, folder: Folder, kind: Kind, limit: int) -> None:
        self._upload = upload
        self._folder = folder
        self._kind = kind
        self._limit = limit
        self._plain = 0
        self._unpack = unpacker(kind.packing)
        self._growing: Path | None = None
        self._cutter: Cutter | None = None
        if kind.format == "ndjson":
            self._growing = folder.growing()
            self._cutter = Cutter(self._growing, lined=False)
            self._sink: Sink = self._cutter
        else:
            self._file = folder.upload.open("wb")
            self._sink = self._file

    def write(self, data: bytes) -> None:
        self._upload.bytes += len(data)
        while data:
            data = self._some(data)

    def _some(self, data: bytes) -> bytes:
        """Write a piece; what is left behind the end of a packed member."""
        rest = b""
        if self._unpack is not None:
            try:
                plain = self._unpack.decompress(data)
            except (zlib.error, zstandard.ZstdError):
                raise Unreadable(f"The body is not valid {self._kind.packing}.") from None
            if self._unpack.eof:
                rest = getattr(self._unpack, "unused_data", b"")
                if rest:
                    self._unpack = unpacker(self._kind.packing)
            data = plain
        if self._plain == 0 and self._kind.format == "ndjson" and data.lstrip()[:1] == b"[":
            raise Unreadable("This is a JSON array, not an object a line; send application/json.")
        self._plain += len(data)
        if self._plain > self._limit:
            raise TooLarge(
                f"The file is larger than {self._limit} bytes; send several, or raise"
                " LILY_BULK_LIMIT."
            )
        self._sink.write(data)
        return rest

    def finish(self) -> None:
        """All of it is on disk, and looks like what it claims to be."""
        if self._unpack is not None and not self._unpack.eof:
            raise Unreadable(f"The {self._kind.packing} body ends too early.")
        if self._plain == 0:
            raise Unreadable("The file is empty.")
        if self._cutter is not None and self._growing is not None:
            self._upload.lines = self._cutter.close()
            self._folder.finish(self._growing)
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        sync_folder(self._folder.path)
        files.check(self._kind.format, self._folder.upload)

    def close(self) -> None:
        if self._cutter is not None:
            self._cutter.abandon()
        else:
            self._file.close()


def unpacker(packing: Packing) -> Unpacker | None:
    if packing == "gzip":
        return zlib.decompressobj(wbits=31)
    if packing == "zstd":
        return zstandard.ZstdDecompressor().decompressobj()
    return None
