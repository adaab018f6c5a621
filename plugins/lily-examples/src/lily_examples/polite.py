"""A hook: descriptions are tidied before they are merged."""

import msgspec
from pydantic import BaseModel

from lily.sdk import AssetSeen, Observation


class Polite:
    """One space between words, and a capital letter first."""

    class Options(BaseModel):
        pass

    def __init__(self, options: Options) -> None:
        pass

    def __call__(self, seen: Observation) -> Observation | None:
        if not isinstance(seen, AssetSeen) or not seen.description:
            return seen
        text = " ".join(seen.description.split())
        tidy = text[:1].upper() + text[1:]
        return seen if tidy == seen.description else msgspec.structs.replace(seen, description=tidy)
