"""What a connection of a webhook has beside its options: an address, and a past."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from lily import plugins
from lily.sdk.webhooks import Claims
from lily.store import webhooks
from lily.store.connections import Connection
from lily.store.database import Unit
from lily.types import Tenant
from lily.wiring import Core

OVERLAP = 86_400  # seconds for which options stay good after they were changed
LONGEST_OVERLAP = 30 * 86_400


def is_webhook(connection: Connection) -> bool:
    return "webhook" in connection.uses


def has_address(connection: Connection) -> bool:
    """Tools call it: with what happened, or with a question."""
    return is_webhook(connection) or "engine" in connection.uses


def made(unit: Unit, connection: Connection) -> None:
    """Give it an address."""
    if has_address(connection):
        webhooks.make(unit, connection.id)


def changed(
    unit: Unit, core: Core, before: Connection, after: Connection, overlap: int | None
) -> None:
    """After a change of secrets, those before stay good for a while."""
    if is_webhook(before) and (before.options, before.secrets) != (after.options, after.secrets):
        seconds = OVERLAP if overlap is None else overlap
        until = core.clock.now() + timedelta(seconds=seconds)
        webhooks.keep_previous(unit, before, until)


def claimed(core: Core, tenant: Tenant, id: UUID, plugin: str, options: Any) -> None:
    """Say in the home database which account it is for; a tool may know no other address."""
    built = plugins.load("webhook", plugin)(options)
    if isinstance(built, Claims):
        with core.database.home_unit(tenant) as unit:
            webhooks.claim(unit, plugin, built.account(), id)


def unclaimed(core: Core, tenant: Tenant, gone: Connection) -> None:
    if is_webhook(gone):
        with core.database.home_unit(tenant) as unit:
            webhooks.unclaim(unit, gone.id)


def addresses(core: Core, unit: Unit, shown: list[Connection]) -> dict[UUID, str]:
    """The URL of each that has one."""
    paths = {
        each.id: f"{'webhook' if is_webhook(each) else 'engine'}/{each.plugin}"
        for each in shown
        if has_address(each)
    }
    tokens = webhooks.tokens(unit, list(paths)) if paths else {}
    base = core.settings.url.rstrip("/")
    return {id: f"{base}/{paths[id]}/{unit.tenant.number}-{token}" for id, token in tokens.items()}
