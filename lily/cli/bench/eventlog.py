"""What Spark itself wrote down of an application: who ran which tasks, and for how long."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

DRIVER = "driver"  # as Spark calls it where there are no executors


class Task(msgspec.Struct, frozen=True):
    executor: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Told(msgspec.Struct):
    """An application so far; moments in seconds of the clock."""

    executors: dict[str, str] = {}  # by number, with the worker that each is on
    lost: list[str] = []
    jobs: list[tuple[float, float]] = []
    tasks: list[Task] = []
    plans: list[str] = []

    def since(self, moment: float) -> "Told":
        """Only what began later; executors stay."""
        jobs = [each for each in self.jobs if each[0] >= moment]
        tasks = [each for each in self.tasks if each.began >= moment]
        return Told(self.executors, self.lost, jobs, tasks, self.plans)

    @property
    def seconds(self) -> float:
        """From the first job's start to the last one's end."""
        if not self.jobs:
            return 0.0
        return max(end for _, end in self.jobs) - min(began for began, _ in self.jobs)

    @property
    def counts(self) -> Counter[str]:
        """Tasks by executor."""
        return Counter(each.executor for each in self.tasks)

    @property
    def busy(self) -> dict[str, float]:
        """Seconds of tasks by executor."""
        found: dict[str, float] = {}
        for each in self.tasks:
            found[each.executor] = found.get(each.executor, 0.0) + each.seconds
        return found


def read(folder: Path, application: str = "") -> Told:
    """All that is in a folder of event logs, of applications of one name."""
    told = Told()
    for path in sorted(folder.glob("*")):
        events = list(_events(path))
        names = {e["App Name"] for e in events if e["Event"] == "SparkListenerApplicationStart"}
        if not application or application in names:
            _take(told, events)
    return told


def _take(told: Told, events: list[dict[str, Any]]) -> None:
    began: dict[int, float] = {}
    for each in events:
        match each["Event"]:
            case "SparkListenerExecutorAdded":
                told.executors[each["Executor ID"]] = each["Executor Info"]["Host"]
            case "SparkListenerExecutorRemoved":
                told.lost.append(each["Executor ID"])
            case "SparkListenerJobStart":
                began[each["Job ID"]] = each["Submission Time"] / 1000
            case "SparkListenerJobEnd":
                told.jobs.append((began[each["Job ID"]], each["Completion Time"] / 1000))
            case "SparkListenerTaskEnd" if each["Task End Reason"]["Reason"] == "Success":
                info = each["Task Info"]
                ran = info["Launch Time"] / 1000, info["Finish Time"] / 1000
                told.tasks.append(Task(info["Executor ID"], *ran))
            case event if event.endswith("SparkListenerSQLExecutionStart"):
                told.plans.append(each["physicalPlanDescription"])


def _events(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines only: the last one may still be being written."""
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)
