"""Where children's lines go: whole into a file per role, the readable part to the terminal."""

from pathlib import Path
from threading import Lock

import msgspec
import typer

from lily.clock import SystemClock

FILE_LIMIT = 10_000_000
KEPT = 3
COLOURS = {"serve": "cyan", "pipeline": "magenta", "work": "blue", "postgres": "green"}
LEVELS = {"warning": "yellow", "error": "red", "critical": "red"}
HEALTH = {"/healthz", "/readyz", "/metrics"}  # asked all the time, by us and by others
HIDDEN = {"time", "level", "logger", "event", "exception", "role"}


class RoleFile:
    """A log file that moves itself aside when it is full: role.log, role.log.1, role.log.2."""

    def __init__(self, path: Path, limit: int = FILE_LIMIT) -> None:
        self._path = path
        self._limit = limit
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")

    def write(self, raw: bytes) -> None:
        if self._file.tell() + len(raw) > self._limit:
            self._rotate()
        self._file.write(raw)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(KEPT - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.rename(self._numbered(number))
        self._file = self._path.open("wb")

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


class Output:
    """The reporter of `lily up`: files under the log folder, and the terminal."""

    def __init__(self, folder: Path, pretty: bool = True) -> None:
        self._folder = folder
        self._pretty = pretty
        self._files: dict[str, RoleFile] = {}
        self._lock = Lock()

    def line(self, name: str, raw: bytes) -> None:
        with self._lock:
            self._file(name).write(raw)
            if shown := self._shown(name, raw):
                typer.echo(shown, err=True)

    def news(self, name: str, level: str, event: str, **more: object) -> None:
        """Something that the supervisor itself has to say about a child."""
        at = SystemClock().now().isoformat().replace("+00:00", "Z")
        said = {"time": at, "level": level, "logger": "lily.up", "event": event, "role": name}
        self.line("up", msgspec.json.encode({**said, **more}) + b"\n")

    def close(self) -> None:
        with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    def _file(self, name: str) -> RoleFile:
        if name not in self._files:
            self._files[name] = RoleFile(self._folder / f"{name}.log")
        return self._files[name]

    def _shown(self, name: str, raw: bytes) -> str | None:
        """One line for the terminal; what is not a log line of ours stays in the file."""
        try:
            line = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return None
        if not isinstance(line, dict) or line.get("level") == "debug" or "event" not in line:
            return None
        if line.get("route") in HEALTH:
            return None
        if not self._pretty:
            return msgspec.json.encode({"role": name, **line}).decode()
        return pretty(name, line)


def pretty(name: str, line: dict[str, object]) -> str:
    """A log line as a person reads it: time, role, what happened, then the rest."""
    level = str(line.get("level", "info"))
    colour = COLOURS.get(name.partition("-")[0], "white")
    last = line.get("last")
    rest = " ".join(f"{k}={v}" for k, v in line.items() if k not in HIDDEN and k != "last")
    parts = [
        typer.style(str(line.get("time", ""))[11:19], dim=True),
        typer.style(f"{name:<9}", fg=colour),
        typer.style(" ".join(str(line["event"]).split()), fg=LEVELS.get(level)),
        typer.style(rest, dim=True),
    ]
    shown = " ".join(part for part in parts if part)
    if isinstance(last, list):
        shown += "".join(f"\n    {_brief(str(text))}" for text in last[-5:])
    return shown


def _brief(text: str) -> str:
    """A last line of a child: only what happened, if it is a log line."""
    try:
        return str(msgspec.json.decode(text)["event"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return text
