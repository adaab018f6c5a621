"""Writes the schemas of a release, against which later ones are compared."""

from pathlib import Path

import msgspec

from lily.events import schemas


def freeze(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in schemas.names():
        made = {k: v for k, v in schemas.schema(name).items() if k != "examples"}
        text = msgspec.json.format(msgspec.json.encode(made), indent=2)
        (folder / f"{name}.json").write_bytes(text + b"\n")


if __name__ == "__main__":
    freeze(Path(__file__).parent / "schemas")
