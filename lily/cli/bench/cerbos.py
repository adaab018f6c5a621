"""The same grants and the same questions, asked of a Cerbos beside Lily.

Cerbos keeps rules, not grants: what somebody may write comes with the request, as its users do it.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lily.cli.bench import beside
from lily.cli.bench.beside import CACHE, Grants, Question
from lily.cli.bench.report import Report
from lily.cli.failures import Failure

PACKAGE = "cerbos@0.51.0"
PATH = "/api/check/resources"
MOST = 50  # resources in a request; more are refused unless configured
POLICY = {
    "apiVersion": "api.cerbos.dev/v1",
    "resourcePolicy": {
        "resource": "asset",
        "version": "default",
        "rules": [
            {
                "actions": ["WRITE"],
                "effect": "EFFECT_ALLOW",
                "roles": ["user"],
                "condition": {"match": {"expr": "R.id in P.attr.writes"}},
            }
        ],
    },
}


def compare(
    grants: Grants, questions: Sequence[Question], connections: int, seconds: float, report: Report
) -> None:
    """Whether users may write assets, fifty assets a request."""
    port, other = beside.free_port(), beside.free_port()
    bodies = [(body, size) for question in questions for body, size in _bodies(grants, *question)]
    with tempfile.TemporaryDirectory(prefix="lily-cerbos-") as folder:
        policies, config = Path(folder) / "policies", Path(folder) / "config.json"
        policies.mkdir()
        (policies / "asset.json").write_text(json.dumps(POLICY))
        server = {"httpListenAddr": f"127.0.0.1:{port}", "grpcListenAddr": f"127.0.0.1:{other}"}
        storage = {"driver": "disk", "disk": {"directory": str(policies)}}
        telemetry = {"disabled": True}
        config.write_text(
            json.dumps({"server": server, "storage": storage, "telemetry": telemetry})
        )
        command = [_program(), "server", f"--config={config}", "--log-level=error"]
        with beside.serving("Cerbos", command, port) as url:
            beside.ask(
                "Cerbos", url, PATH, bodies, lambda said: len(said["results"]), connections,
                seconds, report,
            )  # fmt: skip


def _bodies(grants: Grants, user: str, assets: list[str]) -> Iterator[tuple[bytes, int]]:
    principal = {"id": user, "roles": ["user"], "attr": {"writes": grants.get(user, [])}}
    for start in range(0, len(assets), MOST):
        asked = [
            {"actions": ["WRITE"], "resource": {"kind": "asset", "id": asset}}
            for asset in assets[start : start + MOST]
        ]
        yield json.dumps({"principal": principal, "resources": asked}).encode(), len(asked)


def _program() -> str:
    """On the path, in the cache, or installed now."""
    place = CACHE.parent / "npm"
    where = place / "node_modules" / ".bin"
    if found := shutil.which("cerbos") or shutil.which("cerbos", path=str(where)):
        return found
    if shutil.which("npm") is None:
        raise Failure("There is neither cerbos nor an npm to install it with.")
    place.mkdir(parents=True, exist_ok=True)
    beside.installed("Cerbos", ["npm", "install", "--silent", "--prefix", str(place), PACKAGE])
    return str(where / "cerbos")
