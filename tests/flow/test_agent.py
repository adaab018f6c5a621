"""The agent: crawlers elsewhere, with nothing but the API."""

import json
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from typer.testing import CliRunner

from lily.cli.app import build
from lily.store.embedded import Server
from lily.wiring import Core
from tests.flow.apply import read
from tests.flow.corridor import Corridor
from tests.flow.crawling import waiting
from tests.flow.lineage import live
from tests.flow.people import Person


def agent(boss: Person, config: Path, *more: str) -> tuple[int, str]:
    token = boss.headers["Authorization"].removeprefix("Bearer ")
    url = str(boss.client.base_url)
    line = ["agent", "--url", url, "--token", token, "--config", str(config), "--once", *more]
    done = CliRunner().invoke(build(), line)
    return done.exit_code, done.output


def test_an_agent_sends_differences_and_what_is_gone(
    core: Core, system: Core, server: Server, boss: Person, corridor: Corridor, tmp_path: Path
) -> None:
    url = server.create_database(f"remote_{uuid4().hex[:6]}")
    base = f"postgres://remote:5432/{psycopg.conninfo.conninfo_to_dict(url)['dbname']}.public"
    with psycopg.connect(url, autocommit=True) as ware:
        ware.execute("CREATE TABLE people (id int, name text)")
    config = tmp_path / "agent.toml"
    config.write_text(
        '[[connections]]\nname = "remote"\nplugin = "postgres"\n'
        f'options = {{ url = "{url}", server = "remote" }}\n'
    )
    assert agent(boss, config) == (0, "remote: 5 read, 5 sent, 0 gone, 0 rejected\n")
    assert len(waiting(system, boss.tenant)) == 5
    corridor.run()
    assert read(core, boss.tenant, f"{base}.people#name").source == "remote"
    assert agent(boss, config)[1] == "remote: 5 read, 0 sent, 0 gone, 0 rejected\n"
    assert waiting(system, boss.tenant) == []
    with psycopg.connect(url, autocommit=True) as ware:
        ware.execute("ALTER TABLE people DROP COLUMN name, ADD COLUMN mail text")
    assert agent(boss, config)[1] == "remote: 5 read, 1 sent, 1 gone, 0 rejected\n"
    corridor.run()
    assert read(core, boss.tenant, f"{base}.people#name").deleted_by == "source"


def test_an_agent_sends_edges_and_withdraws_them(
    core: Core, server: Server, boss: Person, corridor: Corridor, tmp_path: Path
) -> None:
    url = server.create_database(f"remote_{uuid4().hex[:6]}")
    with psycopg.connect(url, autocommit=True) as ware:
        ware.execute("CREATE TABLE people (id int); CREATE VIEW ids AS SELECT id FROM people")
    config = tmp_path / "agent.toml"
    options = f'options = {{ url = "{url}", server = "remote" }}'
    config.write_text(f'[[connections]]\nname = "remote"\nplugin = "postgres"\n{options}\n')
    assert agent(boss, config)[0] == 0
    corridor.run()
    assert {implied for *_, implied in live(core, boss.tenant)} == {False}
    assert len(live(core, boss.tenant)) == 2  # the view's, and its column's
    with psycopg.connect(url, autocommit=True) as ware:
        ware.execute("CREATE OR REPLACE VIEW ids AS SELECT 1 AS id")
    assert agent(boss, config)[0] == 0
    corridor.run()
    assert live(core, boss.tenant) == set()


def test_an_agent_whose_source_breaks_says_so_deletes_nothing_and_goes_on(
    system: Core, boss: Person, tmp_path: Path
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.ndjson").write_text(json.dumps({"asset_id": f"agent/{name}"}))
    config = tmp_path / "agent.json"
    entry = {"name": "rows", "plugin": "files", "options": {"path": str(folder)}}
    config.write_text(json.dumps({"connections": [entry]}))
    assert agent(boss, config)[0] == 0
    (folder / "a.ndjson").unlink()
    (folder / "b.ndjson").write_text("{")
    code, said = agent(boss, config)
    assert code == 1 and "b.ndjson cannot be read" in said
    assert waiting(system, boss.tenant) == ["agent/a", "agent/b"]
    (folder / "b.ndjson").write_text(json.dumps({"asset_id": "agent/b"}))
    assert agent(boss, config)[1] == "rows: 1 read, 0 sent, 1 gone, 0 rejected\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be used"),
        ('{"connections": [{"name": "a", "plugin": "nope"}]}', "no source 'nope'"),
        ('{"connections": [{"name": "a", "plugin": "dbt", "options": {"x": 1}}]}', "options.x"),
        (
            '{"connections": [{"name": "a", "plugin": "files", "options": {"path": "x"},'
            ' "schedule": "5"}]}',
            "schedule",
        ),
    ],
)
def test_mistakes_in_the_configuration_are_named(
    boss: Person, tmp_path: Path, text: str, said: str
) -> None:
    config = tmp_path / "agent.json"
    config.write_text(text)
    token = boss.headers["Authorization"].removeprefix("Bearer ")
    line = ["agent", "--url", "http://127.0.0.1:1", "--token", token, "--config", str(config)]
    done = CliRunner().invoke(build(), line)
    assert done.exit_code != 0 and said in str(done.exception)
