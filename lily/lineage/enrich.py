"""What plug-ins make of assets: the values of rules that carry something new."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from lily.errors import LilyError
from lily.events.limits import TEXT_LIMIT
from lily.events.observations import AssetSeen
from lily.lineage.travel import Carrier

Enrichment = Callable[[AssetSeen], Any]
Build = Callable[[str, Mapping[str, Any]], Enrichment]

_encode = msgspec.json.Encoder(order="deterministic").encode


class Enrichments:
    """Plug-ins of rules, each built once. One that fails gives no value, and that is remembered."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._built: dict[bytes, Enrichment] = {}
        self._problems: dict[UUID, str] = {}

    def value(self, carrier: Carrier, root: AssetSeen) -> str | None:
        """What the rule's plug-in makes of a root, as text; null where it makes nothing of it."""
        try:
            return _text(carrier.field, self._plugin(carrier)(root))
        except LilyError as cause:
            reason = str(cause)
        except Exception as cause:  # noqa: BLE001  a stranger's code must not stop what protects
            reason = type(cause).__name__  # its words may repeat what it was given
        if carrier.rule is not None:
            self._problems[carrier.rule] = f"{carrier.plugin}: {reason}"
        return None

    def problems(self) -> dict[UUID, str]:
        """By rule, what failed since this was asked last."""
        found, self._problems = self._problems, {}
        return found

    def _plugin(self, carrier: Carrier) -> Enrichment:
        key = _encode([carrier.plugin, carrier.options])
        if key not in self._built:
            self._built[key] = self._build(carrier.plugin, carrier.options)
        return self._built[key]


def _text(field: str, value: Any) -> str | None:
    """As it is stored: JSON for metadata."""
    if value is None or value == "":
        return None
    if field.startswith("metadata."):
        text = _encode(value).decode()
    elif isinstance(value, str):
        text = value
    else:
        raise TypeError(f"{field} is text")
    if len(text) > TEXT_LIMIT or "\0" in text or "\\u0000" in text:
        raise ValueError("too long, or not text")
    return text


def _none(name: str, options: Mapping[str, Any]) -> Enrichment:
    raise LilyError("this process knows no plug-ins")


NONE = Enrichments(_none)
