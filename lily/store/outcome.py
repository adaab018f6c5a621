"""What a batch comes to: rows and facts, brought in part by part while the next is decided."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import psycopg
from msgspec.structs import astuple

from lily.assets.change import Known
from lily.assets.model import Asset
from lily.events.chain import Link, forge
from lily.events.facts import Fact
from lily.store import assets, edges, feed, packing
from lily.store.copying import Pour, Stage
from lily.store.edge_merge import Decided

LINKS = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS batch_fact (LIKE lily.fact)"
    " WITH (toast_tuple_target = 8160) ON COMMIT DELETE ROWS",
    f"COPY batch_fact ({feed.COLUMNS}) FROM STDIN (FORMAT binary)",
    f"INSERT INTO fact ({feed.COLUMNS}) SELECT {feed.COLUMNS} FROM batch_fact",
    "DELETE FROM batch_fact",
)
_row = packing.rows(
    packing.integer, packing.big, packing.text, packing.moment, packing.uuid, packing.integer,
    packing.text, packing.text, packing.raw, packing.raw, packing.raw,
)  # fmt: skip


class Outcome:
    """Rows and facts on their way. The connection belongs to it until it is left."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        self._pour = Pour(conn)
        self._heads: dict[int, tuple[int, bytes]] = {}
        self._last: dict[int, Link] = {}
        self.shown: list[Asset] = []  # that are new, or show something new

    def __enter__(self) -> "Outcome":
        self._pour.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._pour.__exit__(*failure)

    def put(self, known: Iterable[Known], facts: Mapping[int, list[Fact]]) -> None:
        """These assets as they were decided, and what is told of them."""
        links = [link for tenant in sorted(facts) for link in self._forge(tenant, facts[tenant])]
        self._put_assets(known, links)
        put_links(self._pour, links)

    def put_edges(self, decided: Decided) -> None:
        """The same of edges."""
        links: list[Link] = []
        told: dict[UUID, int] = {}
        for tenant in sorted(decided.facts):
            made = self._forge(tenant, decided.facts[tenant])
            links += made
            told |= _edges_told(decided.facts[tenant], made)
        for known in decided.edges:
            if known.edge is not None and (at := told.get(known.ends.id)) is not None:
                known.edge.feed_position = at
        edges.put(self._pour, decided.edges)
        put_links(self._pour, links)

    def move_heads(self) -> None:
        """How far each feed now goes; after everything was put in."""
        for link in self._last.values():
            feed.move_head(self._conn, link)

    def _forge(self, tenant: int, facts: Sequence[Fact]) -> list[Link]:
        if tenant not in self._heads:
            self._pour.settle()
            self._heads[tenant] = feed.take_head(self._conn, tenant)
        made = forge(tenant, *self._heads[tenant], facts)
        if made:
            self._last[tenant] = made[-1]
            self._heads[tenant] = made[-1].position, made[-1].hash
        return made

    def _put_assets(self, known: Iterable[Known], links: Sequence[Link]) -> None:
        places: dict[UUID, int] = {}
        quiet: dict[UUID, int] = {}
        for link in links:
            if link.guid is not None:
                (quiet if link.kind == "FieldsCreated" else places)[link.guid] = link.position
        created: list[Asset] = []
        changed: list[Asset] = []
        touched: list[Asset] = []
        for each in known:
            asset = each.asset
            if asset is None or not each.touched:
                continue
            is_new = asset.feed_position == 0
            place = places.get(asset.guid)
            if place is None and is_new:
                place = quiet.get(asset.parent or asset.guid)
            if place is None:
                touched.append(asset)
            else:
                asset.feed_position = place
                (created if is_new else changed).append(asset)
        assets.insert(self._pour, created)
        assets.replace(self._pour, changed)
        assets.touch(self._pour, touched)
        self.shown += created
        self.shown += changed


def write_links(conn: psycopg.Connection, links: Sequence[Link]) -> None:
    """The facts, and after them how far each feed now goes."""
    with Pour(conn) as pour:
        put_links(pour, links)
    for link in {link.tenant: link for link in links}.values():
        feed.move_head(conn, link)


def put_links(pour: Pour, links: Sequence[Link]) -> None:
    if links:
        pour.put_packed(LINKS, links, packed)


def packed(link: Link) -> bytes:
    """As a row of binary COPY."""
    return _row(astuple(link))


def _edges_told(facts: Sequence[Fact], made: Sequence[Link]) -> dict[UUID, int]:
    """Where in the feed each edge was last spoken of."""
    return {
        fact.after["edge_id"]: link.position
        for fact, link in zip(facts, made, strict=True)
        if fact.after is not None
    }
