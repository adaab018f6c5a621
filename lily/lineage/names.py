"""Names of relations and columns after OpenLineage: `{namespace}/{database}.{schema}.{table}`.

A dot or `#` inside an identifier is written `%2E` or `%23`, and a `%` that would read as one of
these is `%25`. So every name has one reading, and ordinary names look as everybody writes them.
"""

import re

VAGUE = "dataset"  # the type of what lineage names; whoever knows better says table or view

_ESCAPED = {".": "%2E", "#": "%23"}
_PART = re.compile(r"%(?=25|2[Ee]|23)|[.#]")
_FIELD = re.compile(r"%(?=25|2[Ee]|23)|#")
_CODE = re.compile(r"%(25|2[Ee]|23)")
_PLAIN = {"25": "%", "2e": ".", "23": "#"}


def escaped(identifier: str) -> str:
    """An identifier between the dots of a name."""
    return _PART.sub(lambda found: _ESCAPED.get(found[0], "%25"), identifier)


def field(identifier: str) -> str:
    """A column behind the `#`, where a dot means nothing."""
    return _FIELD.sub(lambda found: _ESCAPED.get(found[0], "%25"), identifier)


def plain(text: str) -> str:
    return _CODE.sub(lambda found: _PLAIN[found[1].lower()], text)


def joined(namespace: str, *identifiers: str | None) -> str:
    """Whatever parts a place has, from the outside in."""
    return f"{namespace}/" + ".".join(escaped(each) for each in identifiers if each is not None)


def column(relation: str, name: str) -> str:
    return f"{relation}#{field(name)}"


def job(namespace: str, name: str) -> str:
    """The asset of a job, which is also who claims what the job says of lineage."""
    return f"job:{namespace}/{name}".replace("#", "%23")
