"""Targets and filters of tenants, built once and again when their connections change."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from lily import plugins
from lily.assets.hooks import reason_of
from lily.errors import Reject
from lily.sdk.targets import Filter, Grant, Granted, Notice, Rate, Target
from lily.store import connections, outbox
from lily.store.connections import Connection, Unseal

Key = tuple[int, UUID]

CONCURRENCY = 8


class Outlet(msgspec.Struct, frozen=True):
    """A target and the connection that enables it; or why it cannot be built."""

    name: str
    plugin: str
    revision: int
    target: Target | None
    hidden: tuple[str, ...] = ()
    problem: str = ""

    @property
    def concurrency(self) -> int:
        return getattr(self.target, "concurrency", CONCURRENCY)

    @property
    def grant(self) -> Grant | None:
        return self.target.grant() if isinstance(self.target, Granted) else None

    @property
    def rate(self) -> Rate | None:
        return getattr(self.target, "rate", None)


class Sieve(msgspec.Struct, frozen=True):
    """A filter, and the channels that it is for; none named means all."""

    name: str
    call: Filter
    channels: frozenset[str]
    hidden: tuple[str, ...]


class Outlets:
    """What a process has built. Called from one thread at a time."""

    def __init__(self, unseal: Unseal) -> None:
        self._unseal = unseal
        self._outlets: dict[Key, Outlet] = {}
        self._sieves: dict[Key, tuple[int, Sieve | str]] = {}
        self._order: dict[int, list[Key]] = {}

    def __getitem__(self, key: Key) -> Outlet:
        return self._outlets[key]

    def refresh(self, conn: Any, states: Sequence[outbox.OutletState], tenants: list[int]) -> None:
        """Build what is new or changed; what cannot be built is tried again each time."""
        filters = outbox.filters(conn, tenants)
        missing = [(s.tenant, s.connection) for s in states if not self._current(s)]
        missing += [(t, id) for t, id, revision in filters if not self._sifted(t, id, revision)]
        stored = outbox.stored(conn, missing) if missing else {}
        for (tenant, id), connection in stored.items():
            if "target" in connection.uses:
                self._outlets[tenant, id] = self._outlet(tenant, connection)
            else:
                self._sieves[tenant, id] = connection.revision, self._sieve(tenant, connection)
        for tenant in tenants:
            self._order.pop(tenant, None)
        for tenant, id, _ in filters:
            self._order.setdefault(tenant, []).append((tenant, id))

    def sifted(self, tenant: int, notice: Notice, channel: str) -> Notice | None:
        """What is left after the tenant's filters; None when one keeps it in."""
        for key in self._order.get(tenant, ()):
            sieve = self._sieves[key][1] if key in self._sieves else "it is new"
            if isinstance(sieve, str):
                raise Reject(f"a filter cannot be built, so nothing leaves: {sieve}")
            if sieve.channels and channel not in sieve.channels:
                continue
            kept = _asked(sieve, notice, channel)
            if kept is None:
                return None
            notice = kept
        return notice

    def _current(self, state: outbox.OutletState) -> bool:
        known = self._outlets.get((state.tenant, state.connection))
        return known is not None and known.revision == state.revision and not known.problem

    def _sifted(self, tenant: int, id: UUID, revision: int) -> bool:
        known = self._sieves.get((tenant, id))
        return known is not None and known[0] == revision and not isinstance(known[1], str)

    def _outlet(self, tenant: int, connection: Connection) -> Outlet:
        name, revision = connection.name, connection.revision
        hidden: tuple[str, ...] = ()
        try:
            options, hidden = self._options(tenant, connection)
            target = plugins.build("target", connection.plugin, options)
        except Exception as cause:  # noqa: BLE001  a plug-in's bug must not stop the others
            problem = f"the target cannot be built: {reason_of(cause, hidden)}"
            return Outlet(name, connection.plugin, revision, None, hidden, problem)
        return Outlet(name, connection.plugin, revision, target, hidden)

    def _sieve(self, tenant: int, connection: Connection) -> Sieve | str:
        hidden: tuple[str, ...] = ()
        try:
            options, hidden = self._options(tenant, connection)
            checked = plugins.check("filter", connection.plugin, options)
            call = plugins.build("filter", connection.plugin, options)
        except Exception as cause:  # noqa: BLE001  see above
            return reason_of(cause, hidden)
        channels = frozenset(getattr(checked, "channels", ()))
        return Sieve(connection.name, call, channels, hidden)

    def _options(self, tenant: int, connection: Connection) -> tuple[dict[str, Any], Any]:
        secrets = connections.opened(self._unseal, tenant, connection)
        return plugins.join(connection.options, secrets), plugins.hidden(secrets)


def _asked(sieve: Sieve, notice: Notice, channel: str) -> Notice | None:
    """A filter that fails lets nothing pass: what it should have hidden stays here."""
    try:
        kept = sieve.call(notice, channel)
    except Exception as cause:  # noqa: BLE001  whatever a filter does, nothing leaks
        reason = reason_of(cause, sieve.hidden)
        raise Reject(f"the filter {sieve.name!r} refused it: {reason}") from None
    if kept is None:
        return None
    if not isinstance(kept, Notice):
        raise Reject(f"the filter {sieve.name!r} returned a {type(kept).__name__}, not a notice")
    # Who is told, and under which id, is not a filter's to change.
    return msgspec.structs.replace(
        kept, id=notice.id, key=notice.key, handle=notice.handle, unsure=notice.unsure,
        echo=notice.echo, sent_at=notice.sent_at,
    )  # fmt: skip
