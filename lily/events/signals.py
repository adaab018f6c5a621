"""What other tools say of incidents, and of people who left."""

from typing import Any, Literal

import msgspec

Severity = Literal["critical", "high", "medium", "low"]
SignalState = Literal["open", "acknowledged", "resolved", "suppressed"]


class SignalSeen(
    msgspec.Struct, tag_field="type", tag="SignalSeen", omit_defaults=True, kw_only=True
):
    """A tool opens an incident, or moves one that is there. What is not given says nothing.

    `key` names this message: twice is once. The incident is named by the tool's own `external_id`,
    or by `incident`, which is Lily's id or at least its first eight hexadecimal digits. `names` are
    what the tool calls the asset, best first; `qualified_name` of other observations would be one.
    """

    key: str
    external_id: str = ""
    incident: str = ""
    state: SignalState | None = None
    reopens: bool = False  # whether `open` may bring back what is over
    severity: Severity | None = None
    title: str = ""
    description: str = ""
    rule: str = ""
    url: str = ""
    owner: str = ""
    comment: str = ""
    person: str = ""  # who did it there, if the tool tells
    names: list[str] = []
    others: list[list[str]] = []  # names of further assets that it is about, each as `names`
    details: dict[str, Any] = {}

    @property
    def qualified_name(self) -> str:
        """Under what it travels through the log: signals of one incident stay in order."""
        return f"signal/{self.external_id or self.incident or self.key}"[:1000].replace("#", "%23")

    @property
    def asset_id(self) -> None:
        """A signal has no own id of an asset."""
        return
