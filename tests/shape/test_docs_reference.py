"""The reference says what the code does."""

from pathlib import Path

import pytest

from lily.cli.app import COMMANDS, GROUPS
from lily.cli.reference import pages
from lily.settings import Settings

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (FOLDER / name).read_text(encoding="utf-8")
    assert written == pages()[name], "run `make docs`"


def test_every_setting_has_a_meaning() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_every_promised_command_exists() -> None:
    promised = (
        "up serve pipeline work migrate token tenant user asset search watch ingest dead lake"
        " plugins doctor bench crawl agent lineage tags propagate protections demo backup restore"
        " cost scale deploy kafka"
    )
    assert {command.__name__ for command in COMMANDS} | set(GROUPS) == set(promised.split())
