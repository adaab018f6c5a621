"""Tags and terms of an asset: who says what, and why it shows."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime, BaseModel, Field, StringConstraints
from starlette.responses import Response

from lily.api.deps import AssetKey, Segment, ServicesDep, requires
from lily.api.fields import Loose, Request, example
from lily.api.rest.assets import Editor, EditsDep, Reader, Versions, json, who_of
from lily.assets.labels import Label
from lily.errors import Forbidden, Invalid
from lily.store import definitions, tags, views
from lily.store.edits import Edits
from lily.store.labels import Labels
from lily.tags.definitions import Kind
from lily.types import Caller

router = APIRouter(prefix="/api/v1/metadata", tags=["tags"])

Manager = Annotated[Caller, requires("tags:manage")]
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00]*\S[^\x00]*$")
]
Value = Annotated[str, StringConstraints(max_length=1000, pattern=r"^[^\x00]*$")]
# What a database and a calendar can hold in every time zone.
Moment = Annotated[
    AwareDatetime, Field(ge=datetime(1970, 1, 2, tzinfo=UTC), le=datetime(9999, 1, 1, tzinfo=UTC))
]
SAID: dict[str, Any] = {"value": "customer names", "valid_until": "2027-01-01T00:00:00Z"}


class Validity(Request):
    value: Value = ""
    valid_from: Moment | None = Field(None, description="Begins then, if that is to come.")
    valid_until: Moment | None = Field(None, description="Ends then, by itself.")


class SaidTag(Validity):
    model_config = example({"tag": "PII", **SAID})

    tag: Name


class SaidTerm(Validity):
    model_config = example({"term": "churn", **SAID})

    term: Name


class OwnTags(Request):
    model_config = example({"tags": ["PII", {"tag": "gold", "value": "2026"}]})

    tags: list[Name | SaidTag] = Field(max_length=1000)


class OwnTerms(Request):
    model_config = example({"terms": ["churn"]})

    terms: list[Name | SaidTerm] = Field(max_length=1000)


class Reason(Request):
    model_config = example({"reason": "Names of customers."})

    reason: Loose = ""


class GivenShown(BaseModel):
    origin: str
    by: str
    at: datetime | None
    value: str
    state: str
    reason: str
    valid_from: datetime | None
    valid_until: datetime | None
    root: UUID | None
    depth: int | None
    path: list[UUID] | None
    effective: bool
    why: str


class TagGiven(GivenShown):
    tag: str


class TermGiven(GivenShown):
    term: str


class ConflictShown(BaseModel):
    group: str
    tags: list[str]
    shown: str | None


class TagsShown(BaseModel):
    """`effective` is what shows, `protective` what protects until conflicts are resolved."""

    effective: list[str]
    protective: list[str]
    conflicts: list[ConflictShown]
    assignments: list[TagGiven]


class TermsShown(BaseModel):
    effective: list[str]
    assignments: list[TermGiven]


def labels_of(services: ServicesDep, edits: EditsDep) -> Labels:
    return Labels(services.core.database, edits)


LabelsDep = Annotated[Labels, Depends(labels_of)]
_ETAG = {"ETag": {"description": "The version, quoted.", "schema": {"type": "string"}}}
TAGS: dict[int | str, dict[str, Any]] = {200: {"model": TagsShown, "headers": _ETAG}}
TERMS: dict[int | str, dict[str, Any]] = {200: {"model": TermsShown, "headers": _ETAG}}


@router.get("/{id}/tags", responses=TAGS, summary="Who gives an asset its tags, and why they show")
def read_tags(id: AssetKey, caller: Reader, services: ServicesDep, edits: EditsDep) -> Response:
    """Of sources, persons, rules, by lineage with root and path, and from the containers."""
    return _shown(services, caller, edits, id, "tag")


@router.post("/{id}/tags", responses=TAGS, summary="Tag an asset")
def add_tag(
    id: AssetKey, body: SaidTag, caller: Editor, services: ServicesDep, edits: EditsDep,
    labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    """In the caller's name. It survives every crawl, and goes when the caller takes it off."""
    labels.assign(caller.tenant, id, "tag", [_label(body)], who_of(caller), versions)
    return _shown(services, caller, edits, id, "tag")


@router.put("/{id}/tags", responses=TAGS, summary="Replace one's own tags of an asset")
def set_tags(
    id: AssetKey, body: OwnTags | list[Name | SaidTag], caller: Editor, services: ServicesDep,
    edits: EditsDep, labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    """What sources and other people say stays."""
    wanted = _labels(body.tags if isinstance(body, OwnTags) else body, "tags")
    labels.replace(caller.tenant, id, "tag", wanted, who_of(caller), versions)
    return _shown(services, caller, edits, id, "tag")


@router.delete("/{id}/tags/{tag}", responses=TAGS, summary="Take a tag off an asset")
def remove_tag(
    id: AssetKey, tag: Segment, caller: Editor, services: ServicesDep, edits: EditsDep,
    labels: LabelsDep, versions: Versions,
    by: Annotated[
        Loose | None, Query(description="Whose; needs the right tags:manage for others'.")
    ] = None,
) -> Response:  # fmt: skip
    """What people said, and suggestions that were accepted; of others 409 says who gives them."""
    _own_or_manager(caller, by)
    labels.withdraw(caller.tenant, id, "tag", tag, by, who_of(caller), versions)
    return _shown(services, caller, edits, id, "tag")


@router.post("/{id}/tags/{tag}/resolve", responses=TAGS, summary="Choose between tags of a group")
def resolve(
    id: AssetKey, tag: Segment, body: Reason, caller: Manager, services: ServicesDep,
    edits: EditsDep, labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    """A steward's choice shows and protects from now on, until another tag of the group joins."""
    labels.resolve(caller.tenant, id, tag, body.reason, who_of(caller), versions)
    return _shown(services, caller, edits, id, "tag")


@router.post("/{id}/tags/{tag}/accept", responses=TAGS, summary="Accept a suggested tag")
def accept(
    id: AssetKey, tag: Segment, caller: Editor, services: ServicesDep, edits: EditsDep,
    labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    labels.settle(caller.tenant, id, [tag], True, None, who_of(caller), versions)
    return _shown(services, caller, edits, id, "tag")


@router.post("/{id}/tags/{tag}/reject", responses=TAGS, summary="Reject a suggested tag")
def reject(
    id: AssetKey, tag: Segment, caller: Editor, services: ServicesDep, edits: EditsDep,
    labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    """It will not be suggested again."""
    labels.settle(caller.tenant, id, [tag], False, None, who_of(caller), versions)
    return _shown(services, caller, edits, id, "tag")


@router.get("/{id}/terms", responses=TERMS, summary="Who gives an asset its business terms")
def read_terms(id: AssetKey, caller: Reader, services: ServicesDep, edits: EditsDep) -> Response:
    return _shown(services, caller, edits, id, "term")


@router.post("/{id}/terms", responses=TERMS, summary="Give an asset a business term")
def add_term(
    id: AssetKey, body: SaidTerm, caller: Editor, services: ServicesDep, edits: EditsDep,
    labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    labels.assign(caller.tenant, id, "term", [_label(body)], who_of(caller), versions)
    return _shown(services, caller, edits, id, "term")


@router.put("/{id}/terms", responses=TERMS, summary="Replace one's own terms of an asset")
def set_terms(
    id: AssetKey, body: OwnTerms | list[Name | SaidTerm], caller: Editor, services: ServicesDep,
    edits: EditsDep, labels: LabelsDep, versions: Versions,
) -> Response:  # fmt: skip
    wanted = _labels(body.terms if isinstance(body, OwnTerms) else body, "terms")
    labels.replace(caller.tenant, id, "term", wanted, who_of(caller), versions)
    return _shown(services, caller, edits, id, "term")


@router.delete("/{id}/terms/{term}", responses=TERMS, summary="Take a term off an asset")
def remove_term(
    id: AssetKey, term: Segment, caller: Editor, services: ServicesDep, edits: EditsDep,
    labels: LabelsDep, versions: Versions,
    by: Annotated[
        Loose | None, Query(description="Whose; needs the right tags:manage for others'.")
    ] = None,
) -> Response:  # fmt: skip
    _own_or_manager(caller, by)
    labels.withdraw(caller.tenant, id, "term", term, by, who_of(caller), versions)
    return _shown(services, caller, edits, id, "term")


def _label(body: Validity) -> Label:
    name = body.tag if isinstance(body, SaidTag) else getattr(body, "term", "")
    return Label(name, body.value, body.valid_from, body.valid_until)


def _labels(given: Sequence[str | Validity], field: str) -> list[Label]:
    made = [Label(each) if isinstance(each, str) else _label(each) for each in given]
    if len({label.tag for label in made}) != len(made):
        raise Invalid("names one twice; name each once", field)
    return made


def _own_or_manager(caller: Caller, by: str | None) -> None:
    if by is not None and by != caller.name and not caller.may("tags:manage"):
        raise Forbidden("What others said needs the right tags:manage, which you do not have.")


def _shown(
    services: ServicesDep, caller: Caller, edits: Edits, id: str, kind: Kind
) -> Response:  # fmt: skip
    database = services.core.database
    with database.unit(caller.tenant) as unit:
        asset = views.find(unit, id)
        book = definitions.book(database, unit)
        found = tags.of(unit, asset, kind, edits.context(unit), book)
    shown: Mapping[str, Any] = msgspec.to_builtins(found)
    if kind == "term":
        given = [{"term": each.pop("tag"), **each} for each in shown["assignments"]]
        shown = {"effective": shown["effective"], "assignments": given}
    return json(shown, headers={"ETag": f'"{asset.version}"'})
