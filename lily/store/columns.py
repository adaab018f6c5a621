"""The columns of tables, as the catalog knows them."""

from lily.assets.names import guid_of
from lily.lineage.names import plain
from lily.store.database import Unit

COLUMNS = """
SELECT c.qualified_name FROM asset c
 WHERE c.tenant = %(tenant)s AND c.lane = 'fields' AND c.parent = %(table)s
   AND c.deleted_by IS NULL AND c.archived_at IS NULL
 ORDER BY CASE WHEN jsonb_typeof(c.metadata -> 'ordinal') = 'number'
               THEN (c.metadata ->> 'ordinal')::numeric END NULLS LAST, c.created_at,
          c.qualified_name
 LIMIT 10000
"""


def of_table(unit: Unit, qualified_name: str) -> list[str] | None:
    """In the order of the table; None where no column of it is known."""
    table = guid_of(unit.tenant.id, qualified_name)
    rows = unit.conn.execute(COLUMNS, {"tenant": unit.tenant.number, "table": table})
    found = [plain(name.rpartition("#")[2]) for (name,) in rows]
    return found or None
