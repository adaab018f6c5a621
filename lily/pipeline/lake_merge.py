"""The latest assets, tags and edges by Spark's own Iceberg writer, where its jars are.

A MERGE writes what differs instead of whole slices. Catalog, tables and positions are the same
either way.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.parquet
from pyspark.sql import SparkSession

from lily.errors import Conflict
from lily.lake.cell import CATALOG, POSITION, Position, Rows, arrow, marked
from lily.lake.latest import Slice, digested

if TYPE_CHECKING:
    from pyiceberg.table import Table

SNAPSHOT = "spark.sql.iceberg.snapshot-property."
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
SOCKETS = "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg"
KEYS = {
    "assets": ("tenant", "guid"),
    "tags": ("tenant", "guid", "tag"),
    "edges": ("tenant", "edge_id"),
}


def options(catalog: Mapping[str, str], jars: Iterable[Path]) -> dict[str, str]:
    """What a Spark session needs to share a catalog."""
    name = f"spark.sql.catalog.{CATALOG}"
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": EXTENSIONS,
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.cache-enabled": "false",
        **{f"{name}.{option}": value for option, value in catalog.items()},
    }


def in_database(database: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """The catalog in a cell's own database."""
    return {
        "type": "jdbc",
        "uri": _jdbc(database),
        "jdbc.user": database.get("user", ""),
        "jdbc.password": database.get("password", ""),
        "jdbc.schema-version": "V1",
        "warehouse": warehouse,
    }


def on_s3(storage: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's own way to S3, which needs its bundle for AWS beside the other jars."""
    found = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if endpoint := storage.get("s3.endpoint"):
        found |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    if region := storage.get("s3.region"):
        found["client.region"] = region
    return found


def _jdbc(database: Mapping[str, str]) -> str:
    host, port, name = database.get("host", ""), database.get("port", "5432"), database["dbname"]
    if not host.startswith("/"):
        return f"jdbc:postgresql://{host or 'localhost'}:{port}/{name}?currentSchema=lake"
    # Java cannot open a socket by itself; one of the jars can.
    return (
        f"jdbc:postgresql://localhost/{name}?currentSchema=lake&sslmode=disable"
        f"&socketFactory={SOCKETS}&socketFactoryArg={host}/.s.PGSQL.{port}"
    )


class ByMerge:
    """Gathers rows of changed slices on disk, then merges them in one commit a table."""

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch / f"merge-{uuid4().hex}"

    def add(self, table: "Table", rows: Rows) -> None:
        folder = self._folder(table)
        folder.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(arrow(table, rows), folder / f"{uuid4().hex}.parquet")

    def put(
        self,
        table: "Table",
        slices: Iterable[Slice],
        digests: Mapping[Slice, str],
        position: Position,
    ) -> None:
        """What is in the slices becomes what was gathered.

        Rows and digests are two commits. Between them the table has the rows and the old digests:
        whoever goes on from there merges the same rows again, which changes nothing.
        """
        folder, wanted = self._folder(table), sorted(set(slices))
        try:
            if wanted:
                self._merge(table, folder, wanted, position)
            table.refresh()
            if wanted and table.metadata.current_snapshot_id is None:
                raise Conflict(f"the merge into {table.name()[-1]} left nothing")
            with table.transaction() as transaction:
                transaction.set_properties(digested(digests))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _merge(self, table: "Table", folder: Path, slices: list[Slice], position: Position) -> None:
        name = table.name()[-1]
        columns = [field.name for field in table.schema().fields]
        if not folder.exists():
            self.add(table, [])  # all that the slices held is gone
        self._spark.read.parquet(str(folder)).createOrReplaceTempView("gathered")
        keys = KEYS[name]
        same = " AND ".join(f"t.{key} = s.{key}" for key in ("bucket", "slice", *keys))
        differs = " OR ".join(
            f"NOT (t.`{each}` <=> s.`{each}`)" for each in columns if each not in keys
        )
        inside = ", ".join(f"({bucket}, {part})" for bucket, part in slices)
        self._spark.conf.set(SNAPSHOT + POSITION, marked(position)[POSITION])
        try:
            self._spark.sql(
                f"MERGE INTO {CATALOG}.{'.'.join(table.name())} t USING gathered s ON {same}"
                f" WHEN MATCHED AND ({differs}) THEN UPDATE SET *"
                " WHEN NOT MATCHED THEN INSERT *"
                f" WHEN NOT MATCHED BY SOURCE AND (t.bucket, t.slice) IN ({inside}) THEN DELETE"
            )
        finally:
            self._spark.conf.unset(SNAPSHOT + POSITION)

    def _folder(self, table: "Table") -> Path:
        return self._scratch / str(table.name()[-1])
