"""Tools that check what Lily cannot check itself, fetched once by name from package registries."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

CACHE = Path.home() / ".cache" / "lily-tools"


def by_go(name: str, module: str, missing: Callable[[str], NoReturn]) -> str:
    """A program, as found or as Go installs it."""
    own = CACHE / name
    if found := shutil.which(name, path=f"{own}{os.pathsep}{os.defpath}") or shutil.which(name):
        return found
    if shutil.which("go") is None:
        missing(f"There is neither {name} nor a Go to install it with")
    environment = {**os.environ, "GOBIN": str(own)}  # noqa: TID251
    done = subprocess.run(
        ["go", "install", module], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        missing(f"{name} cannot be installed: {done.stderr[-300:]}")
    return str(next(own.iterdir()))


def by_pip(package: str, missing: Callable[[str], NoReturn]) -> Path:
    """The folder of a Python package, apart from Lily's own environment."""
    place = CACHE / package
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        own = tempfile.mkdtemp(dir=CACHE)  # another process may be at it too
        line = [sys.executable, "-m", "pip", "install", "--quiet", "--target", own, package]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(own, ignore_errors=True)
            missing(f"{package} cannot be installed: {done.stderr[-300:]}")
        with suppress(OSError):  # the other was quicker
            Path(own).rename(place)
    return place
