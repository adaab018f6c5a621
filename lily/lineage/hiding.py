"""Which transformations hide the value they are given, so that what it told is told no more."""

import re

# A hashed, masked or counted value does not say who a person is. Nothing else is stopped: data
# under GDPR stays under GDPR when it is hashed.
STOPPED = ("PII",)

_HIDING = {
    "a hash": "sha sha1 sha2 sha3 sha224 sha256 sha384 sha512 sha_256 sha_512 md5 md5_hex sha1_hex"
    " sha2_hex hash hashbytes hmac digest xxhash xxhash64 murmur3_32 farm_fingerprint fingerprint"
    " blake2b blake3",
    "a mask": "mask mask_inner mask_outer mask_hash mask_first_n mask_last_n mask_show_first_n"
    " mask_show_last_n redact tokenize anonymize anonymise pseudonymize pseudonymise",
    "a count": "count count_if count_distinct approx_count_distinct approx_distinct",
}
_WHY = {name: why for why, names in _HIDING.items() for name in names.split()}
_CALL = re.compile(rf"\b({'|'.join(sorted(_WHY, key=len, reverse=True))})\s*\(", re.IGNORECASE)
_STRING = re.compile(r"'(?:[^']|'')*'")
# What may stand around a hidden value without being a value itself.
_WORD = re.compile(r"[A-Za-z_\"`][\w.\"`]*(?!\w*\s*\()")
_TYPES = (
    "as null bigint int integer smallint numeric decimal varchar char text string bytea binary"
    " varbinary uuid hex base64 utf8"
)
_HARMLESS = frozenset(_TYPES.split())


def hides(transformation: str | None, masking: bool) -> str | None:
    """Why the value does not come through, or nothing if it may."""
    if masking:
        return "the transformation is said to mask its input"
    if not transformation:
        return None
    rest, why = _without_calls(_STRING.sub("''", transformation))
    if why is None or any(word.lower() not in _HARMLESS for word in _WORD.findall(rest)):
        return None  # beside the call, a value may stand in the clear
    return f"{why}: {_short(transformation)}"


def _without_calls(text: str) -> tuple[str, str | None]:
    """The text without the calls that hide what is in them, and what the first of them is."""
    why = None
    while (found := _CALL.search(text)) is not None:
        end = _closing(text, found.end())
        if end is None:
            return text, None
        why = why or _WHY[found[1].lower()]
        text = text[: found.start()] + " " + text[end + 1 :]
    return text, why


def _closing(text: str, start: int) -> int | None:
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    return None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"
