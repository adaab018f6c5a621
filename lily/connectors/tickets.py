"""What targets with tickets have in common: one ticket for a thing, found again, then updated."""

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from lily.sdk import Call, Notice, Refused, Sending


class Tickets:
    """A target whose handle is the name of a ticket. Says how to find, make and update one."""

    handle: ClassVar[str]  # what its handle calls that name
    _api: str
    _headers: Mapping[str, str]
    _bearer: bool = False  # its calls carry a token of its grant

    def send(self, notice: Notice) -> Sending:
        name = notice.handle[self.handle] if notice.handle else None
        if name is None and (notice.unsure or notice.event not in ("opened", "told")):
            name = yield from self.find(notice)
        if name is not None:
            try:
                yield from self.update(notice, name)
            except Refused as refusal:
                if refusal.answer.status != 404:
                    raise
                name = None  # somebody deleted it
        if name is None:
            if notice.echo or notice.event == "resolved":
                return None  # nothing to say where nothing was said
            name = yield from self.create(notice)
        return {self.handle: name}

    def find(self, notice: Notice) -> Sending:
        raise NotImplementedError

    def create(self, notice: Notice) -> Sending:
        raise NotImplementedError

    def update(self, notice: Notice, name: Any) -> Sending:
        raise NotImplementedError

    def call(self, method: str, path: str, body: Mapping[str, Any] | None, label: str = "") -> Call:
        raw = msgspec.json.encode(body) if body is not None else b""
        shown = label or f"{method} {path}"
        return Call(method, self._api + path, self._headers, raw, shown, self._bearer)


def label(notice: Notice) -> str:
    """What finds a ticket again; what comes back from the tool names the incident by it."""
    if notice.incident:
        return f"lily-{notice.incident}"
    return f"lily-n-{hashlib.sha256(notice.key.encode()).hexdigest()[:16]}"
