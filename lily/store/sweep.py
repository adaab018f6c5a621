"""Takes away what is over: revocations, tokens, failed logins, remembered answers, signals,
runs of jobs, and notices that were told long ago."""

from lily.store.attempts import NOWHERE
from lily.store.database import Database

HOME_STEPS = (
    "DELETE FROM revocation WHERE until < now()",
    "DELETE FROM login_failure WHERE at < now() - interval '1 day'",
    "DELETE FROM token WHERE expires_at < now() - interval '1 day'",
)
OLD = "n.at < now() - interval '90 days'"
CELL_STEPS = (
    "DELETE FROM idempotency WHERE at < now() - interval '1 day'",
    "DELETE FROM signal_key WHERE at < now() - interval '90 days'",
    "DELETE FROM channel_token t WHERE NOT EXISTS"
    " (SELECT FROM connection c WHERE c.tenant = t.tenant AND c.id = t.connection)",
    # What a run said of lineage has become its job's; an event that comes later still is older.
    "DELETE FROM run WHERE updated_at < now() - interval '90 days'",
    # A delivery has the id of its notice. What is still being tried stays.
    f"DELETE FROM delivery_attempt a USING notice n, delivery d WHERE {OLD}"
    " AND d.tenant = n.tenant AND d.id = n.id AND d.settled_at IS NOT NULL"
    " AND a.tenant = n.tenant AND a.delivery = n.id",
    f"DELETE FROM delivery d USING notice n WHERE {OLD}"
    " AND d.tenant = n.tenant AND d.id = n.id AND d.settled_at IS NOT NULL",
    f"DELETE FROM notice n WHERE {OLD} AND NOT EXISTS"
    " (SELECT FROM delivery d WHERE d.tenant = n.tenant AND d.id = n.id)",
)


def sweep(database: Database) -> int:
    """Run it now and then as the system role; returns how many rows went."""
    tenants = database.tenants()
    numbers = [NOWHERE.number, *(tenant.number for tenant in tenants)]
    with database.at_home(numbers) as conn:
        gone = sum(conn.execute(step).rowcount for step in HOME_STEPS)
    for cell in database.cells():
        inside = [tenant.number for tenant in tenants if tenant.cell == cell]
        with database.cell(cell, inside) as conn:
            gone += sum(conn.execute(step).rowcount for step in CELL_STEPS)
    return gone
