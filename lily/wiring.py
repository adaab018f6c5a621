"""Settings to objects. The only place that knows which implementation stands behind what."""

import asyncio
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from lily import plugins
from lily.clock import Clock, SystemClock
from lily.errors import PluginError, Unavailable
from lily.events import signed
from lily.identity import passwords
from lily.identity.actor import Actor
from lily.identity.jwks import KeySets
from lily.identity.verifier import Verifier
from lily.lineage.enrich import Enrichments
from lily.log.appender import Appender
from lily.log.applied import Applied
from lily.log.departures import Departures
from lily.log.kafka import Kafka, KafkaAway, address
from lily.log.kafka_lag import Behind, KafkaLag
from lily.log.kafka_past import KafkaPast
from lily.log.kafka_reader import KafkaReader
from lily.log.kafka_writer import KafkaAppender, KafkaWriter
from lily.outside import Outside
from lily.settings import Settings
from lily.store import archive, positions, seal, tenants
from lily.store.database import HOME, LEAST, Database, Role
from lily.store.guard import Guard
from lily.store.idempotency import Answers
from lily.store.keys import Keyring
from lily.store.lag import Lag, lag
from lily.store.producer_keys import PastKeys
from lily.store.providers import Providers, Vouching
from lily.store.reads import Reads
from lily.store.refusals import Refusals
from lily.store.revocations import Follower, Revocations
from lily.store.seal import Seal
from lily.store.sessions import Sessions, Terms
from lily.store.tokens import Directory
from lily.store.wakeups import Wakeups
from lily.types import Tenant

if TYPE_CHECKING:
    from lily.lake.cell import CellLake
    from lily.store.embedded import Server

IMAGE_JARS = Path(sys.prefix) / "jars"


@dataclass(frozen=True)
class Core:
    """What every role needs: settings, time, secrets, and the databases as its role."""

    settings: Settings
    clock: Clock
    seal: Seal
    database: Database

    def close(self) -> None:
        self.database.close()


def server(settings: Settings) -> "Server | None":
    """The embedded PostgreSQL, if that is what is configured."""
    if settings.database != "embedded":
        return None
    from lily.store.embedded import Server  # executors of a cluster have none to import

    return Server(settings.home / "postgres")


def home_url(settings: Settings) -> str:
    """The home database as its administrator, past a pooler: for migrations, for what needs a
    session, and to derive the roles from."""
    embedded = server(settings)
    if embedded is not None:
        return embedded.url_of("lily")
    return settings.database_direct or settings.database


def secret_key_file(settings: Settings) -> Path:
    return settings.secret_key_file or settings.home / "secret.key"


def source_folders(settings: Settings, tenant: Tenant) -> list[Path]:
    """Where crawlers of a tenant may read files."""
    return [settings.home / "inbox" / tenant.name, *settings.source_folders]


def core(settings: Settings, role: Role, pool: int = 8, clock: Clock | None = None) -> Core:
    ring = seal.load(secret_key_file(settings))
    pooler = settings.database if settings.database_direct else None
    database = Database(
        home_url(settings), role, ring.open, pool, settings.database_replica, pooler
    )
    return Core(settings, clock or SystemClock(), ring, database)


def save(settings: Settings, path: Path) -> None:
    """Leave the settings for a process that cannot be handed an object; nobody else may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(settings.model_dump_json())


def reopen(path: str, role: Role) -> Core:
    """The same wiring again, in a process that Spark started."""
    return core(Settings.model_validate_json(Path(path).read_text()), role, pool=2)


def pack(settings: Settings) -> str:
    """Settings and keys for a process on another machine. A secret: only in memory, never shown."""
    keys = secret_key_file(settings)
    seal.load(keys)  # makes the file, if there is none
    found = settings.model_copy(update={"database": home_url(settings)})
    return msgspec.json.encode([found.model_dump_json(), keys.read_text()]).decode()


def packed(path: str) -> str:
    """The same of what `save` has left."""
    return pack(Settings.model_validate_json(Path(path).read_text()))


def unpacked(text: str, role: Role) -> Core:
    """The same wiring again where there is neither our folder nor our environment."""
    # Spark ends its helpers when it likes: one may find the database gone, and nobody to tell.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    document, keys = msgspec.json.decode(text, type=tuple[str, str])
    settings, ring = Settings.model_validate_json(document), seal.parse(keys)
    return Core(settings, SystemClock(), ring, Database(home_url(settings), role, ring.open, 2))


def kafka(settings: Settings) -> Kafka | None:
    """The cluster that is the log, if one is."""
    if settings.log == "postgres":
        return None
    servers, prefix = address(settings.log)
    return Kafka(
        servers=servers,
        prefix=prefix,
        security=settings.kafka_security,
        mechanism=settings.kafka_mechanism,
        username=settings.kafka_username,
        password=settings.kafka_password.get_secret_value(),
        ca=settings.kafka_ca,
        certificate=settings.kafka_certificate,
        key=settings.kafka_key,
        partitions=settings.kafka_partitions,
        replication=settings.kafka_replication,
        keep_hours=settings.log_keep_hours,
    )


def kafka_writer(core: Core, cluster: Kafka) -> KafkaWriter:
    """Signs as Lily itself."""
    own = core.seal.derived(signed.OWN)[0]
    return KafkaWriter(cluster, lambda key, value: signed.sign(signed.OWN, own, key, value))


def kafka_lag(settings: Settings) -> KafkaLag | None:
    """Tells what waits in the log in Kafka, if that is the log."""
    cluster = kafka(settings)
    return KafkaLag(cluster) if cluster else None


def kafka_past(core: Core) -> KafkaPast | None:
    """Reads again what was applied from Kafka, if that is the log; as the system's role."""
    cluster = kafka(core.settings)
    if cluster is None:
        return None
    own, keys = core.seal.derived(signed.OWN), PastKeys(core.database, core.seal.open)
    return KafkaPast(KafkaReader(cluster), lambda at: signed.Door(own, lambda id: keys(id, at)))


def lags(core: Core, cell: str, in_kafka: KafkaLag | None) -> list[Lag]:
    """How far each lane of a cell is behind, in both logs; as the system's role."""
    found = lag(core.database, cell)
    if in_kafka is None:
        return found
    with core.database.cell(cell) as conn:
        parts = positions.parts(conn)
    try:
        more = in_kafka.measure(cell, parts)
    except KafkaAway:  # it never answered yet
        return found
    now = core.clock.now()
    return [_with(each, more.get(each.lane, Behind()), now) for each in found]


def _with(each: Lag, more: Behind, now: datetime) -> Lag:
    age = max(0.0, (now - more.oldest).total_seconds()) if more.oldest else 0.0
    return msgspec.structs.replace(
        each, waiting=each.waiting + more.waiting, seconds=max(each.seconds, age)
    )


def jars(settings: Settings) -> list[Path]:
    """What `make jars` has fetched: where the settings say, beside the code, or in the image."""
    places = [settings.jars] if settings.jars else [Path(__file__).parents[1] / "jars", IMAGE_JARS]
    return next((found for place in places if (found := sorted(place.glob("*.jar")))), [])


def reads_kafka(settings: Settings) -> bool:
    """Whether Spark has the jars for it."""
    return any(each.name.startswith("spark-sql-kafka") for each in jars(settings))


def enrichments() -> Enrichments:
    """The plug-ins of rules, as they are installed here."""
    return Enrichments(partial(plugins.build, "enrichment"))


def lake(core: Core, cell: str) -> "CellLake":
    """The lake of a cell: its catalog and its files apart from all others'."""
    from lily.lake.cell import NAMESPACE, CellLake  # heavy, and most processes never need it

    settings = core.settings
    if settings.lake == "off":
        raise Unavailable("There is no lake: LILY_LAKE is off.")
    place, storage = warehouse(settings, cell), lake_storage(settings)
    if settings.lake_catalog == "database":
        own = {
            "type": "sql",
            "uri": archive.catalog_url(core.database, cell),
            "warehouse": place,
            "init_catalog_tables": "false",
            "pool_pre_ping": "true",
        }
        return CellLake(own | storage, place)
    # One catalog for all cells: each has a namespace of its own.
    namespace = NAMESPACE if cell == HOME else f"{NAMESPACE}_{cell.replace('-', '')}"
    return CellLake(rest_catalog(settings) | storage, place, namespace)


def rest_catalog(settings: Settings) -> dict[str, str]:
    """How the lake's REST catalog is reached: `rest:http://…/iceberg?warehouse=name`."""
    url, _, query = settings.lake_catalog.removeprefix("rest:").partition("?")
    named = dict(parse_qsl(query))
    return {"type": "rest", "uri": url} | named


def lake_storage(settings: Settings) -> dict[str, str]:
    """Where S3 is, if not at Amazon; keys are found as every AWS client finds them."""
    given = {"s3.endpoint": settings.lake_s3_endpoint, "s3.region": settings.lake_s3_region}
    return {name: value for name, value in given.items() if value}


def warehouse(settings: Settings, cell: str) -> str:
    """The folder of a cell's files."""
    under_home = settings.lake in ("file:", "")
    base = (settings.home / "lake").as_uri() if under_home else settings.lake.rstrip("/")
    return f"{base}/{cell}"


@dataclass(frozen=True)
class Identity:
    """Who asks: issuing tokens, checking them, and following what was revoked."""

    keys: Keyring
    revocations: Revocations
    sessions: Sessions
    verifier: Verifier
    refusals: Refusals
    terms: Terms
    follower: Follower
    outside: Outside
    published: KeySets

    def start(self) -> None:
        with suppress(Unavailable):  # the follower keeps trying
            self.keys.ensure()
        self.follower.start()

    def stop(self) -> None:
        self.follower.stop()


@dataclass(frozen=True)
class Hot:
    """The asynchronous path of one cell: append, wait, read."""

    appender: Appender | KafkaAppender
    applied: Applied
    reads: Reads
    replica: Reads | None = None

    async def close(self) -> None:
        await self.appender.close()
        await self.applied.close()
        await self.reads.close()
        if self.replica is not None:
            await self.replica.close()

    async def to_read(self, tenant: int) -> Reads:
        """The replica, if it has what the caller must see; else the database itself."""
        if self.replica is None:
            return self.reads
        least = LEAST.get()
        if least is None:
            least = await self.reads.head(tenant)
        with suppress(Unavailable):
            if await self.replica.head(tenant) >= least:
                return self.replica
        return self.reads


class HotCells:
    """Opened with the first request that needs it, in the event loop that serves it."""

    def __init__(self, database: Database, writer: KafkaWriter | None = None) -> None:
        self._database = database
        self._writer = writer
        self._cells: dict[str, Hot] = {}
        self._lock = asyncio.Lock()

    async def __call__(self, cell: str) -> Hot:
        if (hot := self._cells.get(cell)) is not None:
            return hot
        async with self._lock:
            if cell not in self._cells:
                url = await asyncio.to_thread(self._database.role_url, cell)
                writer = self._writer
                appender = (
                    Appender(url)
                    if writer is None
                    else KafkaAppender(writer, cell, Departures(url, cell))
                )
                other = self._database.replica_url(cell)
                replica = Reads(other) if other is not None else None
                self._cells[cell] = Hot(appender, Applied(url), Reads(url), replica)
            return self._cells[cell]

    async def close(self) -> None:
        for hot in self._cells.values():
            await hot.close()
        self._cells.clear()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)


@dataclass(frozen=True)
class Services:
    """What the API is made of."""

    core: Core
    identity: Identity
    answers: Answers
    hot: HotCells
    wakeups: Wakeups
    guard: Guard
    in_kafka: KafkaLag | None

    def start(self) -> None:
        self.identity.start()

    def stop(self) -> None:
        self.wakeups.stop()
        self.identity.stop()
        if self.in_kafka is not None:
            self.in_kafka.close()


def identity(core: Core) -> Identity:
    settings = core.settings
    terms = Terms(
        access=timedelta(seconds=settings.access_token_seconds),
        refresh=timedelta(seconds=settings.refresh_token_seconds),
    )
    named = settings.public_url is not None
    keys = Keyring(core.database, core.seal, terms.access, settings.url, named)
    revocations = Revocations(core.database)
    sessions = Sessions(core.database, keys, core.clock, terms)
    directory = Directory(core.database)
    outside = Outside(settings.egress_allow)
    published = KeySets(outside.get)
    vouching = Vouching(Providers(core.database), published)
    verifier = Verifier(keys, revocations, directory, core.clock, foreign=vouching)
    follower = Follower([revocations.poll, keys.refresh])
    refusals = Refusals(core.database, core.clock)
    return Identity(
        keys, revocations, sessions, verifier, refusals, terms, follower, outside, published
    )


def services(core: Core) -> Services:
    cluster = kafka(core.settings)
    hot = HotCells(core.database, kafka_writer(core, cluster) if cluster else None)
    return Services(
        core,
        identity(core),
        Answers(core.database, core.seal),
        hot,
        Wakeups(core.database),
        Guard(core.database),
        kafka_lag(core.settings),
    )


@dataclass(frozen=True)
class Credentials:
    """How the first admin gets in."""

    url: str
    tenant: str
    username: str
    password: str


def bootstrap(core: Core) -> Credentials | None:
    """First start: tenant `default` and its platform admin. Later, or second at once: None."""
    given = core.settings.admin_password
    password = given.get_secret_value() if given else passwords.made_up()
    if core.database.tenants():
        return None
    passwords.check_rules(password, "admin", "LILY_ADMIN_PASSWORD")
    admin = tenants.Admin("admin", passwords.hashed(password), platform=True)
    who = Actor("lily", "first-start")
    made = tenants.first(core.database, core.clock, "default", admin, who)
    if made is None:
        return None
    return Credentials(core.settings.url, made.name, admin.username, password)


def keeps_handle(plugin: str) -> bool:
    """Whether a target keeps a handle, so that one thing must be told in order."""
    try:
        return bool(getattr(plugins.load("target", plugin), "threads", False))
    except PluginError:
        return False
