"""Pre-ingest hooks: a tenant's connections, built once and again when they change."""

from collections.abc import Sequence
from typing import Any

from lily import plugins
from lily.assets.hooks import HookFailure, NamedHook, reason_of, run_hooks
from lily.errors import Reject
from lily.events.observations import Observation
from lily.store import connections
from lily.store.connections import Connection, HookKey, Unseal

__all__ = ["HookCache", "HookFailure", "NamedHook", "load_hooks", "run_hooks"]

HookCache = dict[HookKey, NamedHook]


def load_hooks(
    conn: Any, tenants: Sequence[int], unseal: Unseal, cache: HookCache
) -> dict[int, list[NamedHook]]:
    """Each tenant's hooks in order; tenants without one are left out. Builds only what changed.

    Ask after the batch was read: then a hook acknowledged before an observation was appended is
    seen. `conn` is bound to the tenants.
    """
    keys = connections.hook_keys(conn, tenants)
    _forget(cache, set(tenants), set(keys))
    missing = [key for key in keys if key not in cache]
    stored = connections.by_keys(conn, missing) if missing else {}
    hooks: dict[int, list[NamedHook]] = {}
    for key in keys:
        hook = cache.get(key)
        if hook is None and key in stored:
            hook = _built(key, stored[key], unseal, cache)
        if hook is not None:
            hooks.setdefault(key.tenant, []).append(hook)
    return hooks


def _built(key: HookKey, stored: Connection, unseal: Unseal, cache: HookCache) -> NamedHook:
    """What cannot be built is tried again with every batch, so that it heals by itself."""
    hidden: tuple[str, ...] = ()
    try:
        secrets = connections.opened(unseal, key.tenant, stored)
        hidden = plugins.hidden(secrets)
        call = plugins.build("hook", stored.plugin, plugins.join(stored.options, secrets))
    except Exception as cause:  # noqa: BLE001  a hook's bug must not stop the lane
        return NamedHook(stored.name, stored.plugin, _Broken(reason_of(cause, hidden)))
    cache[key] = NamedHook(stored.name, stored.plugin, call, hidden)
    return cache[key]


class _Broken:
    """Stands in for a hook that cannot be built: what it should have seen waits as dead letters."""

    def __init__(self, reason: str) -> None:
        self._reason = f"the hook cannot be built: {reason}"

    def __call__(self, seen: Observation) -> Observation | None:
        raise Reject(self._reason)


def _forget(cache: HookCache, tenants: set[int], current: set[HookKey]) -> None:
    for key in [key for key in cache if key.tenant in tenants and key not in current]:
        del cache[key]
