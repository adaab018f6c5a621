"""Facts become notices, and notices become deliveries, each once."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

import msgspec
from msgspec import structs

from lily.notify.match import Subject
from lily.sdk.targets import Notice
from lily.store.database import Unit
from lily.types import Tenant

INSERT_NOTICE = """
INSERT INTO notice (tenant, id, subscription, position, recipient, kind, key, guid, content, at)
SELECT %s, n.id, n.subscription, n.position, n.recipient, n.kind, n.key, n.guid, n.content::json,
       n.at
  FROM unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::uuid[],
              %s::text[], %s::timestamptz[])
       AS n(id, subscription, position, recipient, kind, key, guid, content, at)
ON CONFLICT DO NOTHING
"""
INSERT_DELIVERY = """
INSERT INTO delivery
  (tenant, id, notice, subscription, connection, notification_id, thread, state, reason, due_at,
   created_at)
SELECT %(tenant)s, d.id, d.id, d.subscription, d.connection, d.name, d.thread,
       CASE d.dead WHEN '' THEN 'waiting' ELSE 'dead' END, d.dead, %(now)s, %(now)s
  FROM unnest(%(ids)s::uuid[], %(subscriptions)s::uuid[], %(connections)s::uuid[],
              %(names)s::text[], %(threads)s::text[], %(dead)s::text[])
       AS d(id, subscription, connection, name, thread, dead)
ON CONFLICT DO NOTHING
"""
SUBJECTS = """
SELECT guid, coalesce(caller_id, guid::text), qualified_name, asset_name, asset_type,
       coalesce(asset_owner, ''), tags
  FROM asset WHERE tenant = %s AND guid = ANY(%s)
"""
# Containers around assets; the depth ends a parent that is its own grandparent.
AROUND = """
WITH RECURSIVE up(guid, container, depth) AS (
  SELECT a.guid, a.parent, 1 FROM asset a
   WHERE a.tenant = %(tenant)s AND a.guid = ANY(%(guids)s) AND a.parent IS NOT NULL
  UNION
  SELECT up.guid, a.parent, up.depth + 1 FROM up JOIN asset a
      ON a.tenant = %(tenant)s AND a.guid = up.container
   WHERE a.parent IS NOT NULL AND up.depth < 16)
SELECT guid, array_agg(DISTINCT container) FROM up GROUP BY guid
"""
DOWNSTREAM = """
WITH RECURSIVE down(guid, depth) AS (
  SELECT %(root)s::uuid, 0
  UNION
  SELECT e.downstream, d.depth + 1 FROM down d
   CROSS JOIN LATERAL (SELECT l.downstream FROM live_edge l
     WHERE l.tenant = %(tenant)s AND l.upstream = d.guid OFFSET 0) e
   WHERE d.depth < %(depth)s)
SELECT DISTINCT guid FROM down WHERE depth > 0 LIMIT %(most)s
"""
MOST_DOWNSTREAM = 10_000

_encode = msgspec.json.Encoder().encode


class Made(msgspec.Struct, frozen=True):
    """A notice to be stored; with a connection it is delivered there."""

    notice: Notice
    guid: UUID | None
    position: int = 0
    subscription: UUID | None = None
    recipient: str = ""
    connection: UUID | None = None
    notification_id: str = ""
    threads: bool = False
    dead: str = ""  # why it cannot even be tried


def id_of(tenant: Tenant, subscription: UUID, position: int) -> UUID:
    """The id of a subscription's notice and delivery of a fact: read again it is the same."""
    return uuid5(tenant.id, f"notice:{subscription}:{position}")


def store(unit: Unit, made: Sequence[Made], now: datetime) -> None:
    """All that is new of them."""
    told = [each.notice for each in made]
    unit.conn.execute(
        INSERT_NOTICE,
        [
            unit.tenant.number,
            [UUID(notice.id) for notice in told],
            [each.subscription for each in made],
            [each.position for each in made],
            [each.recipient for each in made],
            [notice.kind for notice in told],
            [notice.key for notice in told],
            [each.guid for each in made],
            [_content(notice) for notice in told],
            [notice.at for notice in told],
        ],
    )
    if sent := [each for each in made if each.connection is not None]:
        unit.conn.execute(INSERT_DELIVERY, _deliveries(unit.tenant.number, sent, now))


def subjects(unit: Unit, guids: Collection[UUID], around: bool) -> dict[UUID, Subject]:
    """The assets as they are now; `around` asks for their containers too."""
    number, wanted = unit.tenant.number, list(guids)
    within: dict[UUID, frozenset[UUID]] = {}
    if around:
        rows = unit.conn.execute(AROUND, {"tenant": number, "guids": wanted}).fetchall()
        within = {guid: frozenset(containers) for guid, containers in rows}
    rows = unit.conn.execute(SUBJECTS, [number, wanted]).fetchall()
    found = [Subject(*row) for row in rows]
    return {
        each.guid: structs.replace(each, within=within.get(each.guid, frozenset()))
        for each in found
    }


def downstream(unit: Unit, root: UUID, depth: int) -> frozenset[UUID]:
    """What lies downstream of an asset, so many steps away at most."""
    values = {
        "tenant": unit.tenant.number, "root": root, "depth": depth, "most": MOST_DOWNSTREAM,
    }  # fmt: skip
    return frozenset(guid for (guid,) in unit.conn.execute(DOWNSTREAM, values).fetchall())


def owners(unit: Unit, guids: Collection[UUID]) -> list[str]:
    """The names of those who own one of these assets."""
    names = unit.conn.execute(
        "SELECT DISTINCT asset_owner FROM asset WHERE tenant = %s AND guid = ANY(%s)"
        " AND asset_owner IS NOT NULL ORDER BY asset_owner",
        [unit.tenant.number, list(guids)],
    ).fetchall()
    return [name for (name,) in names]


def muted(unit: Unit, now: datetime) -> set[tuple[str, str]]:
    """Who does not want to hear of what."""
    rows = unit.conn.execute(
        "SELECT recipient, about FROM notice_mute WHERE tenant = %s AND until > %s",
        [unit.tenant.number, now],
    ).fetchall()
    return {(recipient, about) for recipient, about in rows}


def _content(notice: Notice) -> str:
    """A NUL, which no column can hold, is left out."""
    return _encode(notice).decode().replace("\\u0000", "")


def _deliveries(number: int, sent: Sequence[Made], now: datetime) -> dict[str, Any]:
    return {
        "tenant": number,
        "now": now,
        "ids": [UUID(each.notice.id) for each in sent],
        "subscriptions": [each.subscription for each in sent],
        "connections": [each.connection for each in sent],
        "names": [each.notification_id or None for each in sent],
        "threads": [each.notice.key if each.threads else None for each in sent],
        "dead": [each.dead for each in sent],
    }
