"""The way that a propagated value took: found by walking up, one stored step after the other."""

from uuid import UUID

from lily.assets.model import Propagated
from lily.store.database import Unit

LONGEST = 200

# An implied edge has no row of its own: a column edge behind it knows both tables.
ENDS = """
SELECT upstream, downstream FROM edge WHERE tenant = %(tenant)s AND id = %(edge)s
UNION ALL
SELECT up_top, down_top FROM edge
 WHERE tenant = %(tenant)s AND level = 'column' AND implies = %(edge)s
   AND (down_top = %(guid)s OR up_top = %(guid)s)
LIMIT 1
"""
BEFORE = """
SELECT via FROM propagated
 WHERE tenant = %(tenant)s AND guid = %(guid)s AND field = %(field)s AND name = %(name)s
   AND value = %(value)s AND rule IS NOT DISTINCT FROM %(rule)s AND root = %(root)s
"""


def path_of(unit: Unit, guid: UUID, last: Propagated) -> list[UUID]:
    """The assets from the root to this one; as far as it is known, should the graph be moving."""
    values = {
        "tenant": unit.tenant.number, "field": last.field, "name": last.name, "value": last.value,
        "rule": last.rule, "root": last.root,
    }  # fmt: skip
    path, via = [guid], last.via
    while via is not None and path[0] != last.root and len(path) <= LONGEST:
        place = {**values, "edge": via, "guid": path[0]}
        ends = unit.conn.execute(ENDS, place).fetchone()
        if ends is None:
            break
        other = ends[0] if ends[1] == path[0] else ends[1]
        if other in path:
            break
        path.insert(0, other)
        row = unit.conn.execute(BEFORE, {**values, "guid": other}).fetchone()
        via = row[0] if row else None
    return path
