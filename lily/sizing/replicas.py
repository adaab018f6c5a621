"""How many processes and cores of each role a backlog asks for. Numbers in, advice out."""

import re
from math import ceil

import msgspec

GAUGE = re.compile(
    r'^(lily_log_lag|lily_log_lag_seconds)\{cell="([^"]*)",lane="([^"]*)"\} (\S+)$', re.MULTILINE
)
ENOUGH = 4  # cores: one pipeline decides in one Python process and gains little beyond


class Waiting(msgspec.Struct, frozen=True):
    """One lane of one cell: how many observations wait, and for how long the oldest has."""

    cell: str
    lane: str
    waiting: int
    seconds: float = 0.0


class Load(msgspec.Struct, frozen=True):
    """What is known of an installation at one moment."""

    lanes: list[Waiting]
    requests_per_second: float = 0.0
    deliveries_per_second: float = 0.0


class Goals(msgspec.Struct, frozen=True):
    """How soon a backlog must be gone, and how much one core carries."""

    pipeline_per_second: float  # observations, by one core
    api_per_second: float  # requests, by one core
    deliveries_per_second: float = 200.0  # by one process of `lily work`
    drain_seconds: float = 300.0
    busy: float = 0.6  # the share of the time that a process is planned to work
    least: int = 2  # so that one may die; 1 where that may hurt
    most: int = 64


class Advice(msgspec.Struct, frozen=True):
    """So many processes of a role with so many cores each, and why."""

    role: str
    cell: str
    lane: str
    replicas: int
    cores: int
    why: str


def from_metrics(text: str) -> list[Waiting]:
    """Every lane of every cell that a text of /metrics speaks of."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for name, cell, lane, value in GAUGE.findall(text):
        found.setdefault((cell, lane), {})[name] = float(value)
    return [
        Waiting(cell, lane, int(said.get("lily_log_lag", 0)), said.get("lily_log_lag_seconds", 0.0))
        for (cell, lane), said in sorted(found.items())
    ]


def recommend(load: Load, goals: Goals) -> list[Advice]:
    """A line for `serve` and `work`, and one a cell and lane for `pipeline`."""
    lanes = sorted(load.lanes, key=lambda each: (each.cell, each.lane))
    return [_serve(load, goals), *(_pipeline(each, goals) for each in lanes), _work(load, goals)]


def _serve(load: Load, goals: Goals) -> Advice:
    each = goals.api_per_second * goals.busy
    wanted = _within(load.requests_per_second / each, goals.least, goals.most)
    why = f"{load.requests_per_second:,.0f} requests/s, {each:,.0f}/s by one core"
    return Advice("serve", "", "", wanted, 1, why)


def _pipeline(lane: Waiting, goals: Goals) -> Advice:
    """One process writes, the others stand by: a backlog asks for cores, not for processes."""
    drained = goals.pipeline_per_second * goals.busy * goals.drain_seconds
    cores = _within(lane.waiting / drained, 1, goals.most)
    since = f", the oldest since {lane.seconds:,.0f} s" if lane.waiting else ""
    in_time = f"{drained:,.0f} in {goals.drain_seconds:,.0f} s"
    why = f"{lane.waiting:,} wait{since}; a core drains {in_time}"
    if cores > ENOUGH:
        cores = ENOUGH
        why += "; more cores would idle: load what can wait as a file (`lily ingest`)"
    return Advice("pipeline", lane.cell, lane.lane, goals.least, cores, why)


def _work(load: Load, goals: Goals) -> Advice:
    each = goals.deliveries_per_second * goals.busy
    wanted = _within(load.deliveries_per_second / each, goals.least, goals.most)
    why = f"{load.deliveries_per_second:,.0f} deliveries/s, {each:,.0f}/s by one process"
    return Advice("work", "", "", wanted, 1, why)


def _within(wanted: float, least: int, most: int) -> int:
    return max(least, min(ceil(wanted), most))
