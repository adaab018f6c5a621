"""Identity providers of tenants, in the home database, and the people whom they vouch for."""

from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from lily.errors import Conflict, NotFound
from lily.identity.jwks import KeySets
from lily.identity.oidc import Foreigner, Peek, Provider, verified
from lily.store.database import Database, Unit
from lily.store.desk import Desk
from lily.store.people import end_sessions
from lily.types import Tenant

FRESH = 5.0  # seconds for which a configuration is not read again
_COLUMNS = ", ".join(Provider.__struct_fields__)
SAVE = (
    f"INSERT INTO identity_provider ({_COLUMNS})"
    f" VALUES ({', '.join(['%s'] * len(Provider.__struct_fields__))})"
    " ON CONFLICT (tenant, id) DO UPDATE SET "
    + ", ".join(
        f"{name} = excluded.{name}"
        for name in Provider.__struct_fields__
        if name not in ("tenant", "id", "created_at")
    )
)
PERSON = (
    "SELECT id, username, password, role, platform, active FROM person"
    " WHERE tenant = %s AND username = %s FOR UPDATE"
)
CREATE = (
    "INSERT INTO person (tenant, id, username, name, password, role)"
    " VALUES (%s, %s, %s, %s, %s, %s)"
)
CHANGE = (
    "UPDATE person SET role = %s, active = true, updated_at = clock_timestamp()"
    " WHERE tenant = %s AND id = %s"
)


def save(desk: Desk, provider: Provider, before: Provider | None) -> None:
    values: list[Any] = [getattr(provider, name) for name in Provider.__struct_fields__]
    values[Provider.__struct_fields__.index("roles")] = Jsonb(provider.roles)
    try:
        desk.conn.execute(SAVE, values)
    except UniqueViolation:
        raise Conflict(f"There is already a provider named {provider.name!r}.") from None
    desk.note("ProviderChanged", told(provider), told(before) if before else None)


def get(unit: Unit, id: UUID) -> Provider:
    found = [each for each in all_of(unit) if each.id == id]
    if not found:
        raise NotFound("identity provider", id)
    return found[0]


def all_of(unit: Unit) -> list[Provider]:
    """A tenant's providers, by name."""
    rows = unit.conn.execute(
        f"SELECT {_COLUMNS} FROM identity_provider WHERE tenant = %s ORDER BY name",
        [unit.tenant.number],
    ).fetchall()
    return [Provider(*row) for row in rows]


def delete(desk: Desk, provider: Provider) -> None:
    desk.conn.execute(
        "DELETE FROM identity_provider WHERE tenant = %s AND id = %s",
        [desk.tenant.number, provider.id],
    )
    desk.note("ProviderChanged", None, told(provider))


def told(provider: Provider) -> dict[str, Any]:
    """Everything but the secret."""
    return {
        "provider": str(provider.id), "name": provider.name, "issuer": provider.issuer,
        "audience": provider.audience, "client_id": provider.client_id,
        "groups_claim": provider.groups_claim, "name_claim": provider.name_claim,
        "roles": provider.roles, "enabled": provider.enabled,
    }  # fmt: skip


class Providers:
    """Finds a provider by what a token says of its issuer; remembers for a few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, list[tuple[Tenant, Provider]]]] = {}
        self._lock = Lock()

    def of(self, issuer: str) -> list[tuple[Tenant, Provider]]:
        """Those of active tenants."""
        with self._lock:
            found = self._known.get(issuer)
        if found is not None and monotonic() - found[0] < FRESH:
            return found[1]
        asked = monotonic()
        with self._database.home() as conn:
            rows = conn.execute(
                f"SELECT {_COLUMNS} FROM identity_providers(%s)", [issuer]
            ).fetchall()
        listed = [Provider(*row) for row in rows]
        pairs = [(self._database.tenant(each.tenant), each) for each in listed]
        active = [(tenant, each) for tenant, each in pairs if tenant.admitted]
        with self._lock:
            if len(self._known) > 1_000:  # issuers that somebody made up
                self._known.clear()
            self._known[issuer] = (asked, active)
        return active


class Welcomed:
    """A person whom a provider vouched for: id, name and role."""

    def __init__(self, id: UUID, name: str, role: str) -> None:
        self.id = id
        self.name = name
        self.role = role


def welcome(desk: Desk, provider: Provider, who: Foreigner, life: timedelta) -> Welcomed:
    """The person with the role that the provider's groups give now.

    A person with a password of their own is another: no provider may take their place.
    """
    tenant, mark = desk.tenant.number, f"!oidc:{provider.id}"
    row = desk.conn.execute(PERSON, [tenant, who.name]).fetchone()
    if row is None:
        id = uuid4()
        desk.conn.execute(CREATE, [tenant, id, who.name, who.name, mark, who.role])
        desk.note("UserCreated", {"user": str(id), "username": who.name, "role": who.role,
                                  "provider": provider.name})  # fmt: skip
        return Welcomed(id, who.name, who.role)
    id, username, password, role, _, active = row
    if password != mark:
        raise Conflict(f"There is a user {username} who logs in with a password.")
    if role != who.role or not active:
        desk.conn.execute(CHANGE, [who.role, tenant, id])
        end_sessions(desk, id, life)
        desk.note(
            "UserChanged",
            {"user": str(id), "role": who.role, "active": True},
            {"user": str(id), "role": role, "active": active},
        )
    return Welcomed(id, username, who.role)


class Vouching:
    """Believes tokens of providers that exactly one tenant takes for this audience."""

    def __init__(self, providers: Providers, keys: KeySets) -> None:
        self._providers = providers
        self._keys = keys

    def vouched(self, token: str, claimed: Peek, now: datetime) -> tuple[Tenant, Foreigner] | None:
        fitting = [
            (tenant, provider)
            for tenant, provider in self._providers.of(claimed.issuer)
            if provider.audience in claimed.audiences
        ]
        if len(fitting) != 1:
            return None  # nobody's, or it cannot be told whose
        tenant, provider = fitting[0]
        key = self._keys.key(provider.issuer, claimed.kid)
        if key is None:
            return None
        return tenant, verified(token, key, provider, provider.audience, now)
