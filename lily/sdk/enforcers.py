"""What an enforcer is told, and what it must answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

State = Literal["applied", "verified", "failed", "drifted", "unenforceable", "planned"]


class Rule(msgspec.Struct, frozen=True):
    """What holds for one column and one grantee; `mask` is one of lily's kinds of masks."""

    effect: Literal["allow", "deny", "mask"]
    mask: str = ""
    value: str = ""
    expression: str = ""  # of a custom mask, in this engine's language


class Rules(msgspec.Struct, frozen=True):
    """What holds for one grantee on one table."""

    columns: Mapping[str, Rule]  # only those that are not simply allowed
    filters: tuple[str, ...] = ()
    whole: bool = False  # columns of which nobody has heard yet are denied too


class Grantee(msgspec.Struct, frozen=True):
    """Somebody as the engine knows them; `groups` are what they belong to there."""

    name: str
    groups: frozenset[str] = frozenset()


class Wanted(Protocol):
    """The state to reach, as of the moment it was asked for."""

    fingerprint: str  # changes with whatever it says

    def rules(self, grantee: Grantee) -> Rules:
        """What this grantee may do with the table."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that an enforcer changes, and how it was before: enough to undo it."""

    kind: str
    part: str = ""  # a partition or copy that goes with the table
    grantee: str = ""
    column: str = ""
    detail: Mapping[str, str] = {}


class Ledger(Protocol):
    """What was there before, kept outside the engine. Every call is durable when it returns."""

    def entries(self) -> Sequence[Entry]: ...
    def add(self, entries: Iterable[Entry]) -> None: ...
    def drop(self, entries: Iterable[Entry]) -> None: ...


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that the engine cannot keep from somebody, or that an enforcer did instead."""

    state: State
    reason: str
    column: str = ""
    grantee: str = ""


class Report(msgspec.Struct, frozen=True):
    """What was done to one table, or would be, and what a look at the engine says of it."""

    fingerprint: str
    plan: tuple[str, ...] = ()  # statements, in their order; no values of data
    drifted: bool = False  # somebody had changed what was applied before
    findings: tuple[Finding, ...] = ()  # empty: everything that is wanted holds
    exempt: Mapping[str, tuple[str, ...]] = {}  # per protected column, who reads it in the clear


class Enforcer(Protocol):
    """Brings an engine to a state, and tells what it is. Plain blocking code."""

    def owns(self, qualified_name: str) -> bool:
        """Whether a table of this name lives in this engine."""

    def enforce(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        """Make the table what is wanted, verify it, and say so. Again changes nothing.

        `wanted` is called under a lock that keeps others from changing the same table, so that
        what is applied is what is wanted then. What is about to be changed goes into the ledger
        before the engine is touched. Raise Retry when it is busy, Reject when it can never work.
        """

    def observe(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        """The same without touching anything: the plan, and whether it holds already."""
