"""A whole `lily up` whose processes are killed under load: what was acknowledged is there."""

import json
import subprocess
import sys

import pytest

ZERO = (
    "acknowledged writes that are missing or older",
    "causes with two facts of a kind",
    "breaks in the hash chain",
)


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost_when_processes_are_killed() -> None:
    """One round of each: pipeline, API, PostgreSQL, checkpoints deleted, a second pipeline."""
    command = ["-m", "lily.cli", "bench", "faults", "--start", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=580, check=False
    )
    assert done.stdout.startswith("{"), done.stdout[-2000:] + done.stderr[-2000:]
    lines = {line["what"]: line for line in json.loads(done.stdout)["figures"]}
    for what in ZERO:
        assert lines[what]["value"] == 0, (what, done.stdout[-2000:])
    assert lines["acknowledged writes"]["value"] > 0
    recovered = [what for what in lines if what.startswith("slowest recovery")]
    assert len(recovered) >= 4, recovered
