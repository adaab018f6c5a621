"""Masks written out in the language of an engine that shows them itself."""

from collections.abc import Mapping

import msgspec

from lily.access.expressions import Dialect, masked
from lily.sdk.enforcers import Grantee, Rule, Rules, Wanted

COLUMN = "{column}"  # where the engine writes the column


class Spelled:
    """The same, with an expression for every column that is not shown as it is."""

    def __init__(self, inner: Wanted, types: Mapping[str, str | None], dialect: Dialect) -> None:
        self._inner = inner
        self._types = types
        self._dialect = dialect
        self.fingerprint = inner.fingerprint

    def rules(self, grantee: Grantee) -> Rules:
        rules = self._inner.rules(grantee)
        columns = {name: self._spelled(name, rule) for name, rule in rules.columns.items()}
        return msgspec.structs.replace(rules, columns=columns)

    def _spelled(self, name: str, rule: Rule) -> Rule:
        expression = masked(rule, COLUMN, self._types.get(name), self._dialect)
        return msgspec.structs.replace(rule, expression=expression)
