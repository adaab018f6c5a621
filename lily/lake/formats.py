"""Rows as a stream of bytes: NDJSON, Arrow, Parquet. A batch is in memory, never the whole."""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq


class _Drain:
    """A file that only goes forward, and forgets what was taken from it."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._written = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._waiting.append(bytes(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        taken, self._waiting = b"".join(self._waiting), []
        return taken


def ndjson(rows: pa.RecordBatchReader) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    for batch in rows:
        yield b"".join(encode(row) + b"\n" for row in batch.to_pylist())


def arrow(rows: pa.RecordBatchReader) -> Iterator[bytes]:
    drain = _Drain()
    with pa.ipc.new_stream(pa.PythonFile(drain, mode="w"), rows.schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
            yield drain.take()
    yield drain.take()


def parquet(rows: pa.RecordBatchReader) -> Iterator[bytes]:
    drain = _Drain()
    with pq.ParquetWriter(
        pa.PythonFile(drain, mode="w"), rows.schema, compression="zstd"
    ) as writer:
        for batch in rows:
            writer.write_batch(batch)
            yield drain.take()
    yield drain.take()


WRITERS: Mapping[str, Callable[[pa.RecordBatchReader], Iterator[bytes]]] = {
    "ndjson": ndjson,
    "arrow": arrow,
    "parquet": parquet,
}
