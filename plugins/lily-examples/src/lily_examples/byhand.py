"""An enforcer: says what a person has to do in an engine that nothing can reach."""

from collections.abc import Callable, Iterator

from pydantic import BaseModel

from lily.sdk.enforcers import Finding, Grantee, Ledger, Report, Rules, Wanted


class ByHand:
    """Plans for an engine that is changed by hand; nothing is claimed to hold."""

    class Options(BaseModel):
        prefix: str  # of the qualified names of its tables
        roles: list[str]

    def __init__(self, options: Options) -> None:
        self._prefix = options.prefix
        self._roles = options.roles

    def owns(self, qualified_name: str) -> bool:
        return qualified_name.startswith(self._prefix)

    def enforce(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        return self.observe(table, wanted, ledger)

    def observe(self, table: str, wanted: Callable[[], Wanted], ledger: Ledger) -> Report:
        asked = wanted()
        name = table.removeprefix(self._prefix)
        steps = tuple(
            step
            for role in self._roles
            for step in self._steps(name, role, asked.rules(Grantee(role)))
        )
        findings = (Finding("planned", "somebody has to do this by hand"),) if steps else ()
        return Report(asked.fingerprint, steps, findings=findings)

    def _steps(self, table: str, role: str, rules: Rules) -> Iterator[str]:
        for column, rule in sorted(rules.columns.items()):
            how = f"mask ({rule.mask})" if rule.effect == "mask" else "deny"
            yield f"{how} {table}.{column} for {role}"
        for condition in rules.filters:
            yield f"show {role} only those rows of {table} where {condition}"
