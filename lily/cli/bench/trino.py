"""From a tag to what Trino is answered: its plug-in's question at a statement, asked again.

What Trino itself needs for a statement comes on top; `make test-scale` shows it on a real one.
"""

import asyncio
import json
import time
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from lily.cli.bench.load import Api, play
from lily.cli.bench.place import Place
from lily.cli.bench.report import Report

PLACE = "postgres://bench:5432/trino"
GIVE_UP = 30.0


def measure(where: Place, rounds: int, report: Report) -> None:
    masked, clear, answered = play(_measured(where, rounds))
    report.latency("tag → Trino is told to mask", masked, p95=1000)
    report.latency("untag → Trino is told nothing", clear)
    report.latency("one question of Trino's", answered)


async def _measured(where: Place, rounds: int) -> tuple[list[float], list[float], list[float]]:
    table, masked, clear = f"t{uuid4().hex[:8]}", [], []
    column = f"{PLACE}.public.{table}#email"
    async with Api(where, 4) as api:
        address = await _connected(api, table)
        ask = _Question(api, address, table)
        tags = f"/api/v1/metadata/{quote(column, safe='')}/tags"
        for _ in range(rounds):
            began = time.perf_counter()
            await _done(api, "POST", tags, {"tag": "PII"})
            await ask.until(True)
            masked.append(time.perf_counter() - began)
            began = time.perf_counter()
            await _done(api, "DELETE", f"{tags}/PII")
            await ask.until(False)
            clear.append(time.perf_counter() - began)
    return masked, clear, ask.seconds


async def _connected(api: Api, table: str) -> str:
    """The address that Trino would be given; the table is known to Lily then."""
    name = f"{PLACE}.public.{table}"
    assets = [{"qualified_name": name, "asset_type": "table"},
              {"qualified_name": f"{name}#email", "asset_type": "column",
               "metadata": {"data_type": "text"}}]  # fmt: skip
    await _done(api, "POST", "/api/v1/metadata", assets)
    options = {"catalogs": {"pg": PLACE}}
    body = {"name": table, "plugin": "trino", "uses": ["engine"], "options": options}
    made = await _done(api, "POST", "/api/v1/connections", body)
    return "/engine/" + str(made["webhook_url"]).partition("/engine/")[2]


async def _done(api: Api, method: str, path: str, body: Any = None) -> Any:
    answer = await api.call(method, path, json.dumps(body).encode() if body is not None else None)
    if answer.status not in (200, 201):
        raise RuntimeError(f"{method} {path} answered {answer.status}: {answer.body[:200]!r}")
    return answer.document


class _Question:
    """Which columns of a table are masked for somebody."""

    def __init__(self, api: Api, address: str, table: str) -> None:
        self._api, self._path = api, f"{address}/batchColumnMasks"
        column = {"catalogName": "pg", "schemaName": "public", "tableName": table,
                  "columnName": "email", "columnType": "varchar"}  # fmt: skip
        action = {"operation": "GetColumnMask", "filterResources": [{"column": column}]}
        context = {"identity": {"user": "analyst", "groups": []}}
        self._body = json.dumps({"input": {"context": context, "action": action}}).encode()
        self.seconds: list[float] = []

    async def until(self, masked: bool) -> None:
        async with asyncio.timeout(GIVE_UP):
            while True:
                answer = await self._api.post(self._path, self._body)
                self.seconds.append(answer.seconds)
                if answer.status == 200 and bool(answer.document["result"]) == masked:
                    return
                await asyncio.sleep(0.005)
