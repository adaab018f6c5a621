"""The crawler for PostgreSQL: what its catalog says of databases, schemas, relations, columns."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from lily.connectors import postgres_catalog as catalog
from lily.connectors import postgres_made
from lily.connectors.names import column, shown
from lily.connectors.postgres_capture import Capture
from lily.connectors.postgres_catalog import Column, Relation, Schema
from lily.connectors.postgres_edges import edges_of
from lily.connectors.postgres_names import Names, Place
from lily.sdk import AssetSeen, Change, Cursor, Reading, Reject, Retry, SqlPlace

KINDS = {
    "r": "table",
    "p": "table",
    "v": "view",
    "m": "materialized_view",
    "f": "foreign_table",
}
Globs = Annotated[list[str], Field(max_length=1000)]


class Postgres:
    """Reads the catalog of a PostgreSQL: schemas, tables, views, columns, keys, definitions."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        url: SecretStr = Field(description="postgresql://user:password@host:5432/database")
        server: str | None = Field(
            None,
            pattern=r"^[^\s/#:]+(:\d{1,5})?$",
            description="host:port in qualified names, where other tools call it differently.",
        )
        databases: Globs | None = Field(
            None, description="Which databases, with * and ?; without it the one of the URL."
        )
        include: Globs = Field(["*"], description="Relations as schema.name, with * and ?.")
        exclude: Globs = Field(default_factory=list, description="Relations to leave out.")
        capture: bool = Field(
            False, description="Install event triggers that report every change of a table at once."
        )
        mode: Literal["observe", "enforce", "release"] = Field(
            "observe",
            description="As an enforcer: only plan and look, really change rights, or give"
            " everybody back what they had.",
        )
        masking: Literal["deny", "views"] = Field(
            "deny",
            description="What a mask becomes: the column is denied; or that, and a view in the"
            " schema `masked` shows the table masked.",
        )
        hold_until_verified: bool = Field(
            False,
            description="A new table is readable by its owner alone until Lily has verified it"
            " once; with capture from the moment it is made.",
        )
        default_deny: Globs = Field(
            default_factory=list, description="The same in these schemas alone, with * and ?."
        )
        rate_limit: float | None = Field(None, gt=0, description="Observations a second at most.")

        @field_validator("url")
        @classmethod
        def _readable(cls, url: SecretStr) -> SecretStr:
            try:
                conninfo_to_dict(url.get_secret_value())
            except psycopg.ProgrammingError:
                raise ValueError("is not a PostgreSQL URL") from None
            return url

        def held_schemas(self) -> list[str]:
            """Globs of the schemas whose tables are kept back until they were verified once."""
            if self.mode != "enforce":
                return []  # nobody would ever let them go
            return ["*"] if self.hold_until_verified else self.default_deny

    def __init__(self, options: Options) -> None:
        self._options = options
        self._url = options.url.get_secret_value()
        self._info: dict[str, Any] = conninfo_to_dict(self._url)
        self.names = Names(*server_of(options.server, self._info))
        self._place: Place | None = None

    def hosts(self) -> list[str]:
        return hosts_of(self._info)

    def within(self, scope: str) -> Self:
        """The same for one database, schema or relation."""
        narrowed = copy(self)
        narrowed._place = self.names.place(scope)
        return narrowed

    def read(self, cursor: Cursor | None) -> Iterator[Reading]:
        start = cursor.value if cursor else None
        for database in self.databases():
            if start is not None and database < start["database"]:
                continue
            resumed = start is not None and database == start["database"]
            after = (start["schema"], start["relation"]) if resumed and start else None
            yield from self._database(database, after)

    def databases(self) -> list[str]:
        """Those that the options mean and that exist, in order."""
        wanted = self._options.databases
        if wanted is None:
            name = self._info.get("dbname") or self._info.get("user") or "postgres"
            found = [str(name)]
        else:
            with self._connected(self._info.get("dbname") or "postgres") as conn:
                rows = conn.execute(catalog.DATABASES).fetchall()
            found = [name for (name,) in rows if _matches(name, wanted)]
        if self._place is not None:
            found = [name for name in found if name == self._place.database]
        return sorted(found)

    def sql_place(self) -> SqlPlace:
        """Names in SQL that is run where the URL leads."""
        database = str(self._info.get("dbname") or self._info.get("user") or "postgres")
        return SqlPlace(
            namespace=self.names.namespace, dialect="postgres", catalog=database, schema="public"
        )

    # Capture, when the options ask for it.

    def wants_capture(self) -> bool:
        return self._options.capture

    def install(self) -> None:
        self._capture().install()

    def uninstall(self) -> None:
        self._capture().uninstall()

    def changes(self, cursor: Cursor | None) -> Iterator[Change]:
        return self._capture().changes(cursor)

    def _capture(self) -> Capture:
        return Capture(self._url, self.names, self.databases, self._options.held_schemas())

    def _database(self, database: str, after: tuple[str, str] | None) -> Iterator[Reading]:
        place = self._place or Place(database)
        with self._connected(database) as conn:
            if catalog.is_lilys_own(conn):
                if self._options.databases is None:
                    raise Reject(f"The database {database!r} is Lily's own; name another one.")
                return
            yield self._seen_database(conn, database)
            for schema in catalog.schemas(conn, place):
                if self._wants_schema(schema.name):
                    yield self._seen_schema(database, schema)
            for batch in catalog.relations(conn, place, after):
                made = postgres_made.noted(conn, batch)
                for relation in batch:
                    if not self._wants(f"{relation.schema}.{relation.name}"):
                        continue
                    yield from self._seen_relation(database, relation)
                    yield from edges_of(self.names, database, relation, self._wants)
                    if relation.oid in made:
                        yield from postgres_made.edges_of(
                            conn, self.names, database, relation, made[relation.oid], self._wants
                        )
                last = {"database": database, "schema": relation.schema, "relation": relation.name}
                yield Cursor(last)

    @contextmanager
    def _connected(self, database: Any) -> Iterator[psycopg.Connection]:
        """A snapshot of one database, which nothing can be written through."""
        try:
            with psycopg.connect(
                self._url, dbname=database, connect_timeout=10, application_name="lily"
            ) as conn:
                conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                conn.read_only = True
                yield conn
        except (psycopg.errors.InvalidPassword, psycopg.errors.InsufficientPrivilege) as cause:
            raise Reject(f"PostgreSQL refuses: {cause}") from cause
        except psycopg.Error as cause:
            raise Retry(f"PostgreSQL cannot be read: {cause}") from cause

    def _wants(self, name: str) -> bool:
        return _matches(name, self._options.include) and not _matches(name, self._options.exclude)

    def _wants_schema(self, schema: str) -> bool:
        """Unless all that can be in it is left out."""
        starts = [pattern.partition(".")[0] for pattern in self._options.include]
        excluded = [p.removesuffix(".*") for p in self._options.exclude if p.endswith(".*")]
        return _matches(schema, starts) and not _matches(schema, excluded)

    def _seen_database(self, conn: psycopg.Connection, database: str) -> AssetSeen:
        row = conn.execute(catalog.DATABASE).fetchone()
        comment, owner, encoding = row if row else (None, None, None)
        return AssetSeen(
            qualified_name=self.names.database(database),
            asset_name=shown(database),
            asset_type="database",
            description=comment,
            data_source="postgres",
            metadata=_given(owner=owner, encoding=encoding),
        )

    def _seen_schema(self, database: str, schema: Schema) -> AssetSeen:
        return AssetSeen(
            qualified_name=self.names.schema(database, schema.name),
            asset_name=shown(schema.name),
            asset_type="schema",
            description=schema.comment,
            parent_id=self.names.database(database),
            data_source="postgres",
            metadata=_given(owner=schema.owner),
        )

    def _seen_relation(self, database: str, relation: Relation) -> Iterator[AssetSeen]:
        name = self.names.relation(database, relation.schema, relation.name)
        yield AssetSeen(
            qualified_name=name,
            asset_name=shown(relation.name),
            asset_type=KINDS[relation.kind],
            description=relation.comment,
            parent_id=self.names.schema(database, relation.schema),
            data_source="postgres",
            metadata=self._described(database, relation),
        )
        primary = {c for key in relation.keys if key.kind == "p" for c in key.columns}
        for each in relation.columns:
            yield _seen_column(name, each, each.name in primary)

    def _described(self, database: str, relation: Relation) -> dict[str, Any]:
        """Views and foreign keys by name too, for those who read an asset alone."""
        keys = relation.keys
        parent = relation.parent_name is not None and relation.parent_schema is not None
        return _given(
            owner=relation.owner,
            row_estimate=_rounded(relation.rows),
            primary_key=next((key.columns for key in keys if key.kind == "p"), None),
            unique_keys=[key.columns for key in keys if key.kind == "u"],
            foreign_keys=[
                {
                    "name": key.name,
                    "columns": key.columns,
                    "to": self.names.relation(database, key.to_schema, key.to_name),
                    "to_columns": key.to_columns,
                }
                for key in keys
                if key.kind == "f" and key.to_schema is not None and key.to_name is not None
            ],
            view_definition=relation.definition,
            depends_on=[self.names.relation(database, *each) for each in relation.reads],
            partitioned=relation.partition_key,
            partition_bound=relation.bound,
            partition_of=self.names.relation(
                database, relation.parent_schema or "", relation.parent_name or ""
            )
            if parent
            else None,
        )


def _seen_column(relation: str, each: Column, primary: bool) -> AssetSeen:
    return AssetSeen(
        qualified_name=column(relation, each.name),
        asset_name=shown(each.name),
        asset_type="column",
        description=each.comment,
        parent_id=relation,
        data_source="postgres",
        metadata=_given(
            data_type=each.type,
            nullable=each.nullable,
            ordinal=each.ordinal,
            default=each.default,
            generated=each.generated,
            identity=each.identity or None,
            primary_key=primary or None,
        ),
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != []}


def _rounded(rows: float) -> int | None:
    """Two digits are enough, or a growing table would be news with every crawl."""
    if rows < 0:
        return None  # never analysed
    if rows < 100:
        return int(rows)
    step = 10 ** (int(math.log10(rows)) - 1)
    return int(rows // step * step)


def _matches(name: str, globs: list[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def hosts_of(info: dict[str, Any]) -> list[str]:
    """Of a URL; a folder is a socket on this machine, and so is a URL that names none."""
    given = f"{info.get('host') or ''},{info.get('hostaddr') or ''}"
    return [host for host in given.split(",") if host] or ["/"]


def server_of(named: str | None, info: dict[str, Any]) -> tuple[str, int]:
    """Host and port as names have them: a socket on this machine is localhost."""
    if named:
        host, _, port = named.partition(":")
        return host.lower(), int(port or 5432)
    host = str(info.get("host") or "localhost").split(",")[0]
    port = str(info.get("port") or 5432).split(",")[0]
    return ("localhost" if host.startswith(("/", "@")) else host.lower()), int(port or 5432)
