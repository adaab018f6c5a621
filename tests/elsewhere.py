"""The same tests on the large end of the system: Kafka as the log, Spark on a cluster.

LILY_TEST_LOG=kafka and LILY_TEST_SPARK=cluster run what goes through log or Spark, and nothing
else: a test says by its fixtures that it does. Servers are started here, and end with the session.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

WAYS = {"LILY_TEST_LOG": ("kafka", "log_url"), "LILY_TEST_SPARK": ("cluster", "spark_master")}

SPARKS = ("SPARK_CONF_DIR", "SPARK_LOCAL_IP")  # what it reads from the environment of a driver


def keep_what_goes_there(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that use neither a log nor a Spark which are elsewhere."""
    wanted = {fixture for name, (_, fixture) in WAYS.items() if _elsewhere(name)}
    if not wanted:
        return
    left = [each for each in items if not wanted & {*getattr(each, "fixturenames", ())}]
    config.hook.pytest_deselected(items=left)
    items[:] = [each for each in items if each not in left]


def refuse_skips(session: pytest.Session) -> None:
    """What was skipped was not shown, unless skipping is allowed."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped") if reporter is not None else None
    if skipped and any(map(_elsewhere, WAYS)) and not _may_skip():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def log_is() -> bool:
    """Whether it is not in PostgreSQL."""
    return _elsewhere("LILY_TEST_LOG")


@contextmanager
def log() -> Iterator[str]:
    if not log_is():
        yield "postgres"
        return
    from lily.cli.broker import CannotFetch, broker
    from tests.scale.kafka_lily import fetch_jars

    fetch_jars(_missing)
    with ExitStack() as stack:
        try:
            running = stack.enter_context(broker())
        except CannotFetch as cause:
            _missing(str(cause))
        yield f"kafka://{running.address}"


@contextmanager
def spark(folder: Path) -> Iterator[str]:
    if not _elsewhere("LILY_TEST_SPARK"):
        yield "local[*]"
        return
    from lily.cli.standalone import standalone

    with standalone(folder) as made:
        given = made.application("flow", {"spark.cores.max": "2"})
        os.environ.update({name: given[name] for name in SPARKS})  # noqa: TID251
        yield made.url


def _missing(reason: str) -> NoReturn:
    if _may_skip():
        pytest.skip(reason)
    pytest.fail(f"{reason} (LILY_ALLOW_SKIP=1 skips this)")


def _may_skip() -> bool:
    return bool(os.environ.get("LILY_ALLOW_SKIP"))  # noqa: TID251


def _elsewhere(name: str) -> bool:
    given = os.environ.get(name)  # noqa: TID251
    known, _ = WAYS[name]
    if given not in (None, "", known):
        raise pytest.UsageError(f"{name} is `{given}`; it can be `{known}`, or nothing at all")
    return given == known
