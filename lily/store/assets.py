"""Assets: reading what is known of them, writing what became of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from msgspec.structs import astuple
from psycopg.types.json import Jsonb

from lily.assets import claims as registers
from lily.assets import words
from lily.assets.change import Assignment, Known, first_claim
from lily.assets.model import (
    ASSIGNMENTS,
    COLUMNS,
    FAILING,
    INCIDENTS,
    MORE_SOURCES,
    PROPAGATED,
    Asset,
    Propagated,
)
from lily.store import packing, vectors
from lily.store.copying import Pour, Stage, listed
from lily.types import Lane

Key = tuple[int, UUID]  # tenant, guid

_COLUMNS = ", ".join(COLUMNS)
ALL = f"{_COLUMNS}, search"
_JSON = {COLUMNS.index(n) for n in ("metadata", "details", "statement", "edited")}

SELECT = f"SELECT {_COLUMNS} FROM asset"
LOCK = (
    f"{SELECT} WHERE tenant = ANY(%s) AND lane = %s AND guid = ANY(%s::uuid[])"
    " ORDER BY guid FOR UPDATE"
)
PEEK = f"{SELECT} WHERE tenant = ANY(%s) AND guid = ANY(%s)"
_KEPT = ("tenant", "lane", "guid", "qualified_name")
CHANGED = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS batch_asset (LIKE lily.asset)"
    " WITH (toast_tuple_target = 8160) ON COMMIT DELETE ROWS",
    f"COPY batch_asset ({ALL}) FROM STDIN (FORMAT binary)",
    f"INSERT INTO asset ({ALL}) SELECT {ALL} FROM batch_asset"
    " ON CONFLICT (tenant, guid, lane) DO UPDATE SET "
    + ", ".join(f"{n} = excluded.{n}" for n in (*COLUMNS, "search") if n not in _KEPT),
    "DELETE FROM batch_asset",
)
NEW = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS batch_new (LIKE lily.asset)"
    " WITH (toast_tuple_target = 8160) ON COMMIT DELETE ROWS",
    f"COPY batch_new ({ALL}) FROM STDIN (FORMAT binary)",
    f"INSERT INTO asset ({ALL}) SELECT {ALL} FROM batch_new",
    "DELETE FROM batch_new",
)
REPLACE = (
    f"UPDATE asset SET ({_COLUMNS}, search) = ROW({'%s, ' * len(COLUMNS)}%s)"
    " WHERE tenant = %s AND guid = %s AND lane = %s"
)
_TOUCHED = ("observed_at", "applied_at", "log_offset", "expires_at", "layers", "statement")
_TOUCH = f"tenant, lane, guid, {', '.join(_TOUCHED)}"
TOUCH = Stage(
    "CREATE TEMP TABLE IF NOT EXISTS batch_touch ON COMMIT DELETE ROWS"
    f" AS SELECT {_TOUCH} FROM lily.asset WITH NO DATA",
    f"COPY batch_touch ({_TOUCH}) FROM STDIN",
    f"UPDATE asset a SET {', '.join(f'{name} = t.{name}' for name in _TOUCHED)}"
    " FROM batch_touch t WHERE a.tenant = t.tenant AND a.guid = t.guid AND a.lane = t.lane",
    "DELETE FROM batch_touch",
)
SOURCES = (
    "SELECT tenant, guid, source, statement FROM asset_source"
    " WHERE tenant = ANY(%s) AND guid = ANY(%s::uuid[])"
)
_ASSIGNMENT = ", ".join(Assignment.__struct_fields__)
ASSIGNED = (
    f"SELECT tenant, guid, {_ASSIGNMENT} FROM tag_assignment"
    " WHERE tenant = ANY(%s) AND guid = ANY(%s)"
)
BROUGHT = (
    "SELECT p.tenant, p.guid, p.field, p.name, p.value, p.root, p.depth, p.via, p.rule,"
    " coalesce(r.on_conflict = 'always', false)"
    " FROM propagated p LEFT JOIN propagation_rule r ON r.tenant = p.tenant AND r.id = p.rule"
    " WHERE p.tenant = ANY(%s) AND p.guid = ANY(%s)"
)
BURIED = (
    "SELECT tenant, guid, observed_at FROM tombstone"
    " WHERE tenant = ANY(%s) AND guid = ANY(%s::uuid[])"
)
ALIASES = "SELECT tenant, alias, guid FROM asset_alias WHERE tenant = ANY(%s) AND alias = ANY(%s)"
NAMES = "SELECT guid, qualified_name FROM asset WHERE tenant = ANY(%s) AND guid = ANY(%s)"
SAVE_SOURCE = (
    "INSERT INTO asset_source (tenant, guid, source, statement) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (tenant, guid, source) DO UPDATE SET statement = excluded.statement"
)
SAVE_ALIAS = (
    "INSERT INTO asset_alias (tenant, alias, guid) VALUES (%s, %s, %s)"
    " ON CONFLICT (tenant, alias) DO UPDATE SET guid = excluded.guid"
    " WHERE asset_alias.guid <> excluded.guid"
)
_SAID = ("state", "reason", "value", "valid_from", "valid_until", "settled", "at")
SAVE_ASSIGNMENT = (
    f"INSERT INTO tag_assignment (tenant, guid, {_ASSIGNMENT})"
    f" VALUES (%s, %s{', %s' * len(Assignment.__struct_fields__)})"
    " ON CONFLICT (tenant, guid, kind, tag, origin, by)"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _SAID)}"
)


def load(conn: psycopg.Connection, wanted: Mapping[Key, tuple[Lane, str]]) -> dict[Key, Known]:
    """Lock and read everything that is stored of these assets, by ascending guid."""
    known = {key: Known(key[0], key[1], name) for key, (_, name) in wanted.items()}
    tenants = sorted({tenant for tenant, _ in wanted})
    for lane in ("core", "fields"):
        guids = sorted(guid for (_, guid), (its, _) in wanted.items() if its == lane)
        if guids:
            for row in conn.execute(LOCK, [tenants, lane, listed(guids)], prepare=True):
                asset = Asset(*row)
                if (each := known.get((asset.tenant, asset.guid))) is not None:
                    each.asset = asset
                    each.qualified_name = asset.qualified_name
    _load_layers(conn, tenants, known)
    return known


def peek(conn: psycopg.Connection, wanted: Mapping[Key, tuple[Lane, str]]) -> dict[Key, Known]:
    """As `load`, but nothing is locked: what is read may be old when it is used."""
    known = {key: Known(key[0], key[1], name) for key, (_, name) in wanted.items()}
    tenants = sorted({tenant for tenant, _ in wanted})
    guids = [guid for _, guid in wanted]
    for row in conn.execute(PEEK, [tenants, guids]):
        asset = Asset(*row)
        if (each := known.get((asset.tenant, asset.guid))) is not None:
            each.asset = asset
    _load_layers(conn, tenants, known)
    return known


def known(conn: psycopg.Connection, asset: Asset) -> Known:
    """Everything that is stored of an asset which was read without a lock."""
    key = (asset.tenant, asset.guid)
    found = {key: Known(asset.tenant, asset.guid, asset.qualified_name, asset)}
    _load_layers(conn, [asset.tenant], found)
    return found[key]


def _load_layers(
    conn: psycopg.Connection, tenants: Sequence[int], known: Mapping[Key, Known]
) -> None:
    """What does not live in the asset's own row: further sources, assignments, tombstones."""
    missing = [k.guid for k in known.values() if k.asset is None]
    layered = [k for k in known.values() if k.asset is not None and k.asset.layers]
    more = missing + [k.guid for k in layered if k.asset and k.asset.layers & MORE_SOURCES]
    if more:
        for tenant, guid, source, statement in conn.execute(SOURCES, [tenants, listed(more)]):
            if (each := known.get((tenant, guid))) is not None:
                each.claims[source] = registers.load(statement)
    if missing:
        for tenant, guid, at in conn.execute(BURIED, [tenants, listed(missing)]):
            if (each := known.get((tenant, guid))) is not None:
                each.buried = registers.when(at, 2**62)
    for each in known.values():
        if each.asset is not None:
            each.claims[each.asset.source] = first_claim(each.asset)
    tagged = [k.guid for k in layered if k.asset and k.asset.layers & ASSIGNMENTS]
    if tagged:
        for tenant, guid, *rest in conn.execute(ASSIGNED, [tenants, tagged]):
            if (each := known.get((tenant, guid))) is not None:
                each.assignments.append(Assignment(*rest))
    reached = [k.guid for k in layered if k.asset and k.asset.layers & PROPAGATED]
    if reached:
        for tenant, guid, *rest in conn.execute(BROUGHT, [tenants, reached]):
            if (each := known.get((tenant, guid))) is not None:
                each.propagated.append(Propagated(*rest))


def insert(pour: Pour, created: Sequence[Asset]) -> None:
    """Insert rows of assets that were not there when we looked.

    Raises UniqueViolation when another writer was quicker: then all has to be decided again.
    """
    if created:
        pour.put_packed(NEW, created, packed)


def save(conn: psycopg.Connection, changed: Sequence[Asset]) -> None:
    """Insert or replace whole rows."""
    with Pour(conn) as pour:
        replace(pour, changed)


def replace(pour: Pour, changed: Sequence[Asset]) -> None:
    """Insert or replace whole rows: staged by COPY, then one merge."""
    if changed:
        pour.put_packed(CHANGED, changed, packed)


def save_one(conn: psycopg.Connection, asset: Asset) -> None:
    """Replace one row, without staging: the API has no temporary tables."""
    conn.execute(REPLACE, [*_row(asset), asset.tenant, asset.guid, asset.lane])


def touch(pour: Pour, seen: Sequence[Asset]) -> None:
    """Note that assets were observed again, with nothing new to show."""
    if seen:
        pour.put(TOUCH, seen, _touched)


def save_layers(conn: psycopg.Connection, known: Iterable[Known]) -> None:
    """Write what lives outside the assets' own rows."""
    sources = []
    for each in known:
        own = each.asset.source if each.asset else None
        sources += [
            (each.tenant, each.guid, name, Jsonb(registers.dump(each.claims[name])))
            for name in sorted(each.touched_sources)
            if name != own
        ]
        if each.suggested and each.asset:
            save_assignments(conn, each, each.suggested, each.asset.applied_at)
    if sources:
        with conn.cursor() as cur:
            cur.executemany(SAVE_SOURCE, sources)


def save_assignments(
    conn: psycopg.Connection, known: Known, made: Sequence[Assignment], now: datetime
) -> None:
    """Assignments that are new or changed; who said what when."""
    rows = []
    for each in made:
        each.at = each.at or now
        rows.append((known.tenant, known.guid, *astuple(each)))
    with conn.cursor() as cur:
        cur.executemany(SAVE_ASSIGNMENT, rows)


def save_aliases(conn: psycopg.Connection, aliases: Sequence[tuple[int, str, UUID]]) -> None:
    if aliases:
        with conn.cursor() as cur:
            cur.executemany(SAVE_ALIAS, aliases)


def aliases(
    conn: psycopg.Connection, tenants: Sequence[int], names: Sequence[str]
) -> dict[tuple[int, str], UUID]:
    if not names:
        return {}
    rows = conn.execute(ALIASES, [list(tenants), list(names)])
    return {(tenant, alias): guid for tenant, alias, guid in rows}


def names(
    conn: psycopg.Connection, tenants: Sequence[int], guids: Sequence[UUID]
) -> dict[UUID, str]:
    if not guids:
        return {}
    return dict(conn.execute(NAMES, [list(tenants), list(guids)]).fetchall())


def lexemes(asset: Asset) -> words.Lexemes:
    facets = words.facets(
        asset.asset_type, asset.data_source, asset.asset_owner, asset.tags,
        asset.business_terms, asset.metadata,
    )  # fmt: skip
    if asset.layers & INCIDENTS:
        facets += words.ill(bool(asset.layers & FAILING))
    return words.lexemes(asset.asset_name, asset.qualified_name, asset.description, facets)


_encode = msgspec.json.encode
# A text, where nothing else is said.
_PACKS: Mapping[str, packing.Pack] = {
    **dict.fromkeys(("lane", "asset_type", "data_source", "source"), packing.word),
    **dict.fromkeys(("tenant", "version"), packing.integer),
    **dict.fromkeys(("feed_position", "log_offset"), packing.big),
    **dict.fromkeys(("guid", "parent"), packing.uuid),
    **dict.fromkeys(("tags", "business_terms", "own_tags", "own_terms"), packing.texts),
    **dict.fromkeys(("metadata", "details", "statement", "edited"), packing.json),
    **dict.fromkeys(
        ("deleted_at", "archived_at", "expires_at", "created_at", "updated_at", "observed_at",
         "applied_at"), packing.moment,
    ),
    "layers": packing.small,
    "search": lambda found: packing.raw(vectors.packed(found)),
}  # fmt: skip


def packs(columns: Iterable[str]) -> Callable[[Sequence[Any]], bytes]:
    """How these columns of an asset are packed; `search` from its lexemes."""
    return packing.rows(*(_PACKS.get(name, packing.text) for name in columns))


_packed = packs((*COLUMNS, "search"))


def packed(asset: Asset) -> bytes:
    """As a row of binary COPY."""
    return _packed((*astuple(asset), lexemes(asset)))


def _touched(asset: Asset) -> tuple[Any, ...]:
    return (asset.tenant, asset.lane, asset.guid, *(getattr(asset, name) for name in _TOUCHED))


def _row(asset: Asset) -> list[Any]:
    """As parameters of a statement."""
    row: list[Any] = list(astuple(asset))
    for index in _JSON:
        if row[index] is not None:
            row[index] = _encode(row[index]).decode()
    row.append(vectors.written(lexemes(asset)))
    return row
