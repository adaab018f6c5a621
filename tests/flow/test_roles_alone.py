"""Roles without `lily up`: first start by `lily migrate`, metrics on a port of their own."""

import json
import socket
from pathlib import Path
from urllib.request import urlopen

from typer.testing import CliRunner

from lily.api.app import create_app
from lily.cli import role
from lily.cli.app import build
from lily.settings import load
from lily.store.embedded import Server
from lily.wiring import Core, services
from tests.callers import minted, tenant_with_admin
from tests.serving import serving


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


def test_scale_reads_the_lag_and_names_every_role(core: Core) -> None:
    wired = services(core)
    tenant = tenant_with_admin(core)
    with serving(create_app(wired)) as client:
        token = minted(wired, tenant)
        line = ["scale", "--url", str(client.base_url), "--token", token, "--json"]
        done = CliRunner().invoke(build(), line)
    assert done.exit_code == 0, done.output
    advice = json.loads(done.stdout)
    assert {each["role"] for each in advice} == {"serve", "pipeline", "work"}
    assert {each["lane"] for each in advice if each["role"] == "pipeline"} == {"core", "fields"}
