"""The words of an asset as PostgreSQL takes a search vector: as text, and packed for COPY."""

from collections.abc import Collection, Iterable

from lily.assets.words import Lexemes, quoted

# What follows a lexeme: that it ends, and how often it occurs. Once, with the weight of a name, a
# place or prose; or nobody asks where.
_NAME, _PLACE, _PROSE, _MARK = b"\0\0\1\xc0\1", b"\0\0\1\x80\1", "\0\0\1@\1", "\0\0\0"


def written(found: Lexemes) -> str:
    """As text."""
    return " ".join(
        (
            *_weighed(found.names, "A"), *_weighed(found.places, "B"),
            *_weighed(found.prose, "C"), *map(quoted, found.marks),
        )
    )  # fmt: skip


def packed(found: Lexemes) -> bytes:
    """In binary. No lexeme may come twice: nobody would notice before a search goes wrong."""
    names, places, prose, marks = found
    count = len(names) + len(places) + len(prose) + len(marks)
    rest = _PROSE.join(prose) + _PROSE if prose else ""
    rest += _MARK.join(marks) + _MARK if marks else ""
    return b"".join(
        (count.to_bytes(4, "big"), _ended(names, _NAME), _ended(places, _PLACE), rest.encode())
    )


def _weighed(words: Iterable[str], weight: str) -> Iterable[str]:
    return (f"'{word}':1{weight}" for word in words)


def _ended(lexemes: Collection[str], end: bytes) -> bytes:
    """Each with this behind it. There is no NUL in any of them."""
    return ("\0".join(lexemes) + "\0").encode().replace(b"\0", end) if lexemes else b""
