"""Hook `classify`: what an asset is called tells what it holds."""

import re
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lily.connectors.patterns import LONGEST_NAME, MOST_STEPS, admitted, steps
from lily.sdk import AssetSeen, Observation, Suggestion

# A word of a name: `email` is one in customer_email, customerEmail, EMAIL2 and e-mail.home, but
# not in emailed_at or femail. Digits and anything that is no letter end a word.
_PERSONAL = (
    r"e[_-]?mails?(?:[_-]?addr(?:ess)?)?",
    r"ssn|social[_-]?security(?:[_-]?(?:number|num|no|nr))?",
    r"(?:tele)?phones?(?:[_-]?(?:number|num|no|nr))?",
    r"mobile[_-]?(?:phone|number|num|no|nr)|mobile(?=$|\d)",
    r"iban|bank[_-]?account(?:[_-]?(?:number|num|no|nr))?",
    r"birth[_-]?(?:day|date|place)|date[_-]?of[_-]?birth|dob",
    r"passport(?:[_-]?(?:number|num|no|nr|id))?",
    r"(?:first|last|full|given|family|middle|maiden)[_-]?names?|surname",
    r"(?:street|home|postal|mailing|billing|shipping)[_-]?addr(?:ess)?(?:es)?|address(?:es)?",
    r"tax[_-]?(?:id|number)|national[_-]?id|driv(?:er|ing)s?[_-]?licen[sc]e",
)
_PAYMENT = (r"(?:credit|debit)[_-]?cards?|card[_-]?(?:number|num|no|nr)|cvv|cvc",)

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Rule(BaseModel):
    """Names that match the pattern get the tag; with `types`, only assets of those types."""

    model_config = ConfigDict(extra="forbid")

    pattern: Annotated[str, AfterValidator(admitted)]
    tag: Annotated[str, Field(min_length=1, max_length=200)]
    types: list[str] | None = None
    words: bool = Field(False, description="Match whole words of the name only.")


DEFAULT_RULES = [
    *(Rule(pattern=pattern, tag="PII", words=True) for pattern in _PERSONAL),
    *(Rule(pattern=pattern, tag="PCI", words=True) for pattern in _PAYMENT),
]


def _together(rules: list[Rule]) -> list[Rule]:
    """Every name is held against every rule, so they share one measure of patience."""
    if sum(steps(rule.pattern) for rule in rules) > MOST_STEPS:
        raise ValueError("together they could take too long on some names; use simpler patterns")
    return rules


class Classify:
    """Suggests or applies tags where an asset's own name matches a pattern."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        rules: Annotated[list[Rule], AfterValidator(_together)] = Field(
            default=DEFAULT_RULES,
            min_length=1,
            max_length=200,
            description="Regular expressions, searched in the asset's own name written as"
            " lower-case words: customerEmail is customer_email.",
        )
        mode: Literal["suggest", "apply"] = Field(
            "suggest",
            description="`suggest` lets a person accept or reject; `apply` adds the tags as the"
            " source's own. A partial observation without tags is always a suggestion, since"
            " tags that are given replace the stored ones.",
        )

    def __init__(self, options: Options) -> None:
        self._apply = options.mode == "apply"
        self._rules = [(_compiled([rule]), rule.tag, _lower(rule.types)) for rule in options.rules]
        # Nearly every name matches nothing: one search for all rules finds that out.
        self._any = _compiled(options.rules).search

    def __call__(self, seen: Observation) -> Observation | None:
        if not isinstance(seen, AssetSeen):
            return seen
        name = own_name(seen)
        if self._any(name) is None:
            return seen
        return self._tagged(seen, self._found(name, seen.asset_type))

    def _found(self, name: str, asset_type: object) -> dict[str, str]:
        """Each tag that fits, with the part of the name that says so."""
        kind = asset_type.lower() if isinstance(asset_type, str) else ""
        found: dict[str, str] = {}
        for pattern, tag, types in self._rules:
            if tag in found or (types is not None and kind not in types):
                continue
            if match := pattern.search(name):
                found[tag] = match.group()
        return found

    def _tagged(self, seen: AssetSeen, found: dict[str, str]) -> AssetSeen:
        tags = seen.tags if seen.tags is not UNSET else []
        known = {*tags, *(suggestion.tag for suggestion in seen.suggestions)}
        if self._apply and not (seen.partial and seen.tags is UNSET):
            added = [tag for tag in found if tag not in tags]
            return msgspec.structs.replace(seen, tags=[*tags, *added]) if added else seen
        new = [
            Suggestion(tag, "classify", f"the name has {text!r}")
            for tag, text in found.items()
            if tag not in known
        ]
        if not new:
            return seen
        return msgspec.structs.replace(seen, suggestions=[*seen.suggestions, *new])


def own_name(seen: AssetSeen) -> str:
    """The asset's own name in lower-case words: customerEMail is customer_e_mail."""
    name = seen.asset_name
    if not isinstance(name, str):
        name = re.split(r"[#./]", seen.qualified_name[-LONGEST_NAME:])[-1]
    name = name[:LONGEST_NAME]
    return name if name.islower() else (name if name.isupper() else _CAMEL.sub("_", name)).lower()


def _compiled(rules: list[Rule]) -> re.Pattern[str]:
    """One expression for all of them; it runs on lower case."""
    words = "|".join(rule.pattern for rule in rules if rule.words)
    parts = [rule.pattern for rule in rules if not rule.words]
    if words:
        parts.append(rf"(?<![a-z])(?:{words})(?![a-z])")
    whole = "|".join(parts)
    # Ignoring case costs twice the time, so only patterns with capitals pay for it.
    return re.compile(whole, 0 if whole.islower() else re.IGNORECASE)


def _lower(types: list[str] | None) -> frozenset[str] | None:
    return frozenset(kind.lower() for kind in types) if types is not None else None
