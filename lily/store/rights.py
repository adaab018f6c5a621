"""Whether the caller of this request may change an asset; told where the caller was let in."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar

from lily.access.model import Action, Decision
from lily.errors import Forbidden

# Which of these assets somebody may change, by whatever ids they are called. What the caller
# cannot see is None: looking for it will say so. Outside of requests nobody asks.
Ask = Callable[[Action, Sequence[str]], list[Decision | None]]
RIGHTS: ContextVar[Ask | None] = ContextVar("rights", default=None)


def require(action: Action, *assets: str) -> None:
    """Raise Forbidden, with the reason, if the caller sees an asset and may not change it."""
    for asset, decision in zip(assets, _asked(action, assets), strict=True):
        if decision is not None and decision.effect == "deny":
            raise Forbidden(f"You may not {_verb(action)} {asset}: {decision.reason}.")


def permitted(action: Action, assets: Sequence[str]) -> set[str]:
    """Those of the assets that the caller may change."""
    answers = zip(assets, _asked(action, assets), strict=True)
    return {asset for asset, said in answers if said is None or said.effect != "deny"}


def _asked(action: Action, assets: Sequence[str]) -> list[Decision | None]:
    ask = RIGHTS.get()
    return [None] * len(assets) if ask is None else ask(action, assets)


def _verb(action: Action) -> str:
    return "delete" if action == "DELETE" else "change"
