"""Settings: who wins, and what a wrong one says."""

from pathlib import Path

import pytest

from lily.cli import configured
from lily.cli.failures import USAGE, Failure
from lily.settings import child_environment, load


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "PORT", "HOST", "DATABASE"):
        monkeypatch.delenv(f"LILY_{name}", raising=False)
    return tmp_path


def test_nothing_has_to_be_set(elsewhere: Path) -> None:
    settings = load()
    assert settings.home == elsewhere / ".lily"
    assert settings.url == "http://127.0.0.1:8585"


def test_the_file_beats_the_default(elsewhere: Path) -> None:
    (elsewhere / "lily.toml").write_text("port = 9000\n")
    assert load().port == 9000


def test_the_environment_beats_the_file(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "lily.toml").write_text("port = 9000\n")
    monkeypatch.setenv("LILY_PORT", "9001")
    assert load().port == 9001


def test_a_flag_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILY_PORT", "9001")
    assert load(port=9002).port == 9002


def test_a_flag_that_was_not_given_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LILY_PORT", "9001")
    assert load(port=None).port == 9001


def test_children_see_the_same_settings_as_their_parent(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(home=elsewhere / "x", port=9003, database="postgresql://h/d")
    for name, value in child_environment(settings).items():
        if name.startswith("LILY_"):
            monkeypatch.setenv(name, value)
    assert load() == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [("LILY_PORT", "banana"), ("LILY_LOG", "carrier-pigeon"), ("LILY_PORT", "-1")],
)
def test_a_wrong_setting_is_named_in_one_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Failure, match=name) as failure:
        configured.settings()
    assert failure.value.code == USAGE
    assert "\n" not in failure.value.sentence


def test_a_broken_file_is_one_sentence(elsewhere: Path) -> None:
    (elsewhere / "lily.toml").write_text("port = = 1\n")
    with pytest.raises(Failure, match="cannot be read"):
        configured.settings()


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(load(admin_password="hunter2", token="hunter2"))
