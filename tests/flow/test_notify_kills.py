"""kill -9 of workers while they send: nothing is lost, and what has a handle is made once."""

from importlib import import_module
from pathlib import Path
from uuid import uuid4

from lily.cli.bench import yard
from lily.settings import load
from lily.store.embedded import Server
from lily.store.migrate import migrate

bench = import_module("lily.cli.bench.deliver")


def test_everything_is_told_and_every_issue_is_made_once(server: Server, tmp_path: Path) -> None:
    url = server.create_database(f"kills_{uuid4().hex[:8]}")
    migrate(url)
    with yard.endpoints() as far:
        settings = load(home=tmp_path, database=url)
        report = bench.under_fire(settings, far, notices=600, workers=2, kills=2, tickets=20)
    assert report.met, report.document()
