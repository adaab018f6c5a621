"""Roles without `lily up`: first start by `lily migrate`, metrics on a port of their own."""

import json
import socket
from pathlib import Path
from urllib.request import urlopen

from typer.testing import CliRunner

from lily.cli import role
from lily.cli.app import build
from lily.settings import load
from lily.store.embedded import Server


def test_migrate_makes_the_first_tenant_once(server: Server, tmp_path: Path) -> None:
    url, home = server.create_database("first_by_migrate"), tmp_path / "new"
    line = ["migrate", "--first", "--home", str(home), "--database", url, "--json"]
    first = CliRunner().invoke(build(), line)
    assert first.exit_code == 0, first.output
    known = json.loads((home / "credentials").read_text())
    assert (known["tenant"], known["username"]) == ("default", "admin")
    again = CliRunner().invoke(build(), line)
    assert json.loads(again.stdout) == {"applied": []}
    assert json.loads((home / "credentials").read_text()) == known


def test_a_role_that_runs_alone_tells_its_metrics(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    settings = load(home=tmp_path, metrics_port=port)
    role.tell_metrics(settings, parent=1)  # under `lily up` the API does it
    role.tell_metrics(settings, parent=None)
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b"lily_log_lag" in answer.read()
