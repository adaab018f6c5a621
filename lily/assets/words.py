"""How an asset is found: the lexemes of its search vector, and of a query.

Words carry a weight: A from the name, B from the qualified name, C from the description. Filters
are lexemes too (`=type:table`), so that one index answers words and filters together.
"""

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

_CHUNK = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\WA-Za-z\d_]+")
_QUOTED = re.compile(r"(['\\])")

MAX_WORDS = 200
MAX_LEXEME = 200
MAX_KEYS = 64

_PLAIN = (str, int, float, bool)

# ASCII by table, a third of the time of a regular expression: marks become spaces.
_MARKS = bytes(c if chr(c).isalnum() and c < 128 else 32 for c in range(256))
_PROSE = _MARKS.lower()

# Words of prose that tell nothing. Names keep them; descriptions would be half as long again.
_COMMON = (
    "about after again all also am an and any are as at be because been before being"
    " between both but by can did do does doing down during each few for from further had has"
    " have having he her here him his how if in into is it its just me more most my no nor"
    " not of off on once only or other our out over own same she should so some such than that"
    " the their them then there these they this those to too under until up very was we were"
    " what when where which while who whom why will with you your"
)
COMMON = frozenset(_COMMON.split())


def split(text: str) -> tuple[str, ...]:
    """Words of a text, lower case, split at case, digits, `_` and `.`; whole chunks stay too."""
    if text.isascii():
        chunks = text.encode().translate(_MARKS).decode().split()
    else:
        chunks = _CHUNK.findall(text)
    words: dict[str, None] = {}
    for chunk in chunks:
        if chunk.isdigit() and chunk.isascii():
            words[chunk[:MAX_LEXEME]] = None
        else:
            words.update(_parts(chunk))
    return tuple(words)


@lru_cache(maxsize=65_536)
def _parts(chunk: str) -> dict[str, None]:
    """Cached by chunk, because names are made of the same few words over and over."""
    words: dict[str, None] = {}
    if not chunk.isalpha() or not (chunk.islower() or chunk.isupper() or chunk.istitle()):
        for part in _CAMEL.findall(chunk):
            words[part.lower()[:MAX_LEXEME]] = None
    words[chunk.lower()[:MAX_LEXEME]] = None
    return words


def _prose(text: str) -> set[str]:
    """Words of a description: not split at case, and each counted once."""
    text = text[:20_000]
    if text.isascii():
        text = text.encode().translate(_PROSE).decode()
        found = text.split()
    else:
        text = text.lower()
        found = _CHUNK.findall(text)
    words = set(found)
    if len(words) > MAX_WORDS:
        words = set(islice(dict.fromkeys(found), MAX_WORDS))
    if _may_be_long(text):
        words = {word[:MAX_LEXEME] for word in words}
    return words


def _may_be_long(text: str) -> bool:
    """Whether a word may be longer than a lexeme: it would fill a stretch of half its length."""
    half = MAX_LEXEME // 2
    for start in range(0, len(text) - half, half):
        if text.find(" ", start, start + half) < 0:
            return True
    return False


@lru_cache(maxsize=65_536)
def facet(kind: str, value: str) -> str:
    return f"={kind}:{value.lower()}"[:MAX_LEXEME]


class Lexemes(NamedTuple):
    """What an asset is found by; nothing is in it twice."""

    names: Collection[str]
    places: Collection[str]
    prose: Collection[str]
    marks: Collection[str]  # the whole name, and what filters look for


def lexemes(
    name: str,
    qualified_name: str,
    description: str | None,
    facets: Iterable[str],
) -> Lexemes:
    names = split(name)
    places = [word for word in _place_words(qualified_name, name) if word not in names]
    prose: set[str] = set()
    if description:
        prose = _prose(description) - COMMON
        prose.difference_update(names, places)
    # The name whole too, so that exact matches can come first.
    marks = dict.fromkeys((f"=name:{name.lower()}"[:MAX_LEXEME], *facets))
    return Lexemes(names, places, prose, marks)


def _place_words(qualified_name: str, name: str) -> Iterable[str]:
    """They begin with those of what it lies in, which many others have too."""
    place, mark, own = qualified_name.rpartition("#")
    if not mark:
        place, mark, own = qualified_name.rpartition(".")
    if not mark:
        return split(own)
    if own == name:
        return _shared_words(place)  # its own are the name's, which weigh more
    return dict.fromkeys((*_shared_words(place), *split(own)))


@lru_cache(maxsize=8192)
def _shared_words(place: str) -> tuple[str, ...]:
    return split(place)


def quoted(lexeme: str) -> str:
    """As the text of a tsvector has it."""
    if "'" in lexeme or "\\" in lexeme:
        lexeme = _QUOTED.sub(r"\1\1", lexeme)
    return f"'{lexeme}'"


def facets(
    asset_type: str,
    data_source: str | None,
    owner: str | None,
    tags: Iterable[str],
    terms: Iterable[str],
    metadata: dict[str, Any],
) -> list[str]:
    """The lexemes that filters look for. Nested metadata is not indexed, plain values are."""
    found = [facet("type", asset_type)]
    if data_source:
        found.append(facet("source", data_source))
    if owner:
        found.append(facet("owner", owner))
    if tags:
        found.extend([facet("tag", tag) for tag in tags])
    if terms:
        found.extend([facet("term", term) for term in terms])
    for key, value in islice(metadata.items(), MAX_KEYS):
        if isinstance(value, _PLAIN):
            found.append(metadata_facet(key, value))
    return found


def ill(failing: bool) -> list[str]:
    """Of an asset that has open incidents."""
    return [facet("incident", "open"), facet("health", "failing" if failing else "degraded")]


def metadata_facet(key: str, value: str | int | float | bool) -> str:
    return f"=meta:{key}:{value}"[:MAX_LEXEME].lower()
