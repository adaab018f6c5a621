"""Who may do what, as data. Everything else asks these tables."""

from collections.abc import Mapping
from typing import Literal, get_args

Scope = Literal[
    "assets:read",
    "assets:ingest",
    "assets:edit",
    "assets:delete",
    "assets:purge",
    "tags:manage",
    "lineage:read",
    "lineage:write",
    "feed:read",
    "notices:own",
    "subscriptions:manage",
    "audit:read",
    "dead:read",
    "dead:replay",
    "connections:read",
    "connections:manage",
    "lake:read",
    "policies:read",
    "policies:manage",
    "access:check",
    "sql:run",
    "users:manage",
    "tokens:own",
    "tenants:manage",
]
Role = Literal["admin", "steward", "editor", "viewer", "ingester"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
PLATFORM: frozenset[Scope] = frozenset({"tenants:manage"})

_VIEWER: frozenset[Scope] = frozenset(
    {"assets:read", "lineage:read", "feed:read", "sql:run", "notices:own", "tokens:own"}
)
_INGESTER: frozenset[Scope] = frozenset({"assets:ingest", "lineage:write", "tokens:own"})
_EDITOR: frozenset[Scope] = _VIEWER | {
    "assets:ingest",
    "assets:edit",
    "lineage:write",
    "subscriptions:manage",
}
_STEWARD: frozenset[Scope] = _EDITOR | {
    "assets:delete",
    "tags:manage",
    "audit:read",
    "dead:read",
    "dead:replay",
    "connections:read",
    "lake:read",
    "policies:read",
    "access:check",
}

ROLES: Mapping[Role, frozenset[Scope]] = {
    "admin": frozenset(SCOPES) - PLATFORM,
    "steward": _STEWARD,
    "editor": _EDITOR,
    "viewer": _VIEWER,
    "ingester": _INGESTER,
}


def scopes_of(role: str, platform: bool = False) -> frozenset[str]:
    """What a role may do; a role that no longer exists may do nothing."""
    own: frozenset[str] = frozenset(ROLES.get(role, frozenset()))  # type: ignore[call-overload]
    return own | PLATFORM if platform and own else own


def weaker(wanted: str, owner: str) -> bool:
    """Whether a role gives nothing that its owner's role does not give."""
    return scopes_of(wanted) <= scopes_of(owner)
