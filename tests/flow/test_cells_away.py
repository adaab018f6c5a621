"""A tenant's own database is away: nobody else waits for it."""

from pathlib import Path
from uuid import uuid4

from lily.events.envelope import Envelope
from lily.events.observations import AssetSeen
from lily.log import postgres as log
from lily.log.tail import Tail
from lily.settings import load
from lily.store.embedded import Server
from lily.store.migrate import migrate
from lily.wiring import core as build_core


def test_a_cell_that_is_away_does_not_stop_the_others(server: Server, tmp_path: Path) -> None:
    url = server.create_database("away")
    migrate(url)
    core = build_core(load(home=tmp_path, database=url), "lily_system")
    api = build_core(core.settings, "lily_app")
    with api.database.home() as conn:
        sealed = core.seal.seal(server.url_of("no-such-database").encode())
        conn.execute("INSERT INTO cell (name, url) VALUES ('lost', %s)", [sealed])
    seen = AssetSeen(qualified_name="db/people")
    envelope = Envelope(id=uuid4(), tenant=1, source="t", by="t", observation=seen)
    with core.database.cell("home") as conn:
        [offset] = log.append_in(conn, [envelope], ["db/people"])

    visited: list[str] = []

    def visit(cell: str) -> None:
        with core.database.cell(cell):
            visited.append(cell)

    core.database.each_cell(visit)
    core.database.each_cell(visit)  # the second time nobody asks the lost one
    assert visited == ["home", "home"]

    tail = Tail(lambda: {cell: core.database.role_url(cell) for cell in core.database.cells()})
    start = {cell: {"core": 0, "fields": 0} for cell in ("home", "lost")}
    [stretch] = tail.read(start, 5)  # type: ignore[arg-type]
    assert (stretch.cell, stretch.end) == ("home", offset)
    tail.close()
    api.close()
    core.close()
