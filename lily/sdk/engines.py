"""Engines that ask Lily before they answer: what their names mean."""

from collections.abc import Mapping
from typing import Protocol


class Engine(Protocol):
    """Says under which qualified name Lily knows a table of the engine."""

    def catalogs(self) -> Mapping[str, str]:
        """Per governed catalog the qualified name of what is behind it."""

    def table(self, catalog: str, schema: str, name: str) -> str | None:
        """None for a table that this connection does not govern."""

    def column(self, table: str, name: str) -> str:
        """The qualified name of a column of a table of that name."""
