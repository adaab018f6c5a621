"""Settings to objects. The only place that knows which implementation stands behind what."""

from dataclasses import dataclass
from pathlib import Path

from lily.clock import Clock, SystemClock
from lily.settings import Settings
from lily.store import seal
from lily.store.database import Database, Role
from lily.store.embedded import Server
from lily.store.seal import Seal


@dataclass(frozen=True)
class Core:
    """What every role needs: settings, time, secrets, and the databases as its role."""

    settings: Settings
    clock: Clock
    seal: Seal
    database: Database

    def close(self) -> None:
        self.database.close()


def server(settings: Settings) -> Server | None:
    """The embedded PostgreSQL, if that is what is configured."""
    if settings.database != "embedded":
        return None
    return Server(settings.home / "postgres")


def home_url(settings: Settings) -> str:
    """The home database as its administrator: for migrations, and to derive the roles from."""
    embedded = server(settings)
    return embedded.url_of("lily") if embedded else settings.database


def secret_key_file(settings: Settings) -> Path:
    return settings.secret_key_file or settings.home / "secret.key"


def core(settings: Settings, role: Role, pool: int = 8, clock: Clock | None = None) -> Core:
    ring = seal.load(secret_key_file(settings))
    database = Database(home_url(settings), role, ring.open, pool)
    return Core(settings, clock or SystemClock(), ring, database)
