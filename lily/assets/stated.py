"""An observation as a person writes it by hand: read strictly, every mistake named."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from lily.assets.rules import problems
from lily.errors import FieldError, Invalid
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.events.observations import AssetGone, AssetSeen
from lily.lineage.rules import problems as edge_problems

Written = AssetSeen | AssetGone | EdgeSeen | EdgeGone
KINDS: Mapping[str, type[Written]] = {
    kind.__name__: kind for kind in (AssetSeen, AssetGone, EdgeSeen, EdgeGone)
}
_PLACE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


def read(given: Mapping[str, Any], field: str = "observation") -> Written:
    """What was written, or Invalid with the field; without a `type` it is an AssetSeen."""
    kind = KINDS.get(str(given.get("type", "AssetSeen")))
    if kind is None:
        raise Invalid(f"must be {' or '.join(KINDS)}", f"{field}.type")
    if unknown := [key for key in given if key not in kind.__struct_fields__ and key != "type"]:
        raise Invalid([FieldError(f"{field}.{k}", "unknown; put it in metadata") for k in unknown])
    try:
        # Through bytes, as it would travel: what cannot be written is refused here.
        seen = msgspec.json.decode(msgspec.json.encode({**given, "type": kind.__name__}), type=kind)
    except msgspec.ValidationError as cause:
        message, place = _split(str(cause))
        raise Invalid(message, f"{field}.{place}" if place else field) from None
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Invalid("has text or a number that cannot be stored", field) from None
    wrong = edge_problems(seen) if isinstance(seen, EdgeSeen | EdgeGone) else problems(seen)
    if wrong:
        raise Invalid([FieldError(f"{field}.{e.field}", e.message) for e in wrong])
    return seen


def _split(text: str) -> tuple[str, str]:
    match = _PLACE.match(text)
    return (match[1], match[2]) if match else (text, "")
