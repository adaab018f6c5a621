"""What a bench found: each figure with its target, and a raw limit from the same run beside it."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import typer

from lily.cli import show
from lily.cli.failures import FAILED
from lily.clock import SystemClock


@dataclass(frozen=True)
class Figure:
    """One number. With a target it is met or not; without, it is told."""

    what: str
    value: float
    unit: str
    target: float | None = None
    better: Literal["less", "more"] = "less"

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "less" else self.value >= self.target


@dataclass(frozen=True)
class Limit:
    """What the bare machine does in the same run, and which part of it the bench reached."""

    what: str
    value: float
    unit: str
    reached: float


@dataclass
class Report:
    bench: str
    figures: list[Figure] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        what: str,
        value: float,
        unit: str,
        target: float | None = None,
        better: Literal["less", "more"] = "less",
    ) -> None:
        self.figures.append(Figure(what, round(value, 6), unit, target, better))

    def latency(
        self, what: str, seconds: Sequence[float], *, p50: float = 0, p95: float = 0
    ) -> None:
        """Median and 95th percentile in milliseconds; targets in milliseconds, 0 is none."""
        self.add(f"{what} p50", percentile(seconds, 0.50) * 1e3, "ms", p50 or None)
        self.add(f"{what} p95", percentile(seconds, 0.95) * 1e3, "ms", p95 or None)

    def limit(self, what: str, value: float, unit: str, measured: float) -> None:
        reached = measured / value if value else 0.0
        self.limits.append(Limit(what, round(value, 6), unit, round(reached, 4)))

    @property
    def met(self) -> bool:
        return all(figure.met is not False for figure in self.figures)

    def document(self) -> dict[str, Any]:
        return {
            "bench": self.bench,
            "command": command(),
            "at": SystemClock().now().isoformat(timespec="seconds"),
            "machine": machine(),
            "met": self.met,
            "figures": [{**asdict(each), "met": each.met} for each in self.figures],
            "limits": [asdict(each) for each in self.limits],
            "notes": self.notes,
        }


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that so many are not above; 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def command() -> str:
    return " ".join(["lily", *sys.argv[1:]])


def machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory, 1)}


def tell(report: Report, as_json: bool) -> None:
    """Show it; a target that was missed is an exit code too."""
    if as_json:
        show.document(report.document())
    else:
        _table(report)
    if not report.met:
        raise typer.Exit(FAILED)


def _table(report: Report) -> None:
    cores = machine()["cores"]
    typer.echo(f"{command()}   ({cores} cores)")
    rows = [
        {
            "what": each.what,
            "measured": f"{number(each.value)} {each.unit}",
            "target": "" if each.target is None else _target(each),
            "met": "" if each.met is None else "yes" if each.met else "NO",
        }
        for each in report.figures
    ]
    show.rows(rows, ("what", "measured", "target", "met"), False)
    for limit in report.limits:
        said = f"raw limit: {limit.what} {number(limit.value)} {limit.unit}"
        typer.echo(f"{said}; measured is {limit.reached:.2f} of it")
    for note in report.notes:
        typer.echo(note)


def _target(figure: Figure) -> str:
    sign = "≤" if figure.better == "less" else "≥"
    return f"{sign} {number(figure.target or 0)} {figure.unit}"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
