"""What a search asks for: words and filters, read from the parameters of a request.

Every word must match in the name, the qualified name or the description: the last one as a prefix,
those before it whole, and only if nothing is found so, as prefixes too. Filters of different kinds
must all hold; of one kind, tags, terms and metadata must all hold, while one of several types,
sources or owners is enough.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

import msgspec

from lily.assets import words
from lily.errors import FieldError, Invalid

Shown = Literal["live", "gone", "any"]
Mode = Literal["ranked", "listed"]

MOST_WORDS = 16
SHORTEST_PREFIX = 3  # letters, except in the last word
MOST_VALUES = 32
LONGEST = 1_000
LIMIT = 20
MOST = 200

_CHUNK = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"(['\\])")
_ALL = {"tag": "tag", "business_term": "term"}
_ONE_OF = {
    "asset_type": "type", "data_source": "source", "owner": "owner", "incident": "incident",
    "health": "health",
}  # fmt: skip
_SINGLE = ("q", "updated_since", "deleted", "limit", "after")
_NEVER_EMPTY = (*_ALL, *_ONE_OF, "updated_since")
_SHOWN: dict[str, Shown] = {"false": "live", "true": "gone", "any": "any"}
PARAMETERS = (*_SINGLE, *_ALL, *_ONE_OF)


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """The sort key of a page's last item, and which query it belongs to."""

    query: str
    mode: Mode
    rank: int
    name: str
    guid: UUID


class Query(msgspec.Struct, frozen=True):
    """Tsqueries as text; None where nothing is asked."""

    wanted: str | None = None
    looser: str | None = None  # what is wanted when nothing is found: every word as a prefix
    exact: str | None = None
    in_name: str | None = None
    in_path: str | None = None
    since: datetime | None = None
    shown: Shown = "live"
    limit: int = LIMIT
    after: Mark | None = None
    nothing: bool = False  # there was text, but no word in it: nothing can match

    @property
    def digest(self) -> str:
        """Names what is asked, whichever page of it."""
        asked = repr((self.wanted, self.exact, self.since, self.shown))
        return hashlib.sha256(asked.encode()).hexdigest()[:12]


def parse(given: Iterable[tuple[str, str]]) -> Query:
    """Read parameters; raises Invalid with everything that is wrong with them."""
    values: dict[str, list[str]] = {}
    for name, value in given:
        values.setdefault(name, []).append(value)
    errors = _problems(values)
    since = _since(values, errors)
    limit = _limit(values, errors)
    text = values.get("q", [""])[0].strip()
    chunks = telling(dict.fromkeys(_CHUNK.findall(text)))
    if len(chunks) > MOST_WORDS:
        errors.append(FieldError("q", f"has more than {MOST_WORDS} words; leave some out"))
    if errors:
        raise Invalid(errors)
    filters = _filters(values)
    query = Query(
        wanted=_and([*_words(chunks), *filters]),
        looser=_looser(chunks, filters),
        exact=_and([_quote(words.facet("name", text)), *filters]) if chunks else None,
        in_name=_and(_prefixes(chunks, "A")),
        in_path=_and(_prefixes(chunks, "AB")),
        since=since,
        shown=_SHOWN[values.get("deleted", ["false"])[0]],
        limit=limit,
        nothing=bool(text) and not chunks,
    )
    after = values.get("after", [""])[0]
    return unmark(after, query) if after else query


def telling(chunks: Iterable[str]) -> tuple[str, ...]:
    """Without the words that descriptions are not indexed by, unless there are no others."""
    found = tuple(chunks)
    return tuple(chunk for chunk in found if chunk.lower() not in words.COMMON) or found


def loosened(query: Query) -> Query:
    return msgspec.structs.replace(query, wanted=query.looser, looser=None)


def mark(query: Query, mode: Mode, rank: int, name: str, guid: UUID) -> str:
    """Where the next page begins, as an opaque word."""
    raw = msgspec.json.encode(Mark(query.digest, mode, rank, name, guid))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unmark(after: str, query: Query) -> Query:
    """The query at the page that a mark names; a mark of another query is refused."""
    try:
        key = msgspec.json.decode(base64.urlsafe_b64decode(after + "=="), type=Mark)
    except (ValueError, msgspec.MsgspecError):
        raise Invalid("is not the `next` of a page; start again without it", "after") from None
    for each in (query, loosened(query)):
        if key.query == each.digest and 0 <= key.rank < 8 and "\0" not in key.name:
            return msgspec.structs.replace(each, after=key)
    raise Invalid("belongs to another search; start again without it", "after")


def _problems(values: dict[str, list[str]]) -> list[FieldError]:
    found = []
    for name, given in values.items():
        if name not in PARAMETERS and not (name.startswith("metadata.") and len(name) > 9):
            known = ", ".join((*PARAMETERS, "metadata.<key>"))
            found.append(FieldError(name, f"is not a parameter of search; there are {known}"))
        elif name in _SINGLE and len(given) > 1:
            found.append(FieldError(name, "is given twice; once is enough"))
        elif len(given) > MOST_VALUES:
            found.append(FieldError(name, f"is given more than {MOST_VALUES} times"))
        elif any(len(value) > LONGEST for value in given) and name != "after":
            found.append(FieldError(name, f"is longer than {LONGEST} characters; shorten it"))
        elif name in _NEVER_EMPTY and not all(value.strip() for value in given):
            found.append(FieldError(name, "must not be empty; leave it out or give a value"))
    if values.get("deleted", ["any"])[0] not in _SHOWN:
        found.append(FieldError("deleted", "must be true, false or any"))
    return found


def _since(values: dict[str, list[str]], errors: list[FieldError]) -> datetime | None:
    text = values.get("updated_since", [""])[0]
    if not text.strip():
        return None
    try:
        # A plus sign that was not percent-encoded arrives as a space.
        at = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
        return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        errors.append(FieldError("updated_since", "must be a time like 2026-01-31T12:00:00Z"))
        return None


def _limit(values: dict[str, list[str]], errors: list[FieldError]) -> int:
    text = values.get("limit", [str(LIMIT)])[0].strip()
    if text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= MOST:
        return int(text)
    errors.append(FieldError("limit", f"must be 1 to {MOST}"))
    return LIMIT


def _words(chunks: Sequence[str]) -> list[str]:
    return [*(_word(chunk, "") for chunk in chunks[:-1]), *_prefixes(chunks[-1:])]


def _looser(chunks: Sequence[str], filters: Sequence[str]) -> str | None:
    """Longer words as prefixes; a short one would match half of everything, and slowly."""
    if not any(map(_is_long, chunks[:-1])):
        return None
    before = [_word(chunk, ":*" if _is_long(chunk) else "") for chunk in chunks[:-1]]
    return _and([*before, *_prefixes(chunks[-1:]), *filters])


def _is_long(chunk: str) -> bool:
    return len(chunk) >= SHORTEST_PREFIX or not chunk.isascii()


def _prefixes(chunks: Sequence[str], weights: str = "") -> list[str]:
    return [_word(chunk, f":*{weights}") for chunk in chunks]


def _word(chunk: str, suffix: str) -> str:
    """One word; one that splits (`camelCase`) matches whole or by all its parts."""
    *parts, whole = (f"'{part}'{suffix}" for part in words.split(chunk))
    return f"({whole} | ({' & '.join(parts)}))" if parts else whole


def _filters(values: dict[str, list[str]]) -> list[str]:
    found = []
    for name, given in values.items():
        if name in _ALL:
            found += [_quote(words.facet(_ALL[name], value)) for value in given]
        elif name in _ONE_OF:
            lexemes = [_quote(words.facet(_ONE_OF[name], value)) for value in given]
            found.append(f"({' | '.join(lexemes)})")
        elif name.startswith("metadata."):
            found += [_quote(words.metadata_facet(name[9:], value)) for value in given]
    return sorted(set(found))


def _and(parts: Iterable[str]) -> str | None:
    return " & ".join(parts) or None


def _quote(lexeme: str) -> str:
    return "'" + _QUOTED.sub(r"\1\1", lexeme.replace("\0", "")) + "'"
