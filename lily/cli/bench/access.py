"""`lily bench access`: decisions in process and over HTTP, and how soon a revoke denies."""

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID, uuid4

from lily.access.model import Policy, Principal, Resource, Situation, Subject
from lily.cli.bench import cerbos, opa
from lily.cli.bench.load import Api, Tally, closed_loop, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report, percentile
from lily.store import policies
from lily.store.guard import Guard, Question
from lily.types import Tenant

PATH = "/api/v1/access/check"
USERS, SEED = 1_000, 7
BATCH = 1_000
CHUNK = 5_000


def measure(
    where: Place, grants: int, tagged: int, revokes: int, connections: int, seconds: float,
    with_opa: bool = False, with_cerbos: bool = False,
) -> Report:  # fmt: skip
    report = Report("access")
    tenant = where.known_tenant()
    guids = play(_assets(where, tagged))
    _grants(where, tenant, guids, grants)
    _in_process(where, tenant, guids, min(seconds, 20), report)
    rate, lags = play(_over_http(where, guids, revokes, connections, seconds))
    report.add("decisions over HTTP, 1,000 a request", rate.rate, "/s", 50_000, "more")
    report.latency("request of 1,000", rate.seconds)
    report.add("revoke to deny p50, under that load", percentile(lags, 0.5) * 1e3, "ms")
    report.add("revoke to deny p99, under that load", percentile(lags, 0.99) * 1e3, "ms", 2_000)
    report.notes += [f"{why}: {count} times" for why, count in rate.failures.items()]
    others = [opa.compare] * with_opa + [cerbos.compare] * with_cerbos
    if others:
        given: dict[str, list[str]] = {}
        for user, guid in _pairs(guids, grants):
            given.setdefault(f"user{user}", []).append(str(guid))
        for compare in others:
            compare(given, _questions(guids), connections, seconds, report)
    report.notes.append(f"{grants} grants on {tagged} tagged assets, {USERS} users")
    return report


async def _assets(where: Place, count: int) -> list[UUID]:
    """Tagged columns, ten to a table, three levels deep."""
    tail, guids = uuid4().hex[:8], []
    async with Api(where, 4) as api:
        for start in range(0, count, 900):
            numbers = range(start, min(start + 900, count))
            tables = {number // 10 for number in numbers}
            said = [
                {"qualified_name": f"bench://{tail}/db.s.t{n}", "asset_type": "table"}
                for n in tables
            ] + [
                {"qualified_name": f"bench://{tail}/db.s.t{n // 10}#c{n}", "asset_type": "column",
                 "tags": ["PII"]}
                for n in numbers
            ]  # fmt: skip
            answer = await api.post("/api/v1/metadata", json.dumps(said).encode())
            if answer.status != 200:
                raise RuntimeError(f"POST answered {answer.status}: {answer.body[:200]!r}")
            items = answer.document["items"]
            guids += [UUID(item["guid"]) for item in items[len(tables) :]]
    return guids


def _grants(where: Place, tenant: Tenant, guids: Sequence[UUID], count: int) -> None:
    """Each lets one user write one asset: nothing but a grant does."""
    pairs = _pairs(guids, count)
    with where.core("lily_app") as core:
        for start in range(0, count, CHUNK):
            now = core.clock.now()
            made = [_grant(*next(pairs)) for _ in range(start, min(start + CHUNK, count))]
            with core.database.unit(tenant) as unit:
                policies.create_many(unit, made, "bench", now)


def _pairs(guids: Sequence[UUID], count: int) -> Iterator[tuple[int, UUID]]:
    """Who may write what; the same each time."""
    dice = random.Random(SEED)
    return ((dice.randrange(USERS), dice.choice(guids)) for _ in range(count))


def _questions(guids: Sequence[UUID]) -> list[tuple[str, list[str]]]:
    dice = random.Random(SEED)
    return [
        (f"user{dice.randrange(USERS)}", [str(dice.choice(guids)) for _ in range(BATCH)])
        for _ in range(50)
    ]


def _grant(user: int, guid: UUID) -> Policy:
    return Policy(
        id=uuid4(), name="grant", effect="allow", action="WRITE",
        subjects=(Subject("user", f"user{user}"),), resource=Resource("asset", str(guid)),
    )  # fmt: skip


def _in_process(
    where: Place, tenant: Tenant, guids: Sequence[UUID], seconds: float, report: Report
) -> None:
    dice = random.Random(SEED)
    with where.core("lily_app") as core:
        guard = Guard(core.database)
        began = time.perf_counter()
        guard.confirmed(tenant)
        report.add("policies loaded into a process", time.perf_counter() - began, "s")
        people = [Principal(f"user{n}") for n in range(USERS)]
        batches = [
            [Question(dice.choice(people), dice.choice(("READ", "WRITE")), dice.choice(guids))
             for _ in range(BATCH)]
            for _ in range(100)
        ]  # fmt: skip
        known = [Question(people[0], "READ", guid) for guid in guids]
        guard.check(tenant, known, Situation(core.clock.now()))
        fresh = _rate(guard, tenant, batches, core.clock.now(), 0)
        report.add("decisions in process, the rules of each asset gathered on the way", fresh, "/s")
        again = _rate(guard, tenant, batches, core.clock.now(), seconds)
        report.add("decisions in process, by gathered rules", again, "/s", 200_000, "more")


def _rate(
    guard: Guard,
    tenant: Tenant,
    batches: Sequence[Sequence[Question]],
    now: datetime,
    seconds: float,
) -> float:
    """Until the time is over, and at least once through."""
    began, done, situation = time.perf_counter(), 0, Situation(now)
    while True:
        for batch in batches:
            guard.check(tenant, batch, situation)
            done += len(batch)
        spent = time.perf_counter() - began
        if spent >= seconds:
            return done / spent


async def _over_http(
    where: Place, guids: Sequence[UUID], revokes: int, connections: int, seconds: float
) -> tuple[Tally, list[float]]:
    tally = Tally()
    bodies = [
        json.dumps({"principal": user, "action": "WRITE", "assets": assets}).encode()
        for user, assets in _questions(guids)
    ]
    async with Api(where, connections) as api, Api(where, 4) as other:

        async def once(number: int) -> None:
            answer = await api.post(PATH, bodies[number % len(bodies)])
            if answer.status == 200:
                tally.seconds.append(answer.seconds)
                tally.items += BATCH
            else:
                tally.fail(f"check answered {answer.status}")

        watch = asyncio.create_task(_revoked(other, guids, revokes))
        tally.began, tally.ended = await closed_loop(connections, seconds, once)
        return tally, await watch


async def _revoked(api: Api, guids: Sequence[UUID], count: int) -> list[float]:
    """Give somebody a right, take it back, and ask until it is denied."""
    lags = []
    for number in range(count):
        asset, user = str(guids[number % len(guids)]), f"leaver{number}"
        grant = {"asset_id": asset, "user_id": user, "access_type": "WRITE"}
        made = await api.post("/api/v1/metadata/access-control", json.dumps(grant).encode())
        question = json.dumps({"principal": user, "action": "WRITE", "asset": asset}).encode()
        await _until(api, question, "allow")
        began = time.perf_counter()
        await api.call("DELETE", f"/api/v1/policies/{made.document['policy_id']}")
        await _until(api, question, "deny")
        lags.append(time.perf_counter() - began)
    return lags


async def _until(api: Api, question: bytes, wanted: str) -> None:
    while (await api.post(PATH, question)).document["decision"] != wanted:
        await asyncio.sleep(0.005)
