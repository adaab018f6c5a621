"""The documentation names what exists, and its links lead somewhere."""

import re
from pathlib import Path
from typing import get_args

import pytest

from lily import errors, plugins
from lily.cli import handbook
from lily.cli.app import COMMANDS, GROUPS
from lily.events.facts import FactKind
from lily.events.observations import Observation
from lily.identity.roles import ROLES, SCOPES
from lily.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            broken.append(link)
            continue
        known = not anchor or anchor in anchors(target.read_text(encoding="utf-8"))
        if not known:
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [DOCS / "index.md"]
    while waiting:
        current = waiting.pop()
        if current in reached or current.suffix != ".md":
            continue
        reached.add(current)
        text = FENCE.sub("", current.read_text(encoding="utf-8"))
        names = [link.partition("#")[0] for link in LINK.findall(text) if "://" not in link]
        waiting += [(current.parent / name).resolve() for name in names if name]
    assert set(DOCS.rglob("*.md")) <= reached


def test_the_reference_names_every_setting() -> None:
    text = page("configuration.md")
    assert [name for name in Settings.model_fields if f"`LILY_{name.upper()}`" not in text] == []


def test_the_reference_names_every_fact_and_observation() -> None:
    text = page("events.md")
    kinds = [*get_args(FactKind), *(each.__name__ for each in get_args(Observation))]
    assert [kind for kind in kinds if f"`{kind}`" not in text] == []
    assert set(handbook.FACTS) == set(get_args(FactKind))


def test_the_reference_names_every_error() -> None:
    text = page("problems.md")
    known = [
        each.__name__
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.LilyError)
    ]
    assert [name for name in known if name != "LilyError" and f"`{name}`" not in text] == []


def test_the_reference_names_every_command() -> None:
    text = page("cli.md")
    commands = [*(command.__name__ for command in COMMANDS), *GROUPS]
    assert [name for name in commands if f"`lily {name}" not in text] == []


def test_the_reference_names_every_role_and_scope() -> None:
    text = page("roles.md")
    assert [name for name in (*ROLES, *SCOPES) if name not in text] == []


def test_the_reference_names_every_kind_of_plug_in() -> None:
    text = page("plugins.md")
    assert [kind for kind in plugins.KINDS if f"`{kind}`" not in text] == []


def test_the_readme_has_the_two_commands_and_what_they_need() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for word in ("make run", "make test", "Python 3.11", "Java 17"):
        assert word in text


def test_the_changelog_knows_this_version() -> None:
    from lily import __version__

    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {__version__}" in text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_speaks_of_one_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(home|work|Users|root|tmp)/", text)
