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


class Desk:
    """Where labels are written and shown."""

    def __init__(self, services: ServicesDep, edits: EditsDep, versions: Versions) -> None:
        self._database = services.core.database
        self._edits = edits
        self.labels = Labels(self._database, edits)
        self.versions = versions

    def shown(self, caller: Caller, id: str, kind: Kind) -> Response:
        with self._database.unit(caller.tenant) as unit:
            asset = views.find(unit, id)
            book = definitions.book(self._database, unit)
            found = tags.of(unit, asset, kind, self._edits.context(unit), book)
        shown: Mapping[str, Any] = msgspec.to_builtins(found)
        if kind == "term":
            given = [{"term": each.pop("tag"), **each} for each in shown["assignments"]]
            shown = {"effective": shown["effective"], "assignments": given}
        return json(shown, headers={"ETag": f'"{asset.version}"'})

    def assign(self, caller: Caller, id: str, kind: Kind, body: Validity) -> Response:
        who = who_of(caller)
        self.labels.assign(caller.tenant, id, kind, [_label(body)], who, self.versions)
        return self.shown(caller, id, kind)

    def replace(
        self, caller: Caller, id: str, kind: Kind, given: Sequence[str | Validity]
    ) -> Response:
        wanted = _labels(given, f"{kind}s")
        self.labels.replace(caller.tenant, id, kind, wanted, who_of(caller), self.versions)
        return self.shown(caller, id, kind)

    def withdraw(self, caller: Caller, id: str, kind: Kind, name: str, by: str | None) -> Response:
        if by is not None and by != caller.name and not caller.may("tags:manage"):
            raise Forbidden("What others said needs the right tags:manage, which you do not have.")
        self.labels.withdraw(caller.tenant, id, kind, name, by, who_of(caller), self.versions)
        return self.shown(caller, id, kind)

    def settle(self, caller: Caller, id: str, tag: str, accept: bool) -> Response:
        self.labels.settle(caller.tenant, id, [tag], accept, None, who_of(caller), self.versions)
        return self.shown(caller, id, "tag")


def labels_of(services: ServicesDep, edits: EditsDep) -> Labels:
    return Labels(services.core.database, edits)


LabelsDep = Annotated[Labels, Depends(labels_of)]
DeskDep = Annotated[Desk, Depends(Desk)]
Whose = Annotated[
    Loose | None, Query(description="Whose; for others' the right tags:manage is needed.")
]
_ETAG = {"ETag": {"description": "The version, quoted.", "schema": {"type": "string"}}}
TAGS: dict[int | str, dict[str, Any]] = {200: {"model": TagsShown, "headers": _ETAG}}
TERMS: dict[int | str, dict[str, Any]] = {200: {"model": TermsShown, "headers": _ETAG}}


@router.get("/{id}/tags", responses=TAGS, summary="Who gives an asset its tags, and why they show")
def read_tags(id: AssetKey, caller: Reader, desk: DeskDep) -> Response:
    """Of sources, persons, rules, by lineage with root and path, and from the containers."""
    return desk.shown(caller, id, "tag")


@router.post("/{id}/tags", responses=TAGS, summary="Tag an asset")
def add_tag(id: AssetKey, body: SaidTag, caller: Editor, desk: DeskDep) -> Response:
    """In the caller's name. It survives every crawl, and goes when the caller takes it off."""
    return desk.assign(caller, id, "tag", body)


@router.put("/{id}/tags", responses=TAGS, summary="Replace one's own tags of an asset")
def set_tags(
    id: AssetKey, body: OwnTags | list[Name | SaidTag], caller: Editor, desk: DeskDep
) -> Response:
    """What sources and other people say stays."""
    return desk.replace(caller, id, "tag", body.tags if isinstance(body, OwnTags) else body)


@router.delete("/{id}/tags/{tag}", responses=TAGS, summary="Take a tag off an asset")
def remove_tag(
    id: AssetKey, tag: Segment, caller: Editor, desk: DeskDep, by: Whose = None
) -> Response:
    """What people said, and suggestions that were accepted; of others 409 says who gives them."""
    return desk.withdraw(caller, id, "tag", tag, by)


@router.post("/{id}/tags/{tag}/resolve", responses=TAGS, summary="Choose between tags of a group")
def resolve(
    id: AssetKey, tag: Segment, body: Reason, caller: Manager, desk: DeskDep
) -> Response:  # fmt: skip
    """A steward's choice shows and protects from now on, until another tag of the group joins."""
    who = who_of(caller)
    desk.labels.resolve(caller.tenant, id, tag, body.reason, who, desk.versions)
    return desk.shown(caller, id, "tag")


@router.post("/{id}/tags/{tag}/accept", responses=TAGS, summary="Accept a suggested tag")
def accept(id: AssetKey, tag: Segment, caller: Editor, desk: DeskDep) -> Response:
    return desk.settle(caller, id, tag, True)


@router.post("/{id}/tags/{tag}/reject", responses=TAGS, summary="Reject a suggested tag")
def reject(id: AssetKey, tag: Segment, caller: Editor, desk: DeskDep) -> Response:
    """It will not be suggested again."""
    return desk.settle(caller, id, tag, False)


@router.get("/{id}/terms", responses=TERMS, summary="Who gives an asset its business terms")
def read_terms(id: AssetKey, caller: Reader, desk: DeskDep) -> Response:
    return desk.shown(caller, id, "term")


@router.post("/{id}/terms", responses=TERMS, summary="Give an asset a business term")
def add_term(id: AssetKey, body: SaidTerm, caller: Editor, desk: DeskDep) -> Response:
    return desk.assign(caller, id, "term", body)


@router.put("/{id}/terms", responses=TERMS, summary="Replace one's own terms of an asset")
def set_terms(
    id: AssetKey, body: OwnTerms | list[Name | SaidTerm], caller: Editor, desk: DeskDep
) -> Response:
    return desk.replace(caller, id, "term", body.terms if isinstance(body, OwnTerms) else body)


@router.delete("/{id}/terms/{term}", responses=TERMS, summary="Take a term off an asset")
def remove_term(
    id: AssetKey, term: Segment, caller: Editor, desk: DeskDep, by: Whose = None
) -> Response:
    return desk.withdraw(caller, id, "term", term, by)


def _label(body: Validity) -> Label:
    name = body.tag if isinstance(body, SaidTag) else getattr(body, "term", "")
    return Label(name, body.value, body.valid_from, body.valid_until)


def _labels(given: Sequence[str | Validity], field: str) -> list[Label]:
    made = [Label(each) if isinstance(each, str) else _label(each) for each in given]
    if len({label.tag for label in made}) != len(made):
        raise Invalid("names one twice; name each once", field)
    return made
