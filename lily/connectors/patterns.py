"""Regular expressions from tenants, admitted only when no name can make them hang."""

import re
from importlib import import_module
from typing import Any

LONGEST_NAME = 512
LONGEST_PATTERN = 300
MOST_STEPS = 1_000_000  # about 10 ms: what one name may cost at the very worst

# The standard library's own parser: what it says of a pattern is what `re` will run.
_parser: Any = import_module("re._parser")


def admitted(pattern: str) -> str:
    """The pattern itself, or a ValueError that says what is wrong with it."""
    if steps(pattern) > MOST_STEPS:
        raise ValueError(
            "could take too long on some names; use at most one * or +, or bounds like {0,20}"
        )
    return pattern


def steps(pattern: str) -> int:
    """What a search for it may cost on the worst name."""
    if not pattern or len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"a pattern has 1 to {LONGEST_PATTERN} characters")
    try:
        tree = _parser.parse(pattern)
        ways = _ways(tree)
    except (re.error, OverflowError, RecursionError) as cause:
        raise ValueError(f"not a regular expression: {cause}") from None
    if tree.state.flags & ~re.UNICODE:
        raise ValueError("inline flags such as (?i) are not supported; case never matters here")
    if tree.state.groupdict:
        raise ValueError("groups need no names here; write (…) instead of (?P<name>…)")
    anchored = tree.data and [str(part) for part in tree.data[0]] == ["AT", "AT_BEGINNING"]
    return ways * (1 if anchored else LONGEST_NAME)


def _ways(tree: Any) -> int:
    """In how many ways the pattern can match at one place, at most: what backtracking may try."""
    ways = 1
    for operator, argument in tree:
        ways *= _ways_of(str(operator), argument)
    return ways


def _ways_of(operator: str, argument: Any) -> int:
    match operator:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, body = argument
            inside = _ways(body)
            if most > 1 and inside > 1:
                raise ValueError("a repeated group may not hold a choice or a repetition itself")
            return int(min(most, LONGEST_NAME) - min(least, LONGEST_NAME)) + inside
        case "BRANCH":
            return sum(_ways(branch) for branch in argument[1])
        case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
            return _ways(argument[-1])
        case "ATOMIC_GROUP":
            return _ways(argument)
        case "GROUPREF" | "GROUPREF_EXISTS" | "GROUPREF_IGNORE":
            raise ValueError("references to groups are not supported")
        case _:
            return 1
