"""What an observation may look like. The same rules at the API and in the pipeline."""

from typing import Any

from msgspec import UNSET

from lily.errors import FieldError
from lily.events.limits import NAME_LIMIT, TEXT_LIMIT, mapping_problems, text_problems
from lily.events.observations import AssetGone, Observation

TAG_LIMIT = 256
LIST_LIMIT = 1_000
RETENTION_ACTIONS = ("archive", "delete")

_TEXTS = (
    ("asset_name", NAME_LIMIT), ("asset_type", 256), ("asset_owner", 1_000),
    ("description", TEXT_LIMIT), ("parent_id", NAME_LIMIT), ("data_source", 1_000),
    ("external_id", NAME_LIMIT),
)  # fmt: skip


def problems(seen: Observation) -> list[FieldError]:
    """Everything that is wrong with it, each with its field and the cure."""
    found = list(_name(seen.qualified_name, "qualified_name"))
    if isinstance(seen, AssetGone):
        return found
    for field, limit in _TEXTS:
        value = getattr(seen, field)
        if value == "" or (value and (len(value) > limit or "\0" in value or value.isspace())):
            found.extend(text_problems(value, field, limit))
    for field in ("tags", "business_terms"):
        found.extend(_labels(getattr(seen, field), field))
    for index, alias in enumerate(seen.aliases or ()):
        found.extend(_name(alias, f"aliases[{index}]"))
    if seen.metadata is not UNSET:
        found.extend(mapping_problems(seen.metadata, "metadata"))
    if seen.details is not UNSET:
        found.extend(mapping_problems(seen.details, "details"))
        found.extend(_retention(seen.details.get("retention_policy")))
    return found


def _name(value: str, field: str) -> list[FieldError]:
    if not value.strip():
        return [FieldError(field, "must not be empty; give the asset a name")]
    return text_problems(value, field, NAME_LIMIT)


def _labels(value: Any, field: str) -> list[FieldError]:
    if value is UNSET:
        return []
    if len(value) > LIST_LIMIT:
        return [FieldError(field, f"has more than {LIST_LIMIT} entries")]
    found = []
    for index, label in enumerate(value):
        if not label or label.isspace():
            found.append(FieldError(f"{field}[{index}]", "must not be empty; remove it"))
        elif len(label) > TAG_LIMIT or "\0" in label:
            found.extend(text_problems(label, f"{field}[{index}]", TAG_LIMIT))
    return found


def _retention(policy: Any) -> list[FieldError]:
    if policy is None:
        return []
    field = "details.retention_policy"
    if not isinstance(policy, dict):
        return [FieldError(field, "must be an object")]
    enabled = policy.get("enabled")
    if not isinstance(enabled, bool):
        return [FieldError(f"{field}.enabled", "must be true or false")]
    days, action = policy.get("retention_period_days"), policy.get("action_after_expiry")
    found = []
    if enabled and (not isinstance(days, int) or isinstance(days, bool)):
        found.append(FieldError(f"{field}.retention_period_days", "must be a whole number"))
    elif isinstance(days, int) and not 0 <= days <= 36_500:
        found.append(FieldError(f"{field}.retention_period_days", "must be 0 to 36500"))
    if action not in RETENTION_ACTIONS and (enabled or action is not None):
        known = " or ".join(RETENTION_ACTIONS)
        found.append(FieldError(f"{field}.action_after_expiry", f"must be {known}"))
    return found
