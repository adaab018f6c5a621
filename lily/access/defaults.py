"""The policies that every tenant begins with; each can be changed, switched off or deleted."""

from uuid import UUID, uuid5

from lily.access.model import Mask, Policy, Resource, Subject

PII_READERS = "pii_reader"

_EVERYTHING = Resource("everything")
_EVERYONE = (Subject("everyone"),)


def default_policies(tenant: UUID) -> list[Policy]:
    """Everybody reads, editors write, stewards delete; what is personal is masked."""
    return [
        Policy(
            id=_id(tenant, "read"), name="Everybody reads", effect="allow", action="READ",
            subjects=_EVERYONE, resource=_EVERYTHING,
        ),
        Policy(
            id=_id(tenant, "stewards read"), name="Stewards read", effect="allow", action="READ",
            subjects=_roles("steward", "admin"), resource=_EVERYTHING,
        ),
        Policy(
            id=_id(tenant, "write"), name="Editors write", effect="allow", action="WRITE",
            subjects=_roles("editor", "steward", "admin", "ingester"), resource=_EVERYTHING,
        ),
        Policy(
            id=_id(tenant, "delete"), name="Stewards delete", effect="allow", action="DELETE",
            subjects=_roles("steward", "admin"), resource=_EVERYTHING,
        ),
        *(
            Policy(
                id=_id(tenant, f"mask {tag}"), name=f"{tag} is masked", effect="mask",
                action="READ", subjects=_EVERYONE, resource=Resource("tag", tag),
                mask=Mask("null"), exempt_groups=(PII_READERS,),
            )
            for tag in ("PII", "GDPR")
        ),
    ]  # fmt: skip


def _roles(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject("role", name) for name in names)


def _id(tenant: UUID, what: str) -> UUID:
    return uuid5(tenant, f"policy:{what}")
