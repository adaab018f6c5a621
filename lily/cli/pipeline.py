"""`lily pipeline`: Spark, from the log or from files into the store."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lily.cli import configured, options

if TYPE_CHECKING:
    from lily.wiring import Core

Stage = Literal["ingest", "propagate", "lake", "bulk", "bulk-work"]
NICENESS = 19
POLL = 0.5
PATIENCE = 20.0


def pipeline(
    stage: Annotated[
        Stage,
        typer.Option(
            help="`ingest` applies the log, and propagates where nobody else does; `propagate` does"
            " only that; `lake` archives, which `ingest` does otherwise; `bulk` waits for files and"
            " starts Spark for them; `bulk-work` loads the files that wait and ends."
        ),
    ] = "ingest",
    jars: Annotated[
        Path | None,
        typer.Option(help="For `lake`: the folder of `make jars`; Spark then writes with MERGE."),
    ] = None,
    home: options.Home = None,
    database: options.Database = None,
    parent: options.Parent = None,
) -> None:
    """Run one stage of the Spark pipeline. A second one is warm and waits, should the first die."""
    from lily.cli import role

    settings = configured.settings(home=home, database=database)
    stop = role.begin(settings, parent)
    role.tell_metrics(settings, parent)
    core = role.connect(settings, "lily_system", stop)
    try:
        if stage == "ingest":
            from lily.pipeline.main import run

            run(core, stop)
        elif stage == "propagate":
            from lily.pipeline import propagate

            propagate.run(core, stop)
        elif stage == "lake":
            from lily.pipeline import lake

            lake.run(core, stop, jars)
        elif stage == "bulk":
            os.nice(NICENESS)
            attend(core, stop, settings.home)
        else:
            from lily.pipeline.bulk import work

            work(core, stop)
    finally:
        core.close()


def attend(core: "Core", stop: Event, home: Path) -> None:
    """Wait for files; Spark runs in a process of its own, which ends when there are none."""
    from uuid import uuid4

    from lily.errors import LilyError
    from lily.settings import child_environment
    from lily.store.jobs import Board
    from lily.store.presence import presence

    board = Board(core.database, uuid4())
    line = [sys.executable, "-m", "lily.cli", "pipeline", "--stage", "bulk-work"]
    with presence(core, "bulk") as me:
        while not stop.wait(POLL):
            try:
                if not board.waiting():
                    continue
            except LilyError:
                continue
            me.say(state="active")
            line_of_home = [*line, "--home", str(home), "--parent", str(os.getpid())]
            worker = subprocess.Popen(line_of_home, env=child_environment(core.settings))
            while worker.poll() is None and not stop.wait(POLL):
                pass
            _end(worker)
            me.say(state="waiting")


def _end(worker: "subprocess.Popen[bytes]") -> None:
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
