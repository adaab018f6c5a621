"""`schema.sql`: what all migrations add up to, for readers. `python -m lily.store.schema`."""

import subprocess
import tempfile
from pathlib import Path

from lily.store.embedded import BIN, Server, stop
from lily.store.migrate import migrate

FILE = Path(__file__).with_name("schema.sql")
HEAD = "-- What the migrations add up to. Written by `make schema`; never run.\n"
# The dump's own preamble: settings of a session, versions, and a random word.
_NOISE = ("--", "\\restrict", "\\unrestrict", "SET ", "SELECT pg_catalog.set_config")


def dump(url: str) -> str:
    """The schema of a migrated database, the same text for the same schema."""
    command = [str(BIN / "pg_dump"), "--schema-only", "--schema=lily", f"--dbname={url}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(_NOISE)]
    paragraphs = "\n".join(lines).split("\n\n")
    return HEAD + "\n" + "\n\n".join(p.strip("\n") for p in paragraphs if p.strip()) + "\n"


def write() -> None:
    with tempfile.TemporaryDirectory(prefix="lily-schema-") as folder:
        server = Server(Path(folder, "postgres"))
        server.prepare()
        process = server.run(subprocess.DEVNULL)
        try:
            server.wait(process)
            url = server.create_database("lily")
            migrate(url)
            FILE.write_text(dump(url), encoding="utf-8")
        finally:
            stop(process)


if __name__ == "__main__":
    write()
