"""What Lily decided and wrote. Facts are the outbox, the audit trail and the change feed."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec

FactKind = Literal[
    "AssetCreated",  # an asset exists now; after holds it whole
    "AssetChanged",  # before and after hold the fields that changed
    "AssetDeleted",  # soft delete; after.deleted_by says by whom
    "AssetRestored",
    "AssetArchived",
    "AssetPurged",  # the row is gone; a tombstone stays
    "FieldsCreated",  # a batch of first, untagged fields under one parent; after.count
    "TagsChanged",  # effective tags; before.tags and after.tags
    "TagsSuggested",  # a hook proposes; after.tags
    "SuggestionAccepted",  # after.tag and after.by, who proposed it
    "SuggestionRejected",
    "TagResolved",  # a steward chose between tags of a group; after.tag, after.among
    "TagDefined",  # after holds the definition; after.kind says tag or term
    "TagDefinitionChanged",  # before and after hold what changed, and name and kind
    "TagDefinitionDeleted",
    "EdgeCreated",  # guid is the downstream end; after holds the edge
    "EdgeChanged",  # before and after hold the fields that changed
    "EdgeDeleted",  # after.deleted_by says by whom
    "EdgeRestored",
    "BlockCreated",  # a name no longer passes an edge; after says which, and who says so
    "BlockDeleted",  # it passes again
    "PropagationRuleCreated",  # after holds the rule
    "PropagationRuleChanged",
    "PropagationRuleDeleted",
    "PropagationLimited",  # after.limit was reached: what lies beyond was not
    "PropagationFinished",  # a large reach is done; after.changed assets
    "PropagationChecked",  # a check found other rows than are stored; after counts them
    "ObservationReplayed",  # a dead letter went back into the log
    "ObservationDropped",  # a dead letter was given up by a person
    "LoginSucceeded",
    "LoginRefused",
    "LoggedOut",
    "AccessRefused",  # a known caller asked for what its role does not allow
    "PasswordChanged",
    "TokenCreated",
    "TokenRevoked",
    "UserCreated",
    "UserChanged",
    "ServiceAccountCreated",
    "ServiceAccountChanged",
    "TenantCreated",
    "TenantChanged",
    "KeyRotated",
    "ConnectionCreated",
    "ConnectionChanged",
    "ConnectionDeleted",
    "CrawlFinished",  # after.state and after.counts; asset facts name the run as their request
    "IncidentOpened",  # or opened again; after holds what there is to tell of it
    "IncidentAcknowledged",
    "IncidentChanged",  # severity, owner, title, or a comment; before and after
    "IncidentResolved",
    "IncidentSuppressed",
    "IncidentAttached",  # it is known now which asset it is about
    "ProviderChanged",  # an identity provider; before and after, null where there is none
    "PolicyCreated",  # after holds the policy
    "PolicyChanged",
    "PolicyDeleted",
    "CircleChanged",  # the members of a group or role; before and after, null where there is none
    "ScraperPolicyChanged",
    "ProtectionVerified",  # an engine keeps what it should; after.columns, after.connection
    "ProtectionFailed",  # after.reason
    "ProtectionDrifted",  # somebody had undone it in the engine; it was done again
    "ProtectionReleased",  # everybody has again what they had before
    "SubscriptionCreated",
    "SubscriptionChanged",
    "SubscriptionDeleted",
    "NotificationTriggered",  # somebody tells something of an asset now; after.message
    "DeliveryFailed",  # a notice was given up; after.connection, after.reason
    "TargetDisabled",  # an endpoint is gone for good; after.connection, after.reason
]


class Fact(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One decision, before it has a place in the feed."""

    kind: FactKind
    at: datetime
    by: str
    cause: str
    guid: UUID | None = None
    asset_id: str = ""
    qualified_name: str = ""
    asset_type: str = ""
    version: int = 0
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    traceparent: str = ""
