"""A PgBouncer in transaction mode on loopback, before the PostgreSQL of the tests."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import psycopg

from lily.cli.broker import free_port
from lily.store.embedded import SYSTEM_USER, Server

# Few connections, so that everybody gets somebody else's.
SETTINGS = """
[databases]
* = host={socket} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
"""


def find(missing: Callable[[str], NoReturn]) -> str:
    """The program; the package `pgbouncer` of Debian and Ubuntu has it."""
    path = f"{os.defpath}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
    if found := shutil.which("pgbouncer") or shutil.which("pgbouncer", path=path):
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "-q", "pgbouncer"], capture_output=True)
    return shutil.which("pgbouncer", path=path) or missing("There is no pgbouncer")


@contextmanager
def bouncer(program: str, server: Server, folder: Path) -> Iterator[int]:
    """Its port. Databases behind it have the names that they have at the server."""
    port = free_port()
    settings = folder / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(socket=server.socket, port=port))
    who = {"user": SYSTEM_USER, "group": SYSTEM_USER} if os.geteuid() == 0 else {}
    with settings.open("rb") as given, (folder / "pgbouncer.log").open("wb") as output:
        # It may not run as root, and whoever it runs as need not see our folder.
        process = subprocess.Popen(  # type: ignore[call-overload]
            [program, f"/proc/self/fd/{given.fileno()}"],
            stdout=output, stderr=output, pass_fds=[given.fileno()], cwd="/", **who,
        )  # fmt: skip
        try:
            _wait(process, port, folder / "pgbouncer.log")
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def counted(port: int) -> dict[str, int]:
    """Transactions by database, as it counts them itself."""
    with psycopg.connect(_console(port), autocommit=True) as conn:
        cursor = conn.execute("SHOW STATS_TOTALS")
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return {row["database"]: int(row["xact_count"]) for row in rows}


def _console(port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}/pgbouncer"


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            with psycopg.connect(_console(port), autocommit=True, connect_timeout=2):
                return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PgBouncer does not answer: {log.read_text()}") from None
            time.sleep(0.1)
