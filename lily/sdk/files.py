"""Files of assets, for sources: the formats that a bulk load reads, as documents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lily.errors import Invalid
from lily.formats.columns import Format
from lily.formats.files import records


def documents(format: Format, path: Path) -> Iterator[dict[str, Any]]:
    """One document an asset, never all in memory. Raises Invalid where one cannot be read."""
    for record in records(format, path):
        if record.reason or not isinstance(record.value, dict):
            raise Invalid(record.reason or "is not an object", f"line {record.line}")
        yield record.value
