"""CPU seconds by group of processes, read from /proc: API, Spark, PostgreSQL, workers, the load."""

import os
from collections.abc import Mapping
from pathlib import Path

from lily.cli import postgres
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report
from lily.store.presence import alive

PROC = Path("/proc")
GROUPS = {"serve": "api", "pipeline": "spark", "work": "workers"}


def roots(where: Place) -> dict[str, list[int]]:
    """The first process of each group; only of that Lily, and of this bench."""
    found: dict[str, list[int]] = {"load": [os.getpid()]}
    found |= {name: [pid] for name, pid in where.servers.items()}
    with where.core("lily_app", 1) as core:
        for process in alive(core.database):
            found.setdefault(GROUPS.get(process.role, process.role), []).append(process.pid)
    if where.settings.database == "embedded":
        pid = postgres.postmaster(where.settings.home / "postgres")
        if pid is not None:
            found["postgresql"] = [pid]
    return found


class Meter:
    """CPU seconds used since it was made."""

    def __init__(self, where: Place) -> None:
        self._roots = roots(where)
        self._began = self._read()

    def seconds(self) -> dict[str, float]:
        now = self._read()
        return {group: round(now[group] - self._began.get(group, 0.0), 2) for group in now}

    def tell(self, report: Report, what: str, count: int) -> None:
        """Microseconds of each group per event; they hold on a busy machine too."""
        for group, spent in sorted(self.seconds().items()):
            report.add(f"CPU per {what}: {group}", spent / max(count, 1) * 1e6, "µs")

    def _read(self) -> dict[str, float]:
        parents = _parents()
        # What this bench started itself is not load.
        others = {pid for group, pids in self._roots.items() if group != "load" for pid in pids}
        return {
            group: sum(_cpu(pid) for root in pids for pid in _tree(root, parents, others - {root}))
            for group, pids in self._roots.items()
        }


def below(root: int) -> list[int]:
    """All that a process has started, its own children first."""
    return _tree(root, _parents(), set())[1:]


def _tree(root: int, parents: Mapping[int, int], stop: set[int]) -> list[int]:
    """A process and all below it, except other groups."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found, left = [], [root]
    while left:
        pid = left.pop(0)
        found.append(pid)
        left += [child for child in children.get(pid, ()) if child not in stop]
    return found


def _parents() -> dict[int, int]:
    found = {}
    for folder in PROC.glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields:
            found[int(folder.name)] = int(fields[1])
    return found


def _cpu(pid: int) -> float:
    """Its own time, and that of children which have ended."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _stat(pid: int) -> list[str] | None:
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
