"""Which assets the ends of edges are: by qualified name, id or alias."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from lily.assets.names import as_guid, canonical, guid_of
from lily.events.lanes import lane_of
from lily.lineage.edges import Ends, name_of
from lily.lineage.labels import turned
from lily.store import assets
from lily.store.assets import Key
from lily.store.copying import listed
from lily.types import LANES

_OF = "FROM asset WHERE tenant = ANY(%s) AND lane = %s AND guid = ANY(%s::uuid[])"
COUNT = f"SELECT count(*) {_OF}"
EXIST = f"SELECT tenant, guid {_OF}"

Named = tuple[int, str]  # tenant and what an asset is called


class End(msgspec.Struct, frozen=True):
    """An asset by its real name; `top` is its table, if it is a column."""

    guid: UUID
    name: str
    top: UUID
    text: str  # the guid again, as names of edges are made of it
    is_field: bool


class EndBook:
    """The assets that a batch of edges is about, each looked up once."""

    def __init__(
        self, conn: psycopg.Connection, tenant_id: Callable[[int], UUID], here: Collection[Key]
    ) -> None:
        self._conn = conn
        self._tenant_id = tenant_id
        self._here: set[Key] = set(here)  # assets that exist
        self._ends: dict[Named, End | None] = {}

    def look_up(self, named: Iterable[Named]) -> None:
        """Find all of these with as few queries as there can be."""
        wanted = {(tenant, name): self._own(tenant, canonical(name)) for tenant, name in named}
        self._find([(tenant, end) for (tenant, _), end in wanted.items()])
        missing = [key for key, end in wanted.items() if (key[0], end.guid) not in self._here]
        other = self._called_otherwise(missing) if missing else {}
        for key, end in wanted.items():
            if key in other:
                self._ends[key] = other[key]
            elif as_guid(key[1]) is not None and (key[0], end.guid) not in self._here:
                self._ends[key] = None  # an id is no name: there is nothing to hold a place for
            else:
                self._ends[key] = end

    def end(self, tenant: int, name: str) -> End | None:
        return self._ends[tenant, name]

    def exists(self, tenant: int, guid: UUID) -> bool:
        return (tenant, guid) in self._here

    def note(self, tenant: int, guid: UUID) -> None:
        """It is about to exist."""
        self._here.add((tenant, guid))

    def ends(self, tenant: int, start: End, end: End, label: str) -> Ends:
        """The edge between two assets, whose label says which of them is upstream."""
        up, down = turned(label, start, end)
        own = self._tenant_id(tenant)
        id = guid_of(own, name_of(up.text, down.text, label))
        if not (up.is_field or down.is_field):
            return Ends(id, up.guid, down.guid, label, "table", up.guid, down.guid, None)
        implies = guid_of(own, name_of(up.top, down.top, label))
        return Ends(id, up.guid, down.guid, label, "column", up.top, down.top, implies)

    def _own(self, tenant: int, name: str) -> End:
        own = self._tenant_id(tenant)
        guid = guid_of(own, name)
        top, mark, _ = name.partition("#")
        return End(guid, name, guid_of(own, top) if mark else guid, str(guid), bool(mark))

    def _find(self, ends: Iterable[tuple[int, End]]) -> None:
        """Which of them exist, and their tables."""
        unknown: dict[str, set[Key]] = {lane: set() for lane in LANES}
        for tenant, end in ends:
            unknown[lane_of(end.name)].add((tenant, end.guid))
            if end.is_field:
                unknown["core"].add((tenant, end.top))
        for lane, keys in unknown.items():
            if keys := keys - self._here:
                tenants = {tenant for tenant, _ in keys}
                given = [list(tenants), lane, listed(guid for _, guid in keys)]
                # Mostly all of them do, and a number is quicker to read than a list.
                row = self._conn.execute(COUNT, given, prepare=True).fetchone()
                if row and row[0] == len(keys):
                    self._here |= keys
                else:
                    self._here.update(self._conn.execute(EXIST, given, prepare=True).fetchall())

    def _called_otherwise(self, missing: Iterable[Named]) -> Mapping[Named, End]:
        """Ids and aliases."""
        missing = list(missing)
        tenants = sorted({tenant for tenant, _ in missing})
        guids: dict[Named, UUID] = {
            key: guid for key in missing if (guid := as_guid(key[1])) is not None
        }
        aliases = assets.aliases(self._conn, tenants, [name for _, name in missing])
        for key in missing:
            if key in aliases:
                guids.setdefault(key, aliases[key])
        names: dict[Any, str] = assets.names(self._conn, tenants, list(guids.values()))
        found = {}
        for key, guid in guids.items():
            # The name's own guid must be this one: an id of another tenant is no id here.
            if guid in names and self._own(key[0], names[guid]).guid == guid:
                found[key] = self._own(key[0], names[guid])
        self._find((key[0], end) for key, end in found.items())
        return found
