"""People whom another provider vouches for: who they are here."""

from uuid import UUID, uuid5

from lily.types import Tenant


def subject_of(tenant: Tenant, login: str) -> UUID:
    """The id of a foreign login in a tenant, the same wherever it is computed."""
    return uuid5(tenant.id, f"login:{login.strip().lower()}")
