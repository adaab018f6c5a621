"""The lake follows a running Lily by itself: the stage lives in the Spark application."""

import time
from typing import Any

from lily import wiring
from lily.lake import read
from tests.flow.people import Person
from tests.live import Live

BEHIND = 60.0


def test_what_is_observed_is_in_the_lake_within_a_minute(live: Live, api: Person) -> None:
    body = {"qualified_name": "shop.people", "asset_type": "table", "tags": ["PII"]}
    made = api.client.post("/api/v1/metadata", json=body, headers=api.headers)
    assert made.status_code == 201
    lake = wiring.lake(live.core, "home")
    sql = "SELECT qualified_name, version, tags FROM assets_history"
    found: list[tuple[Any, ...]] = []
    began = time.monotonic()
    while not found and time.monotonic() - began < BEHIND:
        time.sleep(0.5)
        if lake.find("assets_history") is not None:
            found = read.query(lake, sql, api.tenant.number).rows
    lake.close()
    assert found == [("shop.people", 1, ["PII"])]
    shown = {
        each["table"]: each
        for each in api.client.get("/api/v1/lake", headers=api.headers).json()["items"]
    }
    assert shown["observations"]["rows"] == 1
    assert shown["assets_history"]["lag_seconds"] < BEHIND
