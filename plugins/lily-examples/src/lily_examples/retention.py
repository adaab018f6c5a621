"""An enrichment: how long data may be kept follows lineage."""

from pydantic import BaseModel, Field

from lily.sdk import AssetSeen


class Retention:
    """Days for which what is made of an asset may be kept: the fewest that its tags allow."""

    class Options(BaseModel):
        days: dict[str, int] = Field(description="Tag to days.")

    def __init__(self, options: Options) -> None:
        self._days = options.days

    def __call__(self, root: AssetSeen) -> int | None:
        return min((self._days[tag] for tag in root.tags or () if tag in self._days), default=None)
