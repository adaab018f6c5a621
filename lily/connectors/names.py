"""Names of what crawlers see; as lineage calls the same things."""

from lily.lineage.names import column, escaped, field, joined, plain

__all__ = ["column", "escaped", "field", "joined", "plain", "shown"]


def shown(identifier: str) -> str:
    """As an asset's name, which may not be blank; that of a table may."""
    return identifier if identifier.strip() else f'"{identifier}"'
