"""The API's listener for applied positions, while nobody waits for any."""

import asyncio

import psycopg
import pytest

from lily.log import applied
from lily.log.applied import Applied
from lily.wiring import Core, home_url

BATCHES = 5_000  # more than fit between the database and a listener that does not read
STUCK = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event = 'ClientWrite'
"""


async def _told(url: str, owner: str) -> int:
    """Listeners that hold up the database after many batches that nobody waited for."""
    listener = Applied(url)
    try:
        async with await psycopg.AsyncConnection.connect(owner, autocommit=True) as conn:
            for number in range(0, BATCHES, 500):
                for step in range(500):
                    told = f"core:{number + step},fields:{number + step}" + " " * 200
                    await conn.execute("SELECT pg_notify('lily_applied', %s)", [told])
                await asyncio.sleep(0.05)
            for _ in range(100):
                row = await (await conn.execute(STUCK)).fetchone()
                if row == (0,):
                    break
                await asyncio.sleep(0.05)
            return row[0] if row else -1
    finally:
        await listener.close()


def test_a_listener_that_nobody_asks_takes_in_what_it_is_told(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied, "DRAIN", 0.05)
    assert asyncio.run(_told(core.database.role_url("home"), home_url(core.settings))) == 0
