"""Engines that ask Lily before they answer: what their names mean."""

from typing import Protocol


class Engine(Protocol):
    """Says under which qualified name Lily knows a table of the engine."""

    def table(self, catalog: str, schema: str, name: str) -> str | None:
        """None for a table that this connection does not govern."""

    def column(self, table: str, name: str) -> str:
        """The qualified name of a column of a table of that name."""
