"""Effective tags: a fold over assignments, declared per exclusive group."""

from collections.abc import Iterable, Sequence

# Within a group only one tag is shown; later is more restrictive.
EXCLUSIVE: tuple[tuple[str, ...], ...] = (("public", "internal", "confidential", "PII"),)

_GROUP = {tag: group for group in EXCLUSIVE for tag in group}


def effective(by_source: Sequence[Iterable[str]], by_person: Iterable[str] = ()) -> list[str]:
    """Tags of the sources, strongest source first, then of persons.

    Within an exclusive group the first origin that names one of its tags wins, and of the tags
    of one origin the most restrictive; everything else is a union.
    """
    shown: set[str] = set()
    settled: set[tuple[str, ...]] = set()
    for origin in (*by_source, by_person):
        tags = set(origin)
        for group in {_GROUP[tag] for tag in tags if tag in _GROUP} - settled:
            shown.add(max(tags.intersection(group), key=group.index))
            settled.add(group)
        shown.update(tag for tag in tags if tag not in _GROUP)
    return sorted(shown)
