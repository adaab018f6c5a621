"""The way of one cell's rows into its own lake, by position: plain Python, without Spark."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from lily import wiring
from lily.errors import Fenced, Unavailable
from lily.log.kafka_past import is_part, named
from lily.store import archive, edge_slices, past, positions, propagation, slices
from lily.telemetry import LAKE_LAG_SECONDS
from lily.types import LANES
from lily.wiring import Core

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lily.lake.cell import CellLake, Position, Rows
    from lily.lake.latest import Slice
    from lily.lake.tables import Layout
    from lily.lake.upkeep import Done
    from lily.log.kafka_lag import Parts

ROWS = 50_000  # in one commit
LATEST_EVERY = 300.0
PAUSE = 2.0  # at most: while one moment of the store is read, it cannot tidy up behind it
LATEST_PATIENCE = 1800.0  # seconds more, while slices would be stale before they are written

Source = Callable[["Position"], tuple[list[tuple[object, ...]], "Position"]]


class Writer(Protocol):
    """How slices of the latest get into their table."""

    def add(self, table: "Table", rows: "Rows") -> None:
        """Gather rows of slices that have changed."""

    def put(
        self,
        table: "Table",
        slices: "Iterable[Slice]",
        digests: "Mapping[Slice, str]",
        position: "Position",
    ) -> None:
        """The slices then hold what was gathered, and nothing else."""


class CellArchive:
    """The way of one cell's rows into its own lake. `rest` is called with seconds to pause for
    after each piece of work, so that others in the same process get their turn."""

    def __init__(
        self,
        core: Core,
        cell: str,
        rest: Callable[[float], object] = lambda _: None,
        writer: Writer | None = None,
    ) -> None:
        self._core = core
        self._writer = writer
        self._cell = cell
        self._rest = rest
        self._past = wiring.kafka_past(core)
        self._in_kafka = wiring.kafka_lag(core.settings)
        self._lake: CellLake | None = None
        self._reached: dict[str, Position] = {}
        self._due: float | None = None  # when the latest assets may be written again

    @property
    def lake(self) -> "CellLake":
        if self._lake is None:
            self._lake = wiring.lake(self._core, self._cell)
        return self._lake

    def close(self) -> None:
        for each in (self._lake, self._past, self._in_kafka):
            if each is not None:
                each.close()

    def catch_up(
        self, until: float = float("inf"), latest: bool = False, hurried: bool = False
    ) -> None:
        """Archive what is new. `latest` refreshes the tables of latest assets at once; who is
        `hurried` leaves them for later, because what is in them changes as it is read. So it does
        while much travels along lineage."""
        try:
            tenants = self._tenants()
            self._forget_others(tenants)
            with self._core.database.cell(self._cell, tenants) as conn:
                heads, applied = archive.heads(conn, tenants), positions.applied(conn)
                parts = positions.parts(conn) if self._past is not None else {}
                hurried = hurried or propagation.travels(conn, tenants)
            lanes: Position = {lane: applied[lane] for lane in LANES}
            if not self._is_level(heads, lanes, {named(*part): at for part, at in parts.items()}):
                self._archive(tenants, heads, until)
                if latest or self._is_due(LATEST_PATIENCE if hurried else 0.0):
                    self._refresh(tenants)
            with self._core.database.cell(self._cell) as conn:
                archive.mark_archived(conn, self._reached.get("observations", {}))
            self._tell(tenants)
        except BaseException:
            self._reached.clear()  # ask the tables again how far they go
            raise

    def upkeep(self) -> "list[Done]":
        from lily.lake.upkeep import Rules, upkeep

        settings = self._core.settings
        rules = Rules(settings.lake_snapshot_days, settings.lake_observation_days)
        done = upkeep(self.lake, self._core.clock.now(), rules)
        self._reached.clear()
        return done

    def _tell(self, tenants: list[int]) -> None:
        """How far each table is behind, for /metrics."""
        with self._core.database.cell(self._cell, tenants) as conn:
            heads = archive.heads(conn, tenants)
            for name, reached in self._reached.items():
                if name == "observations":
                    seconds = max(archive.log_lag(conn).values(), default=0.0)
                    seconds = max(seconds, self._behind_kafka(positions.parts(conn), reached))
                else:
                    behind = {
                        tenant: at
                        for tenant, head in heads.items()
                        if (at := reached.get(str(tenant), 0)) < head
                    }
                    waits = [archive.waits_since(conn, *each) for each in behind.items()]
                    seconds = max(waits, default=0.0)
                LAKE_LAG_SECONDS.labels(self._cell, name).set(seconds)

    def _behind_kafka(self, parts: "Parts", reached: "Position") -> float:
        """Seconds since the first record came that was applied and is not archived."""
        if self._in_kafka is None:
            return 0.0
        here = {part: reached.get(named(*part), 0) for part in parts}
        try:
            since = self._in_kafka.since(self._cell, here, parts)
        except Unavailable:
            return 0.0
        return (self._core.clock.now() - since).total_seconds() if since else 0.0

    def _tenants(self) -> list[int]:
        return [each.number for each in self._core.database.tenants() if each.cell == self._cell]

    def _forget_others(self, tenants: list[int]) -> None:
        """A tenant that has moved away begins at nothing, should it come back."""
        kept = {*LANES, *map(str, tenants)}
        for name, position in self._reached.items():
            self._reached[name] = {
                key: at for key, at in position.items() if key in kept or is_part(key)
            }

    def _is_level(self, heads: dict[int, int], applied: "Position", parts: "Position") -> bool:
        """Whether every table has everything, as far as this process remembers."""
        feeds = {str(tenant): head for tenant, head in heads.items()}
        latest = {name: {**applied, **feeds} for name in ("assets", "tags", "edges")}
        seen = {**applied, **parts}
        wanted = {"observations": seen, "facts": feeds, "assets_history": feeds, **latest}
        return all(self._reached.get(name) == position for name, position in wanted.items())

    def _archive(self, tenants: list[int], heads: dict[int, int], until: float) -> None:
        from lily.lake.tables import FACTS, HISTORY, OBSERVATIONS

        database = self._core.database

        def observations(start: "Position") -> tuple[list[tuple[object, ...]], "Position"]:
            with database.cell(self._cell) as conn:
                rows, end = archive.log_after(conn, start, ROWS)
                parts = positions.parts(conn)
            more, ends = self._from_kafka(start, parts, ROWS - len(rows))
            return [*rows, *more], end | ends

        def facts(start: "Position") -> tuple[list[tuple[object, ...]], "Position"]:
            with database.cell(self._cell, tenants) as conn:
                return archive.facts_after(conn, start, heads, ROWS)

        def versions(start: "Position") -> tuple[list[tuple[object, ...]], "Position"]:
            return self._versions(start, heads)

        self._append(OBSERVATIONS, observations, until)
        self._append(FACTS, facts, until)
        self._append(HISTORY, versions, until)

    def _from_kafka(
        self, start: "Position", parts: "Parts", limit: int
    ) -> tuple[list[tuple[object, ...]], "Position"]:
        """What was applied from there; nothing while it is away, or is not the log any more."""
        if self._past is not None:
            here = set(self._tenants())  # asked after the positions: whoever is in there is known
            with suppress(Unavailable):
                return self._past.after(self._cell, start, parts, limit, here.__contains__)
        return [], {key: at for key, at in start.items() if is_part(key)}

    def _append(self, layout: "Layout", source: Source, until: float) -> None:
        """Commit after commit, until the source has no more or the time is up."""
        from lily.lake.cell import append, position_of

        table: Table | None = None
        if layout.name not in self._reached:
            table = self.lake.table(layout)
            self._reached[layout.name] = position_of(table)
        while (began := monotonic()) < until:
            rows, end = source(self._reached[layout.name])
            if rows:
                table = table or self._expected(layout)
                append(table, rows, end)
            if end == self._reached[layout.name]:
                return
            self._reached[layout.name] = end
            self._rest(monotonic() - began)

    def _expected(self, layout: "Layout") -> "Table":
        """The table, if it still is where this process remembers it."""
        from lily.lake.cell import position_of

        table = self.lake.table(layout)
        found, remembered = position_of(table), self._reached[layout.name]
        if any(remembered.get(name, 0) < reached for name, reached in found.items()):
            raise Fenced(f"another process has written the lake's {layout.name}")
        return table

    def _versions(
        self, start: "Position", heads: dict[int, int]
    ) -> tuple[list[tuple[object, ...]], "Position"]:
        from lily.lake.read import first_versions

        end = dict(start)
        found: list[tuple[object, ...]] = []
        for tenant, head in sorted(heads.items()):
            after = start.get(str(tenant), 0)
            if head <= after or len(found) >= ROWS:
                continue
            knows = partial(first_versions, self.lake, tenant)
            with self._core.database.frozen(self._cell, [tenant]) as conn:
                rows, reached = past.versions_after(conn, tenant, after, head, knows)
            found += rows
            end[str(tenant)] = reached
        return found, end

    def _is_due(self, patience: float) -> bool:
        """Whether the tables of the latest may be written again."""
        from lily.lake.tables import ASSETS

        if self._due is None:
            self._due = monotonic() + self._wait(self.lake.table(ASSETS))
        return monotonic() >= self._due + patience

    def _refresh(self, tenants: list[int]) -> None:
        """Replace the slices of the latest assets and tags that have changed."""
        from lily.lake.cell import position_of
        from lily.lake.latest import ByFiles, digests_of
        from lily.lake.tables import ASSETS, EDGES, TAGS

        writer = self._writer or ByFiles()
        assets, tags = self.lake.table(ASSETS), self.lake.table(TAGS)
        edges = self.lake.table(EDGES)
        began = monotonic()
        with self._core.database.frozen(self._cell, tenants) as conn:
            feeds = {str(tenant): head for tenant, head in archive.heads(conn, tenants).items()}
            applied = positions.applied(conn)
            position: Position = feeds | {lane: applied[lane] for lane in LANES}
            if position_of(assets) != position or position_of(tags) != position:
                now = slices.digests(conn, tenants)
                before, tagged = digests_of(assets), digests_of(tags)
                changed = {
                    each
                    for each in {*now, *before, *tagged}
                    if now.get(each) != before.get(each) or now.get(each) != tagged.get(each)
                }
                for rows in self._slices(conn, tenants, sorted(changed & set(now))):
                    writer.add(assets, rows)
                    if labels := slices.tags_of(rows):
                        writer.add(tags, labels)
                writer.put(assets, changed, now, position)
                writer.put(tags, changed, now, position)
            if position_of(edges) != position:
                joined, known = edge_slices.digests(conn, tenants), digests_of(edges)
                moved = {e for e in {*joined, *known} if joined.get(e) != known.get(e)}
                for rows in self._slices(conn, tenants, sorted(moved & set(joined)), edge_slices):
                    writer.add(edges, rows)
                writer.put(edges, moved, joined, position)
        for name in ("assets", "tags", "edges"):
            self._reached[name] = position
        # Not too often: a slice is written whole, however little of it has changed.
        self._due = monotonic() + max(LATEST_EVERY, 10 * (monotonic() - began))

    def _slices(
        self, conn: Any, tenants: list[int], wanted: list[slices.Slice], of: Any = slices
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Batches of rows of assets, or of edges."""
        for each in wanted:
            began = monotonic()
            for rows in of.rows_of(conn, tenants, each):
                yield rows
                self._rest(min(monotonic() - began, PAUSE))
                began = monotonic()

    def _wait(self, table: "Table") -> float:
        """Seconds until the latest assets are due, when another process wrote them last."""
        snapshot = table.current_snapshot()
        if snapshot is None:
            return 0.0
        age = self._core.clock.now().timestamp() - snapshot.timestamp_ms / 1000
        return max(0.0, min(LATEST_EVERY, LATEST_EVERY - age))
