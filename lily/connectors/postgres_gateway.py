"""Reads from a PostgreSQL for others: one statement, read only, with a limit on time and rows."""

from typing import Any, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lily.connectors.postgres import Postgres, hosts_of, server_of
from lily.connectors.postgres_names import Names
from lily.sdk import Reject, Retry
from lily.sdk.gateways import Result


class PostgresGateway:
    """Runs rewritten SQL on a PostgreSQL, as a role that should itself have few rights."""

    Options = Postgres.Options
    dialect: Literal["postgres"] = "postgres"
    default_schema = "public"

    def __init__(self, options: Postgres.Options) -> None:
        self._url = options.url.get_secret_value()
        info: dict[str, Any] = conninfo_to_dict(self._url)
        self._hosts = hosts_of(info)
        self._names = Names(*server_of(options.server, info))
        self._database = str(info.get("dbname") or info.get("user") or "postgres")

    def hosts(self) -> list[str]:
        return self._hosts

    def table(self, schema: str, name: str) -> str:
        return self._names.relation(self._database, schema, name)

    def run(self, sql: str, seconds: float, rows: int) -> Result:
        limits = f"-c statement_timeout={int(seconds * 1000)} -c default_transaction_read_only=on"
        try:
            with (
                psycopg.connect(
                    self._url, connect_timeout=5, options=limits, application_name="lily gateway"
                ) as conn,
                conn.cursor() as cursor,
            ):
                cursor.execute(sql.encode())
                found = cursor.fetchmany(rows + 1)
                names = tuple(each.name for each in cursor.description or ())
        except psycopg.errors.QueryCanceled:
            raise Reject(f"the statement took longer than {seconds:g} seconds") from None
        except psycopg.OperationalError as cause:
            raise Retry(f"PostgreSQL cannot be reached: {type(cause).__name__}") from None
        except psycopg.Error as cause:
            # Its text may quote a value; its kind does not.
            raise Reject(f"PostgreSQL refuses the statement: {type(cause).__name__}") from None
        return Result(names, found[:rows], len(found) > rows)
