"""Installs little packages of plug-ins for a test, the way pip would."""

from pathlib import Path

import pytest

HOOKS = '''
from lily.sdk import Reject
from pydantic import BaseModel, SecretStr, field_validator


class Options(BaseModel):
    password: SecretStr = SecretStr("")
    note: str = ""

    @field_validator("note")
    @classmethod
    def check(cls, value):
        if value.startswith("bad"):
            raise ValueError(f"{value!r} will not do")
        return value


class Base:
    Options = Options

    def __init__(self, options):
        self.options = options


class Stamp(Base):
    """Writes its note into the description."""

    def __call__(self, seen):
        import msgspec
        old = seen.description or ""
        return msgspec.structs.replace(seen, description=old + self.options.note)


class Drop(Base):
    def __call__(self, seen):
        return None


class Refuse(Base):
    def __call__(self, seen):
        raise Reject("not before Monday")


class Leak(Base):
    def __call__(self, seen):
        password = self.options.password.get_secret_value()
        raise RuntimeError(f"login with {password} failed\\nbadly\\0")


class Stray(Base):
    def __call__(self, seen):
        return {"qualified_name": "a"}


class Odd(Base):
    def __call__(self, seen):
        import msgspec
        return msgspec.structs.replace(seen, metadata={"when": {1, 2}, "x": object()})


class Scribble(Base):
    def __call__(self, seen):
        seen.metadata = {"x": object()}
        return seen


class Mover(Base):
    def __call__(self, seen):
        import msgspec
        return msgspec.structs.replace(seen, qualified_name=seen.qualified_name + "#x")


class Nameless(Base):
    def __call__(self, seen):
        import msgspec
        return msgspec.structs.replace(seen, qualified_name=" ")


class Bare:
    def __call__(self, seen):
        return seen
'''
NAMES = ["Stamp", "Drop", "Refuse", "Leak", "Stray", "Odd", "Scribble", "Mover", "Nameless", "Bare"]


def install(
    folder: Path,
    patch: pytest.MonkeyPatch,
    package: str,
    hooks: dict[str, str],
    code: str,
    group: str = "lily.hooks",
) -> None:
    """Put a distribution on the path: its module, its metadata and its entry points."""
    module = package.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = [f"{name} = {module}:{target}" for name, target in hooks.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "\n".join(lines) + "\n")
    patch.syspath_prepend(str(folder))


def install_test_hooks(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Hooks that misbehave in every way, under the names `test-stamp`, `test-leak` …"""
    hooks = {f"test-{name.lower()}": name for name in NAMES}
    install(folder, patch, f"lily-{folder.name.replace('_', '-')}", hooks, HOOKS)
