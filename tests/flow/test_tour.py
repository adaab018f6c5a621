"""The tour of the README does what it says: its blocks run as they are, its answers are true."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.callers import PASSWORD, tenant_with_admin
from tests.live import Live

README = Path(__file__).parents[2] / "README.md"
STEP = re.compile(r"```bash\n(?P<commands>.*?)```\n```json\n(?P<answer>.*?)```", re.DOTALL)
ANY = "…"
MARK = "--- next step ---"


def tour() -> str:
    return README.read_text(encoding="utf-8").split("<!-- tour -->")[1].split("<!-- /tour -->")[0]


def steps() -> list[tuple[str, Any]]:
    return [(step["commands"], json.loads(step["answer"])) for step in STEP.finditer(tour())]


def differences(shown: Any, real: Any, where: str = "$") -> list[str]:
    """Where an answer is not what the README shows of it; what it leaves out may be anything."""
    if shown == ANY:
        return []
    if isinstance(shown, dict) and isinstance(real, dict):
        missing = [f"{where}.{key} is missing" for key in shown.keys() - real.keys()]
        both = shown.keys() & real.keys()
        return missing + [d for k in both for d in differences(shown[k], real[k], f"{where}.{k}")]
    if isinstance(shown, list) and isinstance(real, list):
        more = bool(shown) and shown[-1] == ANY
        known = shown[:-1] if more else shown
        if len(real) < len(known) or (len(real) > len(known) and not more):
            return [f"{where} has {len(real)} items"]
        pairs = enumerate(zip(known, real, strict=False))
        return [d for i, (s, r) in pairs for d in differences(s, r, f"{where}[{i}]")]
    return [] if shown == real else [f"{where} is {real!r}, the README says {shown!r}"]


def last_document(text: str) -> Any:
    """The last of several JSON documents, each pretty-printed from the first column on."""
    return json.loads(re.split(r"^(?=[{\[])", text, flags=re.MULTILINE)[-1])


def credentials(live: Live, home: Path) -> None:
    tenant = tenant_with_admin(live.core)
    known = {
        "url": str(live.one.base_url).rstrip("/"),
        "tenant": tenant.name,
        "username": "root",
        "password": PASSWORD,
    }
    (home / "credentials").write_text(json.dumps(known))


def test_every_block_of_the_tour_shows_its_answer() -> None:
    assert len(steps()) == tour().count("```bash") == tour().count("```json") >= 12


def test_the_tour_does_what_the_readme_says(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(live, tmp_path)
    monkeypatch.setenv("LILY_HOME", str(tmp_path))
    told = steps()
    script = "set -euo pipefail\n" + f"echo '{MARK}'\n".join(commands for commands, _ in told)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    answers = done.stdout.split(MARK)
    assert len(answers) == len(told)
    for (commands, shown), answer in zip(told, answers, strict=True):
        found = differences(shown, last_document(answer))
        assert not found, f"{commands}\n{answer}\n" + "\n".join(found)
