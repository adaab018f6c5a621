"""kill -9 of whoever enforces, at the worst moments: ledger and engine agree afterwards."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lily.store.embedded import Server
from lily.wiring import Core, save
from tests.flow.test_enforcement import Place


@pytest.fixture
def place(core: Core, system: Core, server: Server) -> Iterator[Place]:
    made = Place(core, system, server)
    yield made
    made.keeper.close()
    made.house.root.close()


def kill(place: Place, folder: Path, moment: str) -> None:
    path = folder / "settings.json"
    save(place.core.settings, path)
    line = [sys.executable, "-m", "tests.flow.killed", str(path), place.tenant.name]
    done = subprocess.run([*line, str(place.id), moment], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("moment", ["written", "changed", "committed"])
def test_a_kill_leaves_no_right_open_and_loses_none(
    place: Place, tmp_path: Path, moment: str
) -> None:
    house = place.house
    house.run(f"GRANT SELECT ON s.people TO {house.role('team')} WITH GRANT OPTION")
    rights = house.rights()
    place.see("PII")
    kill(place, tmp_path, moment)
    assert (house.reads("analyst", "email") is None) is (moment == "committed")
    assert place.state() is None
    place.step()
    assert (place.state(), house.reads("analyst", "email")) == ("verified", None)
    place.see()
    kill(place, tmp_path, moment)
    place.step()
    assert (place.state(), house.rights()) == (None, rights)
    with place.core.database.unit(place.tenant) as unit:
        left = unit.conn.execute("SELECT * FROM protection_ledger WHERE tenant = %s",
                                 [place.tenant.number]).fetchall()  # fmt: skip
    assert left == []
