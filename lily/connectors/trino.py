"""Trino: which of its catalogs are which of the sources that Lily knows."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from lily.connectors.names import column, escaped


class Trino:
    """A Trino that asks Lily for every statement; catalogs that are not named are not governed."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        catalogs: dict[str, str] = Field(
            min_length=1,
            description="Per catalog the qualified name of what is behind it, without schema and"
            " table, as `postgres://warehouse:5432/shop`.",
        )

    def __init__(self, options: Options) -> None:
        self._catalogs = {name: place.rstrip("./") for name, place in options.catalogs.items()}

    def catalogs(self) -> Mapping[str, str]:
        return self._catalogs

    def table(self, catalog: str, schema: str, name: str) -> str | None:
        place = self._catalogs.get(catalog)
        return f"{place}.{escaped(schema)}.{escaped(name)}" if place is not None else None

    def column(self, table: str, name: str) -> str:
        return column(table, name)
