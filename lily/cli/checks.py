"""What `lily doctor` looks at: each check says in a sentence what is wrong, and the cure."""

import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lily.cli import readiness
from lily.cli.failures import Failure
from lily.cli.listener import listen
from lily.cli.role import database_cure

if TYPE_CHECKING:
    from lily.settings import Settings
    from lily.wiring import Core

JAVA = 17
PYTHON = (3, 11)
LITTLE_DISK = 1_000_000_000
LOW_DISK = 5_000_000_000
MUCH_LAG = 30.0

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True)
class Finding:
    check: str
    state: State
    sentence: str
    cure: str = ""


def ok(check: str, sentence: str) -> Finding:
    return Finding(check, "ok", sentence)


def failed(check: str, sentence: str, cure: str) -> Finding:
    return Finding(check, "failed", sentence, cure)


def findings(settings: "Settings") -> Iterator[Finding]:
    """Everything, in the order in which a newcomer should repair it."""
    yield python(sys.version_info[:3])
    yield java(_java_version())
    yield folder(settings)
    yield disk(settings, shutil.disk_usage(_existing(settings)).free)
    yield credentials(settings)
    api = readiness.probe(settings.host, settings.port, "/healthz")
    yield port(settings, api[0])
    yield from kafka(settings)
    yield from database(settings)
    if api[0] == 200:
        yield ready(readiness.probe(settings.host, settings.port, "/readyz", seconds=10))


def python(version: tuple[int, ...]) -> Finding:
    text = ".".join(map(str, version))
    if version[:2] < PYTHON:
        return failed("python", f"Python {text} is too old.", "Install Python 3.11 or newer.")
    return ok("python", f"Python {text}.")


def java(said: str | None) -> Finding:
    """`said` is what `java -version` printed; None when there is no Java."""
    cure = f"Install a Java {JAVA} or newer (a headless JRE is enough), or set JAVA_HOME."
    if said is None:
        return failed("java", "There is no Java; Spark needs one.", cure)
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        return failed("java", f"Java does not say its version: {said[:80]!r}.", cure)
    if int(found[1]) < JAVA:
        return failed("java", f"Java {found[1]} is too old for Spark.", cure)
    return ok("java", f"Java {found[1]}.")


def folder(settings: "Settings") -> Finding:
    where = _existing(settings)
    try:
        with tempfile.TemporaryFile(dir=where):
            return ok("home", f"{settings.home} can be written.")
    except OSError as cause:
        return failed(
            "home",
            f"{settings.home} cannot be written ({cause.strerror}).",
            "Give yourself the right to it, or choose another folder with LILY_HOME.",
        )


def disk(settings: "Settings", free: int) -> Finding:
    sentence = f"{free / 1e9:.1f} GB are free for {settings.home}."
    if free < LITTLE_DISK:
        return failed("disk", sentence, "Free some space, or move LILY_HOME to a larger disk.")
    if free < LOW_DISK:
        return Finding("disk", "warning", sentence, "Make room before you load much.")
    return ok("disk", sentence)


def credentials(settings: "Settings") -> Finding:
    path = settings.home / "credentials"
    if not path.exists():
        return ok("credentials", "There is no credentials file yet; the first start makes it.")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return failed(
            "credentials", f"Others can read {path} (mode {mode:04o}).", f"Run chmod 600 {path}."
        )
    return ok("credentials", f"{path} is readable by you alone.")


def port(settings: "Settings", status: int) -> Finding:
    if status == 200:
        return ok("api", f"The API answers on {settings.host}:{settings.port}.")
    try:
        listen(settings.host, settings.port).close()
    except Failure as failure:
        sentence, _, cure = failure.sentence.partition(";")
        if status == 0:
            sentence += " or by an API that hangs"
        return failed("api", f"{sentence}.", f"{cure.strip().capitalize()}")
    return failed("api", f"Nothing answers on {settings.host}:{settings.port}.", "Run `lily up`.")


def database(settings: "Settings") -> Iterator[Finding]:
    from lily import wiring
    from lily.errors import LilyError
    from lily.store.migrate import pending

    try:
        missing = pending(wiring.home_url(settings))
    except LilyError as cause:
        yield failed("database", str(cause), database_cure(settings))
        return
    yield ok("database", "The database answers.")
    if missing:
        names = ", ".join(missing)
        yield failed("migrations", f"The database lacks {names}.", "Run `lily migrate`.")
        return
    yield ok("migrations", "The database is up to date.")
    core = wiring.core(settings, "lily_system", pool=2)
    try:
        yield pipeline(core)
        yield from lags(core)
    except LilyError as cause:
        yield failed("pipeline", str(cause), database_cure(settings))
    finally:
        core.close()


def kafka(settings: "Settings") -> Iterator[Finding]:
    """Only where Kafka is the log."""
    from lily import wiring
    from lily.log.kafka import KafkaAway, reach

    cluster = wiring.kafka(settings)
    if cluster is None:
        return
    if wiring.reads_kafka(settings):
        yield ok("jars", "Spark can read Kafka.")
    else:
        cure = "Run `make jars`, or say with LILY_JARS where they are."
        yield failed("jars", "Spark lacks the jars to read Kafka.", cure)
    try:
        count = reach(cluster)
    except KafkaAway as away:
        cure = "Start it, or mend LILY_LOG and LILY_KAFKA_…; until then what is sent is refused."
        yield failed("kafka", str(away), cure)
    else:
        yield ok("kafka", f"Kafka answers ({count} brokers).")


def pipeline(core: "Core") -> Finding:
    from lily.store.lease import holders
    from lily.store.presence import alive

    beats = alive(core.database, "pipeline")
    if not beats:
        return failed(
            "pipeline",
            "No pipeline runs, so what is sent is kept but not applied.",
            "Run `lily up`, or `lily pipeline`; logs/pipeline.log says why it stopped.",
        )
    if not any(process.detail.get("warm") for process in beats):
        return Finding("pipeline", "warning", "The pipeline is warming up.", "Wait a few seconds.")
    waiting = [each for each in beats if each.detail.get("state") == "standby"]
    leader = next((each for each in holders(core.database) if each.duty == "ingest"), None)
    if leader is None:
        return Finding(
            "pipeline",
            "warning",
            f"{len(waiting)} pipelines stand by, and none leads.",
            "One of them should within seconds; else see their logs.",
        )
    also = f"; {len(waiting)} more stand by" if waiting else "; none stands by"
    return ok("pipeline", f"The pipeline runs (process {leader.pid} on {leader.host}){also}.")


def lags(core: "Core") -> Iterator[Finding]:
    from lily import wiring
    from lily.errors import Unavailable
    from lily.store.lag import Lag

    kafka = wiring.kafka_lag(core.settings)
    for cell in core.database.cells():
        found: list[Lag] = []
        try:
            found = wiring.lags(core, cell, kafka)
        except Unavailable as away:
            cure = "Bring that database back; its tenant waits, the others do not."
            yield failed("cell", f"The database of cell {cell} does not answer: {away}", cure)
        for lane in found:
            where = f"{lane.waiting} observations wait in lane {lane.lane} of {cell}"
            if lane.seconds > MUCH_LAG:
                yield failed(
                    "lag",
                    f"{where}, the oldest for {lane.seconds:.0f} s.",
                    "See logs/pipeline.log; under steady load give Spark more cores.",
                )
            else:
                yield ok("lag", f"{where}.")


def ready(answer: tuple[int, str]) -> Finding:
    status, reason = answer
    if status == 200:
        return ok("ready", "Lily is ready.")
    said = reason.rstrip(".") or f"status {status}"
    return failed("ready", f"Lily is not ready: {said}.", "See the checks above, or wait.")


def _java_version() -> str | None:
    from lily.settings import java_command

    try:
        done = subprocess.run(
            [java_command(), "-version"], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr or done.stdout


def _existing(settings: "Settings") -> str:
    """The folder, or the nearest above it that exists."""
    where = settings.home
    while not where.exists() and where != where.parent:
        where = where.parent
    return str(where)
