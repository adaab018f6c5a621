"""The same grants and the same questions, asked of an Open Policy Agent beside Lily."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lily.cli.bench import beside
from lily.cli.bench.beside import CACHE, Grants, Question
from lily.cli.bench.report import Report
from lily.cli.failures import Failure

MODULE = "github.com/open-policy-agent/opa@v1.9.0"
POLICY = """package lily

import rego.v1

decisions := [object.get(data.grants, [input.user, asset], false) | some asset in input.assets]
"""
PATH = "/v1/data/lily/decisions"


def compare(
    grants: Grants, questions: Sequence[Question], connections: int, seconds: float, report: Report
) -> None:
    """Whether users may write assets, a list of assets a request."""
    data = {user: dict.fromkeys(assets, True) for user, assets in grants.items()}
    bodies = [
        (json.dumps({"input": {"user": user, "assets": assets}}).encode(), len(assets))
        for user, assets in questions
    ]
    port = beside.free_port()
    with tempfile.TemporaryDirectory(prefix="lily-opa-") as folder:
        (Path(folder) / "data.json").write_text(json.dumps({"grants": data}))
        (Path(folder) / "lily.rego").write_text(POLICY)
        address = f"127.0.0.1:{port}"
        command = [_program(), "run", "--server", "--addr", address, "--log-level", "error", folder]
        with beside.serving("OPA", command, port) as url:
            beside.ask(
                "OPA", url, PATH, bodies, lambda said: len(said["result"]), connections, seconds,
                report,
            )  # fmt: skip


def _program() -> str:
    """On the path, in the cache, or installed now."""
    if found := shutil.which("opa") or shutil.which("opa", path=str(CACHE)):
        return found
    if shutil.which("go") is None:
        raise Failure("There is neither opa nor a Go to install it with.")
    beside.installed("OPA", ["env", f"GOBIN={CACHE}", "go", "install", MODULE])
    return str(CACHE / "opa")
