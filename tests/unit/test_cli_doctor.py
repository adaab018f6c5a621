"""The doctor: every failure is a sentence with a cure."""

import json
from pathlib import Path

import pytest

from lily.cli import checks
from lily.cli.app import run
from lily.cli.listener import listen, port_of
from lily.settings import Settings, load


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(home=tmp_path, database="postgresql://127.0.0.1:1/none", port=0)


def told(finding: checks.Finding) -> None:
    """A failure reads as a sentence, and so does its cure."""
    assert finding.state == "failed"
    assert finding.sentence.endswith(".") and finding.cure.endswith(".")


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "ok"),
        ('java version "21" 2023-09-19', "ok"),
        ('java version "1.8.0_401"', "failed"),
        ("who knows", "failed"),
        (None, "failed"),
    ],
)
def test_java_must_be_new_enough(said: str | None, state: str) -> None:
    assert checks.java(said).state == state


def test_no_java_comes_with_its_cure() -> None:
    finding = checks.java(None)
    told(finding)
    assert "JAVA_HOME" in finding.cure


def test_an_old_python_comes_with_its_cure() -> None:
    told(checks.python((3, 10, 1)))
    assert checks.python((3, 12, 0)).state == "ok"


def test_little_disk_fails_and_low_disk_warns(settings: Settings) -> None:
    told(checks.disk(settings, 10_000_000))
    assert checks.disk(settings, 2_000_000_000).state == "warning"
    assert checks.disk(settings, 50_000_000_000).state == "ok"


def test_a_folder_that_does_not_exist_yet_is_fine_if_it_can_be_made(tmp_path: Path) -> None:
    assert checks.folder(load(home=tmp_path / "a" / "b")).state == "ok"


def test_a_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told(checks.folder(load(home=tmp_path / "file")))


def test_credentials_that_others_can_read_fail(settings: Settings) -> None:
    path = settings.home / "credentials"
    assert checks.credentials(settings).state == "ok"
    path.write_text("{}")
    path.chmod(0o644)
    told(checks.credentials(settings))
    path.chmod(0o600)
    assert checks.credentials(settings).state == "ok"


def test_a_port_taken_by_a_stranger_fails_with_another_port_as_cure(settings: Settings) -> None:
    with listen("127.0.0.1", 0) as stranger:
        finding = checks.port(settings.model_copy(update={"port": port_of(stranger)}), 0)
    told(finding)
    assert "--port" in finding.cure


def test_an_api_that_does_not_run_fails_with_lily_up_as_cure(settings: Settings) -> None:
    finding = checks.port(settings, 0)
    told(finding)
    assert "lily up" in finding.cure


def test_a_database_that_cannot_be_reached_fails(settings: Settings) -> None:
    [finding] = checks.database(settings)
    told(finding)
    assert "LILY_DATABASE" in finding.cure


def test_a_database_in_order_without_a_pipeline_says_just_that(home: str, tmp_path: Path) -> None:
    found = {f.check: f for f in checks.database(load(home=tmp_path, database=home))}
    assert found["database"].state == found["migrations"].state == found["lag"].state == "ok"
    told(found["pipeline"])


def test_not_ready_repeats_the_reason() -> None:
    finding = checks.ready((503, "the pipeline is warming up"))
    told(finding)
    assert "warming up" in finding.sentence


def test_the_command_fails_with_code_1_and_json_lists_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "postgresql://127.0.0.1:1/none"
    with pytest.raises(SystemExit) as ended:
        run(["doctor", "--home", str(tmp_path), "--port", "0", "--database", nowhere, "--json"])
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert ended.value.code == 1
    assert report["ok"] is False
    assert {"python", "java", "home", "disk", "credentials", "api", "database"} == {
        finding["check"] for finding in report["findings"]
    }
    assert "failed" in err
