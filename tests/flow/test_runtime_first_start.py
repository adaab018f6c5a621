"""The first start leaves credentials behind, also when it is interrupted."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from lily.cli import home as folder
from lily.cli.first_start import DRAFT, first_start
from lily.settings import Settings, load
from lily.store.embedded import Server
from lily.store.migrate import migrate

_numbers = count(1)


@pytest.fixture
def fresh(server: Server, tmp_path: Path) -> Iterator[Settings]:
    """Settings for an installation that nobody has started yet."""
    url = server.create_database(f"first_{next(_numbers)}")
    migrate(url)
    yield load(home=tmp_path, database=url)


def test_the_first_start_writes_credentials_and_the_second_does_not(fresh: Settings) -> None:
    assert first_start(fresh)
    known = folder.read_credentials(fresh.home)
    assert known is not None
    assert set(known) == {"url", "tenant", "username", "password"}
    assert not (fresh.home / DRAFT).exists()
    assert not first_start(fresh)
    assert folder.read_credentials(fresh.home) == known


def test_a_start_killed_after_making_the_admin_does_not_lose_the_password(fresh: Settings) -> None:
    first_start(fresh)
    known = folder.read_credentials(fresh.home)
    assert known is not None
    (fresh.home / "credentials").unlink()
    folder.write_private(fresh.home / DRAFT, known["password"])
    first_start(fresh)
    assert folder.read_credentials(fresh.home) == known


def test_another_machine_on_the_same_database_gets_no_credentials(
    fresh: Settings, tmp_path: Path
) -> None:
    first_start(fresh)
    other = load(home=tmp_path / "other", database=fresh.database)
    other.home.mkdir()
    (other.home / "secret.key").write_bytes((fresh.home / "secret.key").read_bytes())
    assert not first_start(other)
    assert folder.read_credentials(other.home) is None


def test_a_configured_password_is_the_admins(fresh: Settings) -> None:
    chosen = load(home=fresh.home, database=fresh.database, admin_password="correct horse battery")
    first_start(chosen)
    known = folder.read_credentials(fresh.home)
    assert known is not None
    assert known["password"] == "correct horse battery"
