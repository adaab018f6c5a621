"""Where the next page begins, as an opaque word."""

import base64
from typing import Any

import msgspec

from lily.errors import Invalid


def mark(*key: Any) -> str:
    """The sort key of a page's last item."""
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def unmark(after: str | None, kind: Any) -> Any:
    """The key again as that type, None for the first page; a mark that nobody made is refused."""
    if not after:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(after + "=="), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise Invalid("is not the `next` of a page; start again without it", "after") from None
