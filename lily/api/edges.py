"""Edges from HTTP: into the log, and back out once the pipeline has applied them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import msgspec
from starlette.concurrency import run_in_threadpool

from lily import telemetry
from lily.api.edge_documents import Stated, read
from lily.api.intake import Status, reached, refusal
from lily.assets.names import as_guid, candidates, guid_of
from lily.errors import FieldError, Forbidden, Invalid, TooLarge
from lily.events.envelope import Envelope
from lily.events.lineage import EdgeGone, EdgeSeen
from lily.lineage.edges import PERSON, Edge, name_of
from lily.lineage.labels import turned
from lily.log.postgres import Record, record_of
from lily.store import graph, rights
from lily.store.reads import Answer, Question
from lily.types import Caller
from lily.wiring import Hot, Services

MOST_AT_ONCE = 20_000  # edges in one request, columns counted


class EdgeOutcome(msgspec.Struct):
    """What became of one document: its edge, those of its columns, or why not."""

    status: Status
    edge_id: UUID | None = None
    cause: str = ""
    edge: Edge | None = None
    columns: list[Edge] = []
    column_ids: list[UUID] = []
    errors: list[FieldError] = []
    parent: str = ""  # of a containment: what now lies in what
    child: str = ""


class Sent(msgspec.Struct):
    """One edge on its way."""

    envelope: Envelope
    record: Record
    id: UUID

    @property
    def cause(self) -> str:
        return str(self.envelope.id)


class Made(msgspec.Struct):
    """One accepted document: the edges it becomes, the table edge first."""

    stated: Stated
    start: str
    end: str
    sent: list[Sent]
    is_edit: bool = False  # a person says what lies in what


async def submit(
    services: Services, caller: Caller, documents: Sequence[Any], *, wait: bool = True
) -> tuple[list[EdgeOutcome], list[Made]]:
    """Append all edges together, and tell what became of each document.

    A single invalid document raises; in a list it is an outcome of its own.
    """
    hot = await services.hot(caller.tenant.cell)
    stated = _read(services, caller, documents)
    names = {
        name
        for each in stated
        if isinstance(each, Stated)
        for name in (each.edge.from_name, each.edge.to_name)
    }
    known = await _names(hot, caller, names) if names else {}
    made = [
        _made(caller, each, known, index, len(documents) == 1) if isinstance(each, Stated) else each
        for index, each in enumerate(stated)
    ]
    items = [item for item in made if isinstance(item, Made)]
    if not items:
        raise Invalid([e for each in made if isinstance(each, EdgeOutcome) for e in each.errors])
    changed = {_downstream(item) for item in items if item.stated.source is None and item.sent}
    if changed:  # a person's word stands above what sources say
        await run_in_threadpool(rights.require, "WRITE", *sorted(changed))
    sent = [one for item in items for one in item.sent]
    if len(sent) > MOST_AT_ONCE:
        raise TooLarge(f"A request holds at most {MOST_AT_ONCE} edges, those of columns counted.")
    places = await hot.appender.append([one.record for one in sent]) if sent else []
    answer: Answer | None = None
    edges: dict[UUID, Edge] = {}
    if wait and await reached(hot, places, services.core.settings.wait_limit):
        number = caller.tenant.number
        answer = await hot.reads.ask(number, Question(causes=[one.cause for one in sent]))
        ids = [one.id for one in sent]
        edges = await hot.reads.run(number, partial(graph.by_ids, tenant=number, ids=ids))
    outcomes = [
        each if isinstance(each, EdgeOutcome) else _outcome(each, answer, edges) for each in made
    ]
    return outcomes, items


def _read(
    services: Services, caller: Caller, documents: Sequence[Any]
) -> list[Stated | EdgeOutcome]:
    now = services.core.clock.now()
    found: list[Stated | EdgeOutcome] = []
    for index, document in enumerate(documents):
        try:
            found.append(read(document, caller.tenant, now))
        except (Invalid, Forbidden) as wrong:
            if len(documents) == 1 or isinstance(wrong, Forbidden):
                raise
            found.append(_rejected(wrong.errors, index))
    return found


def _rejected(errors: Iterable[FieldError], index: int) -> EdgeOutcome:
    at = f"[{index}]"
    placed = [FieldError(f"{at}.{e.field}" if e.field else at, e.message) for e in errors]
    return EdgeOutcome("rejected", errors=placed)


async def _names(hot: Hot, caller: Caller, names: Iterable[str]) -> dict[str, str]:
    """Qualified names by what the caller calls the assets; those nobody has seen are left out."""
    wanted = {name: candidates(caller.tenant, name) for name in names}
    number = caller.tenant.number
    guids = [guid for each in wanted.values() for guid in each]
    answer = await hot.reads.ask(number, Question(guids, list(wanted)))
    assets = dict(answer.assets)
    aliased = [guid for guid in answer.aliases.values() if guid not in assets]
    if aliased:
        assets.update((await hot.reads.ask(number, Question(aliased))).assets)
    found: dict[str, str] = {}
    for name, guesses in wanted.items():
        alias = answer.aliases.get(name)
        for guid in [*guesses, *([alias] if alias else [])]:
            if guid in assets:
                found[name] = assets[guid].qualified_name
                break
    return found


def _made(
    caller: Caller, stated: Stated, known: Mapping[str, str], index: int, single: bool
) -> Made | EdgeOutcome:
    given = (
        ("from_asset_id", stated.edge.from_name),
        ("to_asset_id", stated.edge.to_name),
    )
    wrong = [
        FieldError(field, "is an id that no asset has; give its qualified name")
        for field, name in given
        if name not in known and as_guid(name) is not None
    ]
    if wrong:
        if single:
            raise Invalid(wrong)
        return _rejected(wrong, index)
    start, end = (known.get(name, name) for _, name in given)
    by_person = stated.source is None and caller.may("assets:edit")
    if stated.is_containment and by_person and given[1][1] in known:
        return Made(stated, start, end, [], is_edit=True)
    source = stated.source or ("default" if stated.is_containment else PERSON)
    sent = [_sent(caller, stated, source, edge) for edge in stated.edges(start, end)]
    return Made(stated, start, end, sent)


def _downstream(item: Made) -> str:
    """The asset whose lineage it is."""
    return turned(item.stated.edge.relationship_type, item.start, item.end)[1]


def _sent(caller: Caller, stated: Stated, source: str, edge: EdgeSeen | EdgeGone) -> Sent:
    envelope = Envelope(
        id=uuid4(), tenant=caller.tenant.number, source=source, by=caller.name, observation=edge,
        observed_at=stated.observed_at, request=telemetry.request_id.get(),
        traceparent=telemetry.traceparent.get(),
    )  # fmt: skip
    own = caller.tenant.id
    label = edge.relationship_type
    up, down = turned(label, guid_of(own, edge.from_name), guid_of(own, edge.to_name))
    id = guid_of(own, name_of(up, down, label))
    return Sent(envelope, record_of(envelope, edge.qualified_name), id)


def _outcome(item: Made, answer: Answer | None, edges: Mapping[UUID, Edge]) -> EdgeOutcome:
    if item.is_edit:
        return EdgeOutcome("updated", parent=item.start, child=item.end)
    first = item.sent[0]
    made = EdgeOutcome("accepted", first.id, first.cause)
    made.column_ids = [one.id for one in item.sent[1:]]
    if item.stated.is_containment:
        made.edge_id, made.parent, made.child = None, item.start, item.end
    if answer is None:
        return made
    dead = [answer.dead[one.cause] for one in item.sent if one.cause in answer.dead]
    if dead:
        made.status = "rejected"
        made.errors = [refusal(each.plugin, each.reason) for each in dead]
        return made
    changed = [
        edges[one.id] for one in item.sent if one.id in edges and edges[one.id].cause == one.cause
    ]
    made.edge = edges.get(first.id)
    made.columns = [edges[one.id] for one in item.sent[1:] if one.id in edges]
    if made.edge is not None and made.edge.cause == first.cause and made.edge.version == 1:
        made.status = "created"
    else:
        made.status = "updated" if changed or item.stated.is_containment else "unchanged"
    return made
