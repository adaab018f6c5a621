"""Hook `glossary`: the words in an asset's name lead to the business terms it stands for."""

import re
from typing import Annotated

import msgspec
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lily.sdk import AssetSeen, Observation

Term = Annotated[str, StringConstraints(min_length=1, max_length=256, strip_whitespace=True)]

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Glossary:
    """Adds business terms for the words and abbreviations in an asset's name."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        terms: dict[Term, Term] = Field(
            min_length=1, description='Word → business term, e.g. {"cust": "Customer"}.'
        )
        types: list[str] = Field(
            default=[], description="Only assets of these types; empty means all."
        )

    def __init__(self, options: Options) -> None:
        self._terms = {word.lower(): term for word, term in options.terms.items()}
        self._types = {kind.lower() for kind in options.types}

    def __call__(self, seen: Observation) -> Observation | None:
        if not isinstance(seen, AssetSeen) or not isinstance(seen.asset_name, str):
            return seen
        if seen.partial and seen.business_terms is UNSET:
            return seen  # terms that are given replace the stored ones; none were given
        if self._types and str(seen.asset_type).lower() not in self._types:
            return seen
        known = seen.business_terms or []
        words = WORD.findall(seen.asset_name)
        terms = dict.fromkeys(self._terms[w] for w in map(str.lower, words) if w in self._terms)
        new = [term for term in terms if term not in known]
        if not new:
            return seen
        return msgspec.structs.replace(seen, business_terms=[*known, *new])
