"""What holds for a table that was never verified: nothing of it is shown, but to who is exempt."""

from collections.abc import Callable, Iterable

from lily.access.compile import Compiled
from lily.sdk.enforcers import Grantee, Rule, Rules


class Held:
    """The whole table is kept back, until it is known what should hold for it."""

    def __init__(
        self, inner: Compiled, columns: Iterable[str], is_exempt: Callable[[Grantee], bool]
    ) -> None:
        self._inner = inner
        self._columns = tuple(columns)
        self._is_exempt = is_exempt
        self.fingerprint = f"held:{inner.fingerprint}"

    def rules(self, grantee: Grantee) -> Rules:
        rules = self._inner.rules(grantee)
        if self._is_exempt(grantee):
            return rules
        return Rules(dict.fromkeys(self._columns, Rule("deny")), rules.filters, whole=True)
