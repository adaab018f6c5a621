"""A source whose estate is a file that the test writes, and that can be told to break."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.packages import install

CODE = '''
import json
import time
from pathlib import Path

from lily.sdk import AssetGone, AssetSeen, Cursor, Reject, Retry
from pydantic import BaseModel, SecretStr


class Made:
    """Yields what a file says: `count` tables, or the `names`, and breaks where it says."""

    class Options(BaseModel):
        plan: str
        password: SecretStr = SecretStr("")
        rate_limit: float | None = None

    def __init__(self, options):
        self.options = options

    def read(self, cursor):
        plan = json.loads(Path(self.options.plan).read_text())
        start = cursor.value if cursor else 0
        columns = plan.get("columns", 0)
        for n, name in list(enumerate(plan["names"]))[start:]:
            if n == plan.get("break"):
                secret = self.options.password.get_secret_value()
                raise {"bug": RuntimeError, "reject": Reject, "busy": Retry}[plan["how"]](
                    f"broken with {secret}"
                )
            if n == plan.get("wait"):
                while not Path(self.options.plan + ".go").exists():
                    time.sleep(0.01)
            note = plan.get("notes", {}).get(name, "")
            yield AssetSeen(qualified_name=name, asset_name=name or "x", description=note)
            for c in range(columns):
                yield AssetSeen(
                    qualified_name=f"{name}#c{c}", asset_name=f"c{c}", asset_type="column",
                    metadata={"data_type": "text", "nullable": True, "ordinal": c},
                )
            if (n + 1) % plan.get("every", 10) == 0:
                yield Cursor(n + 1)
        for name in plan.get("gone", []):
            yield AssetGone(qualified_name=name)
'''


class Estate:
    """What the source `test-made` finds."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.path = folder / "plan.json"
        package = f"lily-{folder.name.replace('_', '-')}"
        install(folder, patch, package, {"test-made": "Made"}, CODE, "lily.sources")
        self.has()

    def has(self, *names: str, **plan: Any) -> None:
        self.path.write_text(json.dumps({"names": names, **plan}))

    def go_on(self) -> None:
        Path(f"{self.path}.go").touch()
