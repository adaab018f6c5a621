"""An engine that asks Lily: what its names mean."""

from collections.abc import Mapping

from pydantic import BaseModel


class Warehouse:
    """One catalog, in front of what a crawler knows under a prefix."""

    class Options(BaseModel):
        catalog: str
        behind: str  # for example postgres://db:5432/shop

    def __init__(self, options: Options) -> None:
        self._catalog = options.catalog
        self._behind = options.behind

    def catalogs(self) -> Mapping[str, str]:
        return {self._catalog: self._behind}

    def table(self, catalog: str, schema: str, name: str) -> str | None:
        return f"{self._behind}.{schema}.{name}" if catalog == self._catalog else None

    def column(self, table: str, name: str) -> str:
        return f"{table}#{name}"
