"""`lily up`: everything on this machine, supervised, with one command."""

import shutil
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import typer

from lily.cli import configured, options, postgres, processes, programs, readiness
from lily.cli import home as folder
from lily.cli.failures import Failure
from lily.cli.listener import listen, port_of
from lily.cli.output import Output
from lily.cli.role import database_cure, stop_on_signal
from lily.cli.supervisor import Supervisor

if TYPE_CHECKING:
    from socket import socket

    from lily.settings import Settings
    from lily.store.embedded import Server

DATABASE = "lily"
DATABASE_PATIENCE = 90.0


def up(
    home: options.Home = None,
    host: options.Host = None,
    port: options.Port = None,
    database: options.Database = None,
) -> None:
    """Start PostgreSQL, API, Spark pipeline and workers and keep them running; Ctrl-C stops all."""
    from lily.settings import java_command, load

    began = time.monotonic()
    if shutil.which(java_command()) is None:
        raise Failure("There is no Java; install Java 17 or newer for Spark, or set JAVA_HOME.")
    settings = configured.settings(home=home, host=host, port=port, database=database)
    with folder.locked(settings.home), _listener(settings) as sock:
        flags = {"home": home, "host": host, "database": database, "port": port_of(sock)}
        Up(load(**flags), sock, began).run()


def _listener(settings: "Settings") -> "socket":
    """The port, once children of a killed run have let go of it."""
    left = folder.end_leftovers(settings.home)
    if left:
        typer.echo(f"Ended what an earlier run left behind: {', '.join(left)}.", err=True)
    return listen(settings.host, settings.port)


class Up:
    """One run, from the first process started to the last one stopped."""

    def __init__(self, settings: "Settings", sock: "socket", began: float) -> None:
        self._settings = settings
        self._sock = sock
        self._began = began
        self._hurry = Event()
        self._stop = stop_on_signal(again=self._hurry.set)
        self._output = Output(settings.home / "logs", pretty=settings.log_format != "json")
        self._supervisor = Supervisor(self._output, self._note)
        self._api: list[str] = []

    def run(self) -> None:
        from lily.cli.first_start import first_start

        try:
            self._database()
            if not self._stop.is_set():
                self._welcome(first_start(self._settings))
                self._roles()
                self._supervisor.watch(self._stop)
        finally:
            self._shut_down()

    def _note(self) -> None:
        folder.note_processes(self._settings.home, self._supervisor.pids())
        # What a process counts as true of itself now ends with it.
        for each in (self._settings.home / "metrics").glob("gauge_live*_*.db"):
            if not processes.alive(int(each.stem.rpartition("_")[2])):
                each.unlink(missing_ok=True)

    def _database(self) -> None:
        """PostgreSQL up and migrated."""
        from lily import wiring
        from lily.errors import Unavailable
        from lily.store.migrate import migrate

        server = wiring.server(self._settings)
        if server is not None:
            _prepare(server)
            self._supervisor.add(postgres.program(server))
            if not self._await(server):
                return
            server.create_database(DATABASE)
        try:
            migrate(wiring.home_url(self._settings))
        except Unavailable as cause:
            raise Failure(f"{cause} {database_cure(self._settings)}") from cause

    def _await(self, server: "Server") -> bool:
        """Until PostgreSQL answers; False when somebody wants to stop instead."""
        until = time.monotonic() + DATABASE_PATIENCE

        def answers() -> bool:
            if time.monotonic() > until:
                log = self._settings.home / "logs" / "postgres.log"
                raise Failure(f"PostgreSQL does not start; {log} says why.")
            return server.ready()

        return self._supervisor.watch(self._stop, answers)

    def _roles(self) -> None:
        from lily.settings import child_environment

        settings = self._settings
        env = child_environment(settings, PROMETHEUS_MULTIPROC_DIR=str(self._metrics_folder()))
        for command in ("pipeline", "work"):
            self._supervisor.add(programs.role(command, env))
        self._supervisor.add(programs.role("pipeline", env, "bulk", more=programs.BULK))
        for program in programs.api(settings.api_processes, env, self._sock):
            self._api.append(self._supervisor.add(program).program.name)
        Thread(
            target=readiness.follow,
            args=(settings.host, settings.port, self._began, self._stop, _say),
            daemon=True,
        ).start()

    def _metrics_folder(self) -> Path:
        """Where the processes of this run add up their metrics; counts begin anew with each run."""
        metrics = self._settings.home / "metrics"
        shutil.rmtree(metrics, ignore_errors=True)
        metrics.mkdir(parents=True)
        return metrics

    def _welcome(self, first: bool) -> None:
        settings, path = self._settings, self._settings.home / "credentials"
        _say(f"Lily is starting on {settings.url} (logs in {settings.home / 'logs'})")
        if not first:
            _say(f"Docs {settings.url}/docs · password in {path} · Ctrl-C stops")
            return
        _say(f"The admin's password is in {path}")
        _say("Try next, in another terminal:")
        for command in next_steps(settings.url, settings.home):
            _say(f"  {command}")

    def _shut_down(self) -> None:
        """API first, so that nothing new comes in; the database last."""
        if self._supervisor.pids():
            _say("Stopping: API, pipeline, workers, database. Ctrl-C again to hurry.")
        self._sock.close()
        order = [self._api, ["pipeline", "bulk"], ["work"], [postgres.NAME]]
        self._supervisor.shut_down(order, self._hurry)
        self._output.close()
        _say("Stopped.")


def _prepare(server: "Server") -> None:
    try:
        server.prepare()
    except (OSError, RuntimeError) as cause:
        raise Failure(f"PostgreSQL cannot be set up in {server.data}: {cause}.") from cause


def next_steps(url: str, where: Path) -> list[str]:
    flag = "" if where == Path(".lily").absolute() else f" --home {where}"
    lily = _command()
    return [
        f'{lily} asset put{flag} \'{{"qualified_name": "demo/people", "asset_type": "table"}}\'',
        f"{lily} search{flag} people",
        f"curl {url}/healthz   # every route: {url}/docs",
    ]


def _command() -> str:
    """How to call us from here: `make run` does not put us on the path."""
    beside = Path(sys.executable).with_name("lily")
    if shutil.which("lily") or not beside.exists():
        return "lily"
    return str(beside.relative_to(Path.cwd())) if beside.is_relative_to(Path.cwd()) else str(beside)


def _say(sentence: str) -> None:
    typer.echo(sentence)
