"""Names of what is in a PostgreSQL: `postgres://host:port/db.schema.table`, and back."""

import msgspec

from lily.connectors.names import joined, plain


class Place(msgspec.Struct, frozen=True):
    """A database, a schema in it, or a relation in that."""

    database: str
    schema: str | None = None
    relation: str | None = None


class Names:
    """Names on one server."""

    def __init__(self, host: str, port: int) -> None:
        self.namespace = f"postgres://{host}:{port}"

    def database(self, database: str) -> str:
        return joined(self.namespace, database)

    def schema(self, database: str, schema: str) -> str:
        return joined(self.namespace, database, schema)

    def relation(self, database: str, schema: str, relation: str) -> str:
        return joined(self.namespace, database, schema, relation)

    def of(self, place: Place) -> str:
        return joined(self.namespace, place.database, place.schema, place.relation)

    def place(self, qualified_name: str) -> Place | None:
        """What a name means here; a column means its table. None for names of elsewhere."""
        start = f"{self.namespace}/"
        if not qualified_name.startswith(start):
            return None
        parts = qualified_name[len(start) :].partition("#")[0].rstrip(".").split(".")
        if not parts[0] or len(parts) > 3:
            return None
        return Place(*(plain(part) for part in parts))
