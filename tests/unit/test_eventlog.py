"""What Spark's event log says of who did the work."""

import json
from pathlib import Path
from typing import Any

from lily.cli.bench import eventlog


def _task(executor: str, began: int, ended: int, reason: str = "Success") -> dict[str, Any]:
    info = {"Executor ID": executor, "Launch Time": began, "Finish Time": ended}
    return {
        "Event": "SparkListenerTaskEnd",
        "Task Info": info,
        "Task End Reason": {"Reason": reason},
    }


def _job(number: int, began: int, ended: int) -> list[dict[str, Any]]:
    return [
        {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": began},
        {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": ended},
    ]


def _executor(number: str) -> dict[str, Any]:
    info = {"Host": "10.0.0.7"}
    return {"Event": "SparkListenerExecutorAdded", "Executor ID": number, "Executor Info": info}


def _write(path: Path, name: str, events: list[dict[str, Any]], rest: str = "") -> None:
    first = {"Event": "SparkListenerApplicationStart", "App Name": name}
    path.write_text("".join(json.dumps(each) + "\n" for each in [first, *events]) + rest)


def test_work_is_told_by_executor_and_half_a_line_is_left_alone(tmp_path: Path) -> None:
    events = [
        _executor("0"),
        _executor("1"),
        *_job(0, 1_000, 2_000),
        _task("0", 1_000, 1_500),
        *_job(1, 10_000, 14_000),
        _task("0", 10_000, 13_000),
        _task("1", 10_000, 14_000),
        _task("1", 10_000, 10_001, "ExceptionFailure"),
        {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1"},
    ]
    _write(tmp_path / "app-1", "lily-bulk", events, '{"Event": "SparkListenerTas')
    _write(tmp_path / "app-2", "lily-ingest", [_task("driver", 0, 5_000)])
    told = eventlog.read(tmp_path, "lily-bulk")
    assert (told.counts, told.lost, told.seconds) == ({"0": 2, "1": 1}, ["1"], 13.0)
    later = told.since(5.0)
    assert (later.seconds, later.busy) == (4.0, {"0": 3.0, "1": 4.0})
    assert later.executors == {"0": "10.0.0.7", "1": "10.0.0.7"}
    assert eventlog.read(tmp_path).counts[eventlog.DRIVER] == 1


def test_a_log_of_nobody_tells_nothing(tmp_path: Path) -> None:
    told = eventlog.read(tmp_path, "lily-bulk")
    assert (told.seconds, told.counts, told.tasks) == (0.0, {}, [])
