"""Relays every tenant's facts to Kafka, in order, at least once, where Kafka is the log."""

from threading import Event
from typing import Any

import msgspec

from lily import wiring
from lily.errors import Unavailable
from lily.events.chain import Link
from lily.log.kafka import Kafka
from lily.log.kafka_writer import Headers, KafkaWriter
from lily.store import consumers, feed
from lily.store.database import Unit
from lily.telemetry import logger
from lily.types import Tenant
from lily.wiring import Core

NAME = "kafka"
HEADERS: Headers = [("content-type", "application/cloudevents+json")]
PAGE = 1_000
PAUSE = 0.2
PATIENCE = 30.0  # then the page is given up, and sent again from its beginning

_encode = msgspec.json.Encoder().encode


def run(core: Core, stop: Event) -> None:
    """Ends at once where the log is not Kafka."""
    kafka = wiring.kafka(core.settings)
    if kafka is None:
        return
    relay = Relay(core, kafka, stop)
    try:
        while not stop.is_set():
            try:
                relay.work()
            except Unavailable as cause:
                logger(__name__).warning("facts wait", reason=str(cause))
            stop.wait(PAUSE)
    finally:
        relay.close()


class Relay:
    """Follows the feeds; a position moves once Kafka has everything up to it."""

    def __init__(self, core: Core, kafka: Kafka, stop: Event, name: str = NAME) -> None:
        self._core = core
        self._name = name
        self._topic = kafka.facts
        self._stop = stop
        # What waits is never dropped one by one: that would change the order.
        self._writer = KafkaWriter(kafka, lambda _, __: "", patience=None)

    def work(self) -> int:
        """Every feed to its end; tenants take turns, a page each. Returns how many facts."""
        tenants = self._core.database.tenants()
        sent = 0

        def follow(cell: str) -> None:
            nonlocal sent
            busy = [tenant for tenant in tenants if tenant.cell == cell]
            busy = consumers.behind(self._core.database, self._name, cell, busy) if busy else []
            while busy and not self._stop.is_set():
                counts = {tenant.number: self._page(tenant) for tenant in busy}
                sent += sum(counts.values())
                busy = [tenant for tenant in busy if counts[tenant.number] == PAGE]

        self._core.database.each_cell(follow)
        return sent

    def close(self) -> None:
        self._writer.close()

    def _page(self, tenant: Tenant) -> int:
        with self._core.database.cell(tenant.cell, [tenant.number]) as conn:
            position = consumers.claim(conn, self._name, tenant)
            if position is None:  # another worker is at it
                return 0
            links = feed.after(Unit(conn, tenant), position, PAGE)
            if links:
                records = [(_key(tenant, each), event(tenant, each), HEADERS) for each in links]
                self._writer.tell(self._topic, records, PATIENCE)
                consumers.move(conn, self._name, tenant, links[-1].position)
        return len(links)


def event(tenant: Tenant, link: Link) -> bytes:
    """As a CloudEvent. The same fact has the same `id`, however often it is sent."""
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": f"{tenant.id}/{link.position}",
        "source": f"/lily/{tenant.name}",
        "type": f"io.lily.{link.kind}",
        "time": link.at,
        "datacontenttype": "application/json",
        "lilyposition": str(link.position),
        "lilycause": link.cause,
        "data": msgspec.Raw(link.payload.encode()) if link.payload else None,
    }
    if link.guid is not None:
        document["subject"] = str(link.guid)
    return _encode(document)


def _key(tenant: Tenant, link: Link) -> bytes:
    """Facts of one asset stay in order: they share a partition, as do those of no asset."""
    return str(link.guid or tenant.id).encode()
