"""Writers at work while something breaks, and what became of all that they were promised."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock

import httpx
import msgspec

from lily.store import feed, raw
from lily.wiring import Core
from tests.flow.people import Person
from tests.waiting import until

WRITERS = 4
PATIENCE = 90.0


class Written(msgspec.Struct):
    """Names that were acknowledged; and how others were refused, after how many seconds."""

    acknowledged: list[str] = []
    refused: list[tuple[int, str | None, float]] = []

    def grows(self) -> None:
        """Until each writer has got on by some."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) > before + 3 * WRITERS, PATIENCE)


@contextmanager
def writing(person: Person, **headers: str) -> Iterator[Written]:
    """New assets, one after the other in each writer, while the block runs."""
    written = Written()
    stop, lock = Event(), Lock()

    def write(lane: int) -> None:
        number = 0
        sent = {**person.headers, **headers}
        with httpx.Client(base_url=person.client.base_url, timeout=60, trust_env=False) as client:
            while not stop.is_set():
                name, began = f"db/{lane}/t{number}", time.monotonic()
                body = {"qualified_name": name}
                answer = client.post("/api/v1/metadata", json=body, headers=sent)
                with lock:
                    if answer.status_code < 300:
                        written.acknowledged.append(name)
                    else:
                        after = answer.headers.get("retry-after")
                        told = (answer.status_code, after, time.monotonic() - began)
                        written.refused.append(told)
                number += 1

    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(write, lane) for lane in range(WRITERS)]
        try:
            written.grows()
            yield written
        finally:
            stop.set()
        for each in writers:
            each.result()


def is_whole(core: Core, person: Person, written: Written) -> None:
    """What was promised is there, each told of once, in a chain without a break."""
    until(
        lambda: all(_is_there(person, name) for name in written.acknowledged[-WRITERS:]), PATIENCE
    )
    assert [name for name in written.acknowledged if not _is_there(person, name)] == []
    with core.database.unit(person.tenant) as unit:
        assert raw.doubled(unit) == []
        assert feed.check(unit) is None


def _is_there(person: Person, name: str) -> bool:
    path = f"/api/v1/metadata/{name.replace('/', '%2F')}"
    return person.client.get(path, headers=person.headers).status_code == 200
