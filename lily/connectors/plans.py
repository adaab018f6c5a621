"""Engines that Lily plans for and does not touch: statements or calls for whoever runs them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from lily.connectors.names import plain
from lily.sdk import Reject
from lily.sdk.enforcers import Entry, Finding, Grantee, Ledger, Report, Rule, Wanted

NOBODY = Grantee("public")
BOUND = "bound"  # a column that was planned to be protected

Bound = tuple[str, str]  # a column, and the label that it bears


class Kept(msgspec.Struct, frozen=True):
    """How a column is protected, and from which groups of the engine it is not."""

    kind: str  # deny, or a kind of mask
    value: str = ""
    expression: str = ""
    exempt: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A name for everything that is protected alike."""
        said = "\n".join((self.kind, self.value, self.expression, *self.exempt))
        return f"lily_{self.kind}_{hashlib.sha256(said.encode()).hexdigest()[:8]}"


class Task(msgspec.Struct, frozen=True):
    """One table: `gone` is what was planned for it before and is not wanted any more."""

    place: tuple[str, ...]
    kept: Mapping[str, Kept]
    gone: Sequence[Bound]
    filters: Sequence[str]


class Planner:
    """Turns what is wanted into a plan, and what was planned before into its undoing."""

    plans_only = True
    parts = 3  # of a table's name behind the namespace

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        namespace: str = Field(
            min_length=1,
            description="What qualified names begin with, before the slash: `snowflake://acme`.",
        )
        groups: dict[str, str] = Field(
            default_factory=dict,
            description="Per group that may be exempt, its role or group in the engine.",
        )
        mode: Literal["observe", "enforce", "release"] = Field(
            "observe", description="Nothing is ever changed; release plans to undo everything."
        )

    def __init__(self, options: Options) -> None:
        self._namespace = options.namespace.rstrip("/") + "/"
        self._groups = dict(sorted(options.groups.items()))

    def owns(self, qualified_name: str) -> bool:
        return self._place(qualified_name) is not None

    def observe(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        place, state = self._place(table), wanted()
        if place is None:
            raise Reject(f"{table} is not a table of this engine")
        kept, filters = self._kept(state), state.rules(NOBODY).filters
        now = [(column, one.label) for column, one in kept.items()]
        gone = [(e.column, e.part) for e in ledger.entries() if e.kind == BOUND]
        gone = [each for each in gone if each not in now]
        ledger.add(Entry(BOUND, part=label, column=column) for column, label in now)
        plan, findings = self.plan(Task(place, kept, gone, filters))
        exempt = {column: one.exempt for column, one in kept.items()}
        return Report(state.fingerprint, tuple(plan), findings=tuple(findings), exempt=exempt)

    enforce = observe

    def plan(self, task: Task) -> tuple[list[str], list[Finding]]:
        """In the engine's words, and what it cannot say."""
        raise NotImplementedError

    def _place(self, qualified_name: str) -> tuple[str, ...] | None:
        if not qualified_name.startswith(self._namespace) or "#" in qualified_name:
            return None
        found = qualified_name[len(self._namespace) :].split(".")
        return tuple(map(plain, found)) if len(found) == self.parts and all(found) else None

    def _kept(self, state: Wanted) -> dict[str, Kept]:
        """Of everybody, with the groups for whom a column is not restricted."""
        open_to = {
            role: state.rules(Grantee("", frozenset({group}))).columns
            for group, role in self._groups.items()
        }
        return {
            column: _kept(rule, [role for role, held in open_to.items() if column not in held])
            for column, rule in sorted(state.rules(NOBODY).columns.items())
        }


def _kept(rule: Rule, exempt: Sequence[str]) -> Kept:
    kind = "deny" if rule.effect == "deny" else rule.mask
    return Kept(kind, rule.value, rule.expression, tuple(sorted(exempt)))


def text(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def unfiltered(filters: Sequence[str], how: str) -> list[Finding]:
    """Rows that the plan does not filter, told rather than hidden."""
    return [
        Finding("unenforceable", f"rows are not filtered by {each!r}: {how}") for each in filters
    ]


def null_for_denied(task: Task) -> list[Finding]:
    """Where an engine has no way to deny a column."""
    return [
        Finding("planned", "a denied column is shown as NULL", column)
        for column, one in task.kept.items()
        if one.kind == "deny"
    ]
