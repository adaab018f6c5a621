"""Writes the pages of docs/reference that follow from the code: `make docs`."""

from pathlib import Path
from typing import Any

import typer

from lily.cli import handbook
from lily.cli.app import build
from lily.cli.failures import MEANINGS
from lily.settings import Settings

FOLDER = Path("docs/reference")


def pages() -> dict[str, str]:
    """File name to text."""
    return {"configuration.md": configuration(), "cli.md": command_line(), **handbook.pages()}


def configuration() -> str:
    lines = [
        "# Configuration",
        "",
        "Generated from the code by `make docs`.",
        "",
        "Every setting has a default, so nothing has to be set. A flag beats the environment, the",
        "environment beats `lily.toml` in the folder where Lily starts. In `lily.toml` the name is",
        "written small and without `LILY_`, for example `port = 9000`.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        lines.append(f"| `LILY_{name.upper()}` | {_default(default)} | {field.description} |")
    lines += [
        "",
        "`JAVA_HOME` chooses the Java that Spark runs on.",
        "",
    ]
    return "\n".join(lines)


def command_line() -> str:
    root = typer.main.get_command(build())
    lines = [
        "# Command line",
        "",
        "Generated from the code by `make docs`. `lily --install-completion` teaches your shell",
        "to complete commands and options.",
        "",
        "Commands that talk to the API log in with `credentials` in `LILY_HOME`, unless they are",
        "given `--token` (or `LILY_TOKEN`); `--url` says where the API is.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()),
    ]
    for command, path in _leaves(root, "lily"):
        lines += ["", *_described(command, path)]
    return "\n".join(lines) + "\n"


def _leaves(command: Any, path: str) -> list[tuple[Any, str]]:
    """Every command that does something, depth first."""
    below = getattr(command, "commands", None)
    if below is None:
        return [(command, path)]
    return [leaf for name, sub in below.items() for leaf in _leaves(sub, f"{path} {name}")]


def _described(command: Any, path: str) -> list[str]:
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    arguments = [p for p in shown if p.param_type_name == "argument"]
    options = [p for p in shown if p.param_type_name == "option"]
    usage = " ".join([path, *(_placeholder(argument) for argument in arguments)])
    lines = [f"## `{usage}`", "", str(command.help)]
    described = [
        f"- `{_placeholder(argument)}`: {argument.help}"
        for argument in arguments
        if getattr(argument, "help", None)
    ] + [f"- `{_flags(option)}`{_colon(option)}" for option in options]
    return [*lines, "", *described] if described else lines


def _placeholder(argument: Any) -> str:
    name = (argument.metavar or argument.name or "").upper()
    name = f"{name}..." if argument.nargs == -1 and "..." not in name else name
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _flags(option: Any) -> str:
    names = "/".join([option.opts[-1], *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.opts[-1].lstrip('-').upper()}"


def _colon(option: Any) -> str:
    return f": {option.help}" if option.help else ""


def _default(value: object) -> str:
    if value in (None, [], ""):
        return ""
    return f"`{value}`"


def write(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
