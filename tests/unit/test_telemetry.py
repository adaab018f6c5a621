"""Log lines, trace ids and metrics."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from lily import telemetry


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is global; leave it as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_a_line_says_when_what_and_whose() -> None:
    stream = io.StringIO()
    telemetry.configure("info", "json", stream)
    trace = telemetry.new_trace()
    for variable, value in (
        (telemetry.request_id, "r1"),
        (telemetry.tenant, "acme"),
        (telemetry.traceparent, str(trace)),
    ):
        variable.set(value)
    try:
        telemetry.logger("lily.test").info("asset stored", version=3)
    finally:
        telemetry.request_id.set("")
        telemetry.tenant.set("")
        telemetry.traceparent.set("")
    line = json.loads(stream.getvalue())
    assert list(line)[:4] == ["time", "level", "logger", "event"]
    assert line["event"] == "asset stored" and line["version"] == 3
    assert (line["request_id"], line["tenant"]) == ("r1", "acme")
    assert line["trace_id"] == trace.trace_id


def test_lines_of_libraries_look_the_same_and_bad_values_do_not_break_them() -> None:
    stream = io.StringIO()
    telemetry.configure("info", "json", stream)
    logging.getLogger("uvicorn.error").warning("started on %s", 8585)
    telemetry.logger("lily.test").info("odd", value=object(), raw=b"\xff")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "started on 8585"
    assert second["event"] == "odd"


def test_an_exception_is_one_line() -> None:
    stream = io.StringIO()
    telemetry.configure("info", "json", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        telemetry.logger("lily.test").error("failed", exc_info=True)
    [line] = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_the_level_is_respected() -> None:
    stream = io.StringIO()
    telemetry.configure("warning", "json", stream)
    telemetry.logger("lily.test").info("quiet")
    assert stream.getvalue() == ""


def test_pretty_lines_are_for_people() -> None:
    stream = io.StringIO()
    telemetry.configure("info", "pretty", stream)
    telemetry.logger("lily.test").info("hello")
    assert "hello" in stream.getvalue() and not stream.getvalue().startswith("{")


def test_a_child_stays_in_the_trace_of_its_parent() -> None:
    parent = telemetry.new_trace()
    child = telemetry.child_trace(str(parent))
    assert telemetry.parse_trace(str(parent)) == parent
    assert child.trace_id == parent.trace_id and child.span_id != parent.span_id


@pytest.mark.parametrize(
    "header",
    [None, "", "nonsense", f"00-{'0' * 32}-{'1' * 16}-01", f"ff-{'1' * 32}-{'1' * 16}-01"],
)
def test_what_is_no_traceparent_begins_a_new_trace(header: str | None) -> None:
    assert telemetry.parse_trace(header) is None
    assert telemetry.child_trace(header).trace_id


def test_metrics_are_exposed_by_name() -> None:
    telemetry.DEAD_LETTERS.labels("hook").inc()
    assert b'lily_dead_letters_total{stage="hook"}' in telemetry.exposition()
