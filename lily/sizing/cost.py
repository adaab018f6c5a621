"""What an estate costs a month: measured rates times prices. docs/cost.md shows the sums."""

from collections.abc import Callable
from math import ceil

import msgspec

from lily.sizing.tables import Prices, Rates

HOURS = 730.0  # of a month
DAYS = HOURS / 24
DAY = 86_400.0
GB = 1e9


class Estate(msgspec.Struct, frozen=True):
    """How large, how lively, and how it is run."""

    assets: float
    changes_per_day: float
    reads_per_second: float = 10.0
    facts_out: float = 1.0  # how many times a fact leaves for a subscriber outside
    log: str = "postgres"  # or kafka
    log_days: float = 7.0
    lake_days: float = 365.0
    fact_days: float = 365.0
    standby: bool = True  # a second copy of the store, and a second process of every role
    zones: bool = True  # the copies are in different zones
    core: str = "on_demand"  # price of the cores that always run
    bulk_core: str = "on_demand"  # price of the cores that load files
    shelf: str = "object"  # price of the lake's storage


class Line(msgspec.Struct, frozen=True):
    """One price of the month and how it came about."""

    part: str
    what: str
    amount: float
    unit: str
    price: float
    cost: float


class Choice(msgspec.Struct, frozen=True):
    """A cheaper way, what it saves a month, and what is given up for it."""

    name: str
    saves: float
    given_up: str


class Bill(msgspec.Struct, frozen=True):
    lines: list[Line]
    total: float
    first_load_core_hours: float
    first_load: float
    per_million_assets: float
    choices: list[Choice]


def bill(estate: Estate, rates: Rates, prices: Prices) -> Bill:
    """The month, the first load, and what would make it cheaper, the largest saving first."""
    lines = _lines(estate, rates, prices)
    total = sum(line.cost for line in lines)
    hours = estate.assets * rates.load_seconds / 3600
    return Bill(
        lines,
        total,
        hours,
        hours * prices.compute[estate.bulk_core],
        total / (estate.assets / 1e6),
        _choices(estate, rates, prices, total),
    )


def _lines(estate: Estate, rates: Rates, prices: Prices) -> list[Line]:
    found = [
        *_compute(estate, rates, prices),
        *_storage(estate, rates, prices),
        *(_kafka(estate, rates, prices) if estate.log == "kafka" else ()),
        *_network(estate, rates, prices),
    ]
    return [line for line in found if line.amount]


def cores(estate: Estate, rates: Rates) -> dict[str, float]:
    """Cores of each role at the peak, before copies; a process has a whole core at least."""
    peak = estate.changes_per_day / DAY * rates.peak / rates.busy
    reads = estate.reads_per_second * rates.peak / rates.busy
    memory = estate.assets * rates.disk_bytes * rates.memory_share / GB / rates.gb_per_core
    append = rates.append_seconds if estate.log == "postgres" else 0.0
    store = peak * (rates.merge_seconds + append) + reads * rates.read_seconds
    return {
        "serve": max(ceil(peak * rates.api_seconds + reads * rates.read_seconds), 1),
        "pipeline": max(ceil(peak * rates.pipeline_seconds), 1),
        "work": 1,
        "store": max(ceil(store), ceil(memory), 1),
    }


def _compute(estate: Estate, rates: Rates, prices: Prices) -> list[Line]:
    copies = 2 if estate.standby else 1
    price = prices.compute[estate.core]
    return [
        _line("compute", f"{role}, {copies} x", count * copies * HOURS, "core-hours", price)
        for role, count in cores(estate, rates).items()
    ]


def _storage(estate: Estate, rates: Rates, prices: Prices) -> list[Line]:
    copies = 2 if estate.standby else 1
    facts = estate.changes_per_day * estate.fact_days * rates.fact_bytes
    store = (estate.assets * rates.disk_bytes + facts) * rates.room * copies / GB
    kept = estate.changes_per_day * estate.log_days * rates.log_bytes
    log = kept * copies / GB if estate.log == "postgres" else 0.0
    per_change = estate.changes_per_day * estate.lake_days * rates.lake_bytes
    lake = (per_change + estate.assets * rates.lake_bytes) / GB
    ssd = prices.storage["ssd"]
    return [
        _line("storage", f"store, {copies} x", store, "GB", ssd),
        _line("storage", f"log, {copies} x", log, "GB", ssd),
        _line("storage", "lake", lake, "GB", prices.storage[estate.shelf]),
    ]


def _kafka(estate: Estate, rates: Rates, prices: Prices) -> list[Line]:
    """Three brokers carry more than any estate here; replicas are theirs."""
    brokers = max(3, ceil(_bytes_a_second(estate, rates) * rates.peak / rates.broker_bytes))
    kept = estate.changes_per_day * estate.log_days * rates.log_bytes * 3 / GB
    return [
        _line("kafka", "brokers", brokers * HOURS, "hours", prices.kafka["broker_hour"]),
        _line("kafka", "disks, 3 x", kept, "GB", prices.kafka["gb_month"]),
    ]


def _network(estate: Estate, rates: Rates, prices: Prices) -> list[Line]:
    changes = estate.changes_per_day * DAYS
    # In by the API, into the log, out to the pipeline, and the store's own log to its copy.
    crossing = changes * (3 * rates.log_bytes + (rates.wal_bytes if estate.standby else 0.0))
    if estate.log == "kafka":
        crossing += changes * 2 * rates.log_bytes  # from the leader to two followers
    out = changes * estate.facts_out * rates.fact_bytes
    between = crossing / GB if estate.zones else 0.0
    return [
        _line("network", "between zones", between, "GB", prices.network["between_zones"]),
        _line("network", "facts to subscribers", out / GB, "GB", prices.network["to_internet"]),
    ]


def _bytes_a_second(estate: Estate, rates: Rates) -> float:
    return estate.changes_per_day * rates.log_bytes / DAY


def _line(part: str, what: str, amount: float, unit: str, price: float) -> Line:
    return Line(part, what, amount, unit, price, amount * price)


Change = Callable[[Estate], Estate]


def _with(**fields: object) -> Change:
    return lambda estate: msgspec.structs.replace(estate, **fields)


WAYS: tuple[tuple[str, Change, str], ...] = (
    ("the log in PostgreSQL", _with(log="postgres"), "producers that write to topics themselves"),
    ("ARM cores", _with(core="arm"), "nothing, if your plug-ins run there"),
    ("cores committed for a year", _with(core="reserved"), "freedom to shrink within that year"),
    ("log kept for one day", _with(log_days=1.0), "replays of older observations from the log"),
    ("lake kept for 90 days", _with(lake_days=90.0), "older raw observations and versions"),
    ("lake on rarely read storage", _with(shelf="object_rare"), "cheap reads of the lake"),
    ("everything in one zone", _with(zones=False), "service while that zone is down"),
    (
        "no standbys",
        _with(standby=False, zones=False),
        "minutes of service at each failure; a backup instead of a copy",
    ),
)


def _choices(estate: Estate, rates: Rates, prices: Prices, total: float) -> list[Choice]:
    """Each way alone, against the bill as it is; ways that save nothing are left out."""
    found = []
    for name, change, given_up in WAYS:
        saved = total - sum(line.cost for line in _lines(change(estate), rates, prices))
        if saved > 0.005:
            found.append(Choice(name, saved, given_up))
    return sorted(found, key=lambda choice: -choice.saves)
