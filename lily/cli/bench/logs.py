"""The same bench over one log and over another, in one run: what each costs."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event

from lily import wiring
from lily.cli.bench.place import Place, own_on
from lily.cli.bench.report import Report
from lily.workers.relay import Relay

IN, OUT = 10_000, 9_000  # events a second that a large installation takes in and tells
CPU = "CPU per event: "
AGAIN = "bench"  # follows the feeds once more, beside the workers


class Logs:
    """Measures a Lily of its own for each log, one after another."""

    def __init__(self, logs: Sequence[str], measure: Callable[[Place], Report]) -> None:
        self._logs = logs
        self._measure = measure

    def __call__(self, where: Place) -> Report:
        return self._measure(where)

    def beside_each_other(self) -> Report:
        report = Report("stream")
        for log in self._logs:
            with own_on(log) as where:
                found = self._measure(where)
                _cores(found)
                if log == "kafka":
                    _out(found, where)
            report.figures += [replace(e, what=f"{log}: {e.what}") for e in found.figures]
            report.limits += [replace(e, what=f"{log}: {e.what}") for e in found.limits]
            report.notes += [f"{log}: {note}" for note in found.notes]
        return report


def _cores(report: Report) -> None:
    """What the measured cost of an event makes of the target rate; the load is not counted."""
    spent = sum(
        each.value
        for each in report.figures
        if each.what.startswith(CPU) and each.what != f"{CPU}load"
    )
    report.add(f"cores for {IN:,}/s in", spent * IN / 1e6, "cores")


def _out(report: Report, where: Place) -> None:
    """Relay everything once more, here, where its cost can be told from others'."""
    with where.core("lily_system") as core:
        cluster = wiring.kafka(core.settings)
        assert cluster is not None
        relay = Relay(core, cluster, Event(), AGAIN)
        began, before = time.perf_counter(), sum(os.times()[:2])
        try:
            sent = relay.work()
        finally:
            relay.close()
        spent = sum(os.times()[:2]) - before
    report.add("facts relayed", sent / (time.perf_counter() - began), "/s", OUT, "more")
    report.add("CPU per fact relayed, without broker and store", spent / max(sent, 1) * 1e6, "µs")
    report.add(f"cores for {OUT:,}/s out", spent / max(sent, 1) * OUT, "cores")
