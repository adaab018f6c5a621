"""The two tables that costs are made of: prices (anybody's) and rates (measured on this code)."""

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from lily.errors import Invalid


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    currency: str
    compute: dict[str, float]
    storage: dict[str, float]
    kafka: dict[str, float]
    network: dict[str, float]


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds of one core and bytes, each for one asset or change. See rates.toml."""

    api_seconds: float
    pipeline_seconds: float
    merge_seconds: float
    append_seconds: float
    read_seconds: float
    load_seconds: float
    disk_bytes: float
    log_bytes: float
    fact_bytes: float
    lake_bytes: float
    wal_bytes: float
    broker_bytes: float
    peak: float
    busy: float
    room: float
    memory_share: float
    gb_per_core: float


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure and where it comes from: `measured` names the run, `assumed` says why."""

    value: float
    measured: str = ""
    assumed: str = ""


def prices(path: Path | None = None) -> Prices:
    """Those of the repository, or of a file of the same shape."""
    text = path.read_text() if path else _own("prices.toml")
    try:
        return msgspec.convert(tomllib.loads(text), Prices)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as cause:
        raise Invalid(f"is not a price table: {cause}", "prices") from cause


def sources() -> dict[str, Rate]:
    """Every rate with its origin."""
    return msgspec.convert(tomllib.loads(_own("rates.toml")), dict[str, Rate])


def rates() -> Rates:
    return msgspec.convert({name: each.value for name, each in sources().items()}, Rates)


def _own(name: str) -> str:
    return (resources.files("lily.sizing") / name).read_text()
