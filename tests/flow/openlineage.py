"""Events of OpenLineage through log and merge, without Spark; and what became of them."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import msgspec

from lily.events.envelope import Envelope
from lily.lineage import openlineage
from lily.log import postgres as log
from lily.store import runs
from lily.types import Tenant
from lily.wiring import Core
from tests.flow.corridor import Corridor

FIXTURES = Path(__file__).parent.parent / "fixtures"
SERVER = "postgres://db:5432"
RUN = "01a1de6d-0000-7000-8000-00000000000"

Edge = tuple[str, str, str]


def recorded(name: str) -> list[dict[str, Any]]:
    """Events that a real client sent."""
    lines = (FIXTURES / f"openlineage_{name}.jsonl").read_text().splitlines()
    return [msgspec.json.decode(line) for line in lines]


def dataset(name: str, **facets: Any) -> dict[str, Any]:
    return {"namespace": SERVER, "name": name, "facets": facets}


def run_event(
    kind: str,
    second: int,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    run: int = 1,
    job: str = "etl",
    **facets: Any,
) -> dict[str, Any]:
    """An event of a run, so many seconds into the test's day."""
    return {
        "eventType": kind,
        "eventTime": f"2026-01-31T12:{second // 60:02}:{second % 60:02}Z",
        "run": {"runId": f"{RUN}{run}", "facets": facets},
        "job": {"namespace": "airflow", "name": job},
        "inputs": [dataset(each) if isinstance(each, str) else each for each in inputs],
        "outputs": [dataset(each) if isinstance(each, str) else each for each in outputs],
        "producer": "https://example.com",
    }


def columns(**made: Sequence[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """A columnLineage facet: column = [(table, field, transformation)]."""
    return {
        "fields": {
            name: {
                "inputFields": [
                    {
                        "namespace": SERVER,
                        "name": table,
                        "field": field,
                        "transformations": [how] if how else [],
                    }
                    for table, field, how in of
                ]
            }
            for name, of in made.items()
        }
    }


class Told:
    """A tenant to whom events are told."""

    def __init__(self, core: Core, corridor: Corridor, tenant: Tenant) -> None:
        self.core = core
        self.corridor = corridor
        self.tenant = tenant

    def tell(self, *events: Any, together: bool = False) -> None:
        """One event after the other, or all in one batch."""
        for event in events:
            self._append(event)
            if not together:
                self.corridor.run()
        self.corridor.run()

    def edges(self) -> dict[Edge, tuple[Any, ...]]:
        """The graph: (from, to, type) → (transformation, masking); implied edges too."""
        with self.core.database.unit(self.tenant) as unit:
            rows = unit.conn.execute(
                "SELECT u.qualified_name, d.qualified_name, l.type, l.transformation, l.masking"
                " FROM live_edge l"
                " JOIN asset u ON u.tenant = l.tenant AND u.guid = l.upstream"
                " JOIN asset d ON d.tenant = l.tenant AND d.guid = l.downstream"
                " WHERE l.tenant = %s",
                [self.tenant.number],
            ).fetchall()
        return {(one, other, kind): (how, masked) for one, other, kind, how, masked in rows}

    def assets(self) -> dict[str, tuple[Any, ...]]:
        """Name → (type, tags, description) of what is there."""
        with self.core.database.unit(self.tenant) as unit:
            rows = unit.conn.execute(
                "SELECT qualified_name, asset_type, tags, description FROM asset"
                " WHERE tenant = %s AND deleted_by IS NULL",
                [self.tenant.number],
            ).fetchall()
        return {name: tuple(rest) for name, *rest in rows}

    def datasets(self) -> set[str]:
        return {name for name in self.assets() if not name.startswith("job:") and "#" not in name}

    def run(self, number: int = 1) -> runs.Run:
        with self.core.database.unit(self.tenant) as unit:
            return runs.get(unit, UUID(f"{RUN}{number}"))

    def _append(self, event: Any) -> None:
        said = openlineage.statements(deepcopy(event), self.core.clock.now())
        envelopes = [
            Envelope(
                id=uuid4(), tenant=self.tenant.number, source=each.source, by="test",
                observation=each.seen, observed_at=each.at,
            )
            for each in said
        ]  # fmt: skip
        with self.core.database.unit(self.tenant) as unit:
            log.append_in(unit.conn, envelopes, [each.seen.qualified_name for each in said])
