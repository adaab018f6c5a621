"""From a JSON document to the edges it states: one between tables, and those of its columns."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from lily.assets.change import HOLDER
from lily.assets.documents import FUTURE, moment, own_tenant
from lily.assets.names import canonical
from lily.errors import FieldError, Invalid
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.lineage.edges import JOB, PERSON
from lily.lineage.labels import CONTAINS, DEFAULT
from lily.lineage.rules import problems
from lily.types import Tenant

COLUMNS_LIMIT = 5_000
_STARTS = ("from_asset_id", "from", "from_name")
_ENDS = ("to_asset_id", "to", "to_name")
_TEXTS = ("relationship_type", "type", "process", "transformation", "source", "data_source")
# Shown by Lily: accepted because people post back what they were given.
_OURS = ("edge_id", "upstream", "downstream", "level", "implied", "origin", "version", "is_deleted",
         "deleted_by", "created_at", "updated_at", "outcome", "cause", "status")  # fmt: skip
_KNOWN = frozenset(
    (*_STARTS, *_ENDS, *_TEXTS, *_OURS, "masking", "properties", "columns", "observed_at",
     "tenant_id")
)  # fmt: skip
_PUBLIC = {"from_name": "from_asset_id", "to_name": "to_asset_id"}


class Column(msgspec.Struct, frozen=True):
    """An edge between columns, named within their tables or in full."""

    start: str
    end: str
    transformation: str | None = None
    masking: bool | None = None


class Stated(msgspec.Struct, frozen=True):
    """What a document states; no source means that the caller says so."""

    edge: EdgeSeen
    columns: list[Column]
    source: str | None
    observed_at: datetime | None
    gone: bool = False  # the source no longer sees it

    @property
    def is_containment(self) -> bool:
        return self.edge.relationship_type == CONTAINS

    def edges(self, start: str, end: str) -> Iterator[EdgeSeen | EdgeGone]:
        """The table edge, then its columns', between the assets of these names."""
        for edge in self._seen(start, end):
            if self.gone:
                yield EdgeGone(
                    from_name=edge.from_name, to_name=edge.to_name,
                    relationship_type=edge.relationship_type,
                )  # fmt: skip
            else:
                yield edge

    def _seen(self, start: str, end: str) -> Iterator[EdgeSeen]:
        edge = self.edge
        yield msgspec.structs.replace(edge, from_name=start, to_name=end)
        for column in self.columns:
            yield EdgeSeen(
                from_name=_within(start, column.start), to_name=_within(end, column.end),
                relationship_type=edge.relationship_type, process=edge.process,
                transformation=column.transformation, masking=column.masking,
            )  # fmt: skip


def read(document: object, tenant: Tenant, now: datetime) -> Stated:
    """Raises Invalid with every field that is wrong, or Forbidden for another tenant's id."""
    if not isinstance(document, dict):
        raise Invalid("must be a JSON object that describes one edge")
    own_tenant(document.get("tenant_id"), tenant)
    found: list[FieldError] = []
    texts = {name: _text(document, name, found) for name in (*_STARTS, *_ENDS, *_TEXTS)}
    start = next((v for name in _STARTS if (v := texts[name])), "")
    end = next((v for name in _ENDS if (v := texts[name])), "")
    observed = moment(document.get("observed_at"), "observed_at", found)
    if observed is not None and observed > now + FUTURE:
        found.append(
            FieldError("observed_at", "is more than 5 minutes in the future; check the clock")
        )
    columns = _columns(document.get("columns"), found)
    masking, properties = _masking(document, "", found), _properties(document, found)
    if found:
        raise Invalid(found)
    edge = EdgeSeen(
        from_name=canonical(start), to_name=canonical(end),
        relationship_type=texts["relationship_type"] or texts["type"] or DEFAULT,
        process=texts["process"], transformation=texts["transformation"], masking=masking,
        properties=properties,
    )  # fmt: skip
    source = texts["source"] or texts["data_source"]
    source, gone = None if source == PERSON else source, document.get("is_deleted") is True
    if gone and source is None:
        raise Invalid("says that a source no longer sees it; use DELETE instead", "is_deleted")
    stated = Stated(edge, columns, source, observed, gone)
    found += _wrong(stated, start, end)
    if found:
        raise Invalid(found)
    return stated


def _wrong(stated: Stated, start: str, end: str) -> list[FieldError]:
    found = [FieldError(_PUBLIC.get(e.field, e.field), e.message) for e in problems(stated.edge)]
    if stated.is_containment and stated.columns:
        found.append(FieldError("columns", "cannot be given with contains, which is no lineage"))
    if stated.source is not None and (len(stated.source) > 1_000 or "\0" in stated.source):
        found.append(FieldError("source", "is longer than 1000 characters or contains NUL"))
    if stated.source == HOLDER or (stated.source or "").startswith(JOB):
        found.append(FieldError("source", "is a name that Lily keeps for itself; choose another"))
    if not found:
        for index, edge in enumerate(stated.edges(start, end)):
            where = f"columns[{index - 1}]"
            names = {"from_name": f"{where}.from", "to_name": f"{where}.to"}
            if index:
                found += [
                    FieldError(names.get(e.field, f"{where}.{e.field}"), e.message)
                    for e in problems(edge)
                ]
    return found


def _within(table: str, column: str) -> str:
    """A column by its full name, or by its own name in the table."""
    return column if "#" in column else f"{table}#{column}"


def _text(document: Mapping[str, Any], field: str, found: list[FieldError]) -> str | None:
    value = document.get(field)
    if value is None or isinstance(value, str):
        return value
    found.append(FieldError(field, "must be a text"))
    return None


def _masking(document: Mapping[str, Any], where: str, found: list[FieldError]) -> bool | None:
    value = document.get("masking")
    if value is None or isinstance(value, bool):
        return value
    found.append(FieldError(f"{where}masking", "must be true or false"))
    return None


def _properties(document: Mapping[str, Any], found: list[FieldError]) -> dict[str, Any] | None:
    """Unknown fields are properties, never dropped."""
    given = document.get("properties")
    if given is not None and not isinstance(given, dict):
        found.append(FieldError("properties", "must be an object"))
        return None
    unknown = {name: value for name, value in document.items() if name not in _KNOWN}
    return {**unknown, **(given or {})} or None


def _columns(value: object, found: list[FieldError]) -> list[Column]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > COLUMNS_LIMIT:
        found.append(
            FieldError("columns", f"must be a list of at most {COLUMNS_LIMIT} {{from, to}}")
        )
        return []
    made = []
    for index, each in enumerate(value):
        where = f"columns[{index}]"
        if not isinstance(each, dict):
            found.append(FieldError(where, "must be an object like {from, to, transformation}"))
            continue
        wrong: list[FieldError] = []
        texts = {name: _text(each, name, wrong) for name in ("from", "to", "transformation")}
        wrong += [FieldError(n, "must name a column") for n in ("from", "to") if not texts[n]]
        found += [FieldError(f"{where}.{e.field}", e.message) for e in wrong]
        masking = _masking(each, f"{where}.", found)
        made.append(
            Column(texts["from"] or "", texts["to"] or "", texts["transformation"], masking)
        )
    return made
