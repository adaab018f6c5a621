"""Runs a tenant's hooks on one observation, whatever they do."""

from collections.abc import Sequence

import msgspec

from lily.assets.rules import problems
from lily.errors import LilyError, Reject
from lily.events.lanes import lane_of
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.sdk import Hook

LONGEST_REASON = 500
MASK = "********"


class NamedHook(msgspec.Struct, frozen=True):
    """A hook and the connection that enables it."""

    name: str
    plugin: str
    call: Hook
    hidden: tuple[str, ...] = ()  # its secrets, which no reason may repeat


class HookFailure(msgspec.Struct, frozen=True):
    """Why an observation becomes a dead letter; `plugin` is the name of the hook's connection."""

    plugin: str
    reason: str


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Observation).decode


def run_hooks(hooks: Sequence[NamedHook], seen: Observation) -> Observation | HookFailure | None:
    """What is left after all hooks; None when one dropped it. Whatever a hook does, it returns."""
    answer = seen
    for hook in hooks:
        try:
            returned = hook.call(answer)
            if returned is None:
                return None
            answer = answer if returned is answer else _checked(answer, returned)
        except Exception as cause:  # noqa: BLE001  a hook's bug must not stop the lane
            return HookFailure(hook.name, reason_of(cause, hook.hidden))
    return answer if answer is not seen or not hooks else _untouched(hooks, seen)


def reason_of(cause: Exception, hidden: Sequence[str] = ()) -> str:
    """One line; Lily's own errors speak for themselves, others say what kind of accident it was."""
    text = " ".join(_text(cause).split())
    if not isinstance(cause, LilyError):
        text = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    for secret in hidden:
        text = text.replace(secret, MASK)
    return text[:LONGEST_REASON] or "refused without a reason"


def _checked(given: Observation, answer: object) -> Observation:
    """The answer as it would come back from the wire, so that nothing odd reaches the store."""
    if not isinstance(answer, AssetSeen | AssetGone):
        raise Reject(f"it returned a {type(answer).__name__}, not an observation")
    checked: Observation = _decode(_encode(answer))
    if lane_of(checked.qualified_name) != lane_of(given.qualified_name):
        raise Reject(
            f"it made {given.qualified_name!r} into {checked.qualified_name!r}, but an asset with #"
            " in its name is a field, and that cannot change"
        )
    if wrong := problems(checked):
        raise Reject("its answer: " + "; ".join(f"{e.field} {e.message}" for e in wrong))
    return checked


def _untouched(hooks: Sequence[NamedHook], seen: Observation) -> Observation | HookFailure:
    """Nobody returned a copy; but somebody may have written to what they were given."""
    try:
        checked: Observation = _decode(_encode(seen))
    except Exception as cause:  # noqa: BLE001  the values are a stranger's
        return HookFailure(", ".join(hook.name for hook in hooks), reason_of(cause))
    return checked


def _text(cause: Exception) -> str:
    """The message in characters that can be stored."""
    try:
        text = str(cause)
    except Exception:  # noqa: BLE001  an error that cannot even say so
        return ""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
