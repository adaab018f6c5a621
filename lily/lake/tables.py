"""The tables of the lake: columns, types, and how rows are spread over files."""

from collections.abc import Mapping

import msgspec
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

TENANT_BUCKETS = 16
SLICES = 16  # of the assets of a tenant bucket, by the first four bits of their guid
FIRST_PARTITION = 1000
ELEMENTS = 100  # ids of list elements begin here

_TYPES: Mapping[str, IcebergType] = {
    "text": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "time": TimestamptzType(),
    "flag": BooleanType(),
}
# What everybody sees of an asset; metadata and details are JSON.
_SHOWN = {
    "lane": "text", "qualified_name": "text", "asset_id": "text", "asset_name": "text",
    "asset_type": "text", "asset_owner": "text", "description": "text", "parent_id": "text",
    "data_source": "text", "external_id": "text", "tags": "texts", "business_terms": "texts",
    "metadata": "text", "details": "text", "is_deleted": "flag", "archived": "flag",
}  # fmt: skip


class Layout(msgspec.Struct, frozen=True):
    """One table. `at` is the column whose day it is partitioned by; without one, by slice."""

    name: str
    columns: Mapping[str, str]
    at: str | None = None

    @property
    def schema(self) -> Schema:
        fields = []
        for number, (name, kind) in enumerate(self.columns.items(), 1):
            texts = ListType(ELEMENTS + number, StringType(), element_required=False)
            shape = texts if kind == "texts" else _TYPES[kind]
            fields.append(NestedField(number, name, shape, required=False))
        return Schema(*fields)

    def type_of(self, name: str) -> IcebergType:
        """Of a column; of one that was added later, too."""
        return self.schema.find_type(name)

    @property
    def spec(self) -> PartitionSpec:
        if self.at is not None:
            return PartitionSpec(
                self._part(0, "tenant", BucketTransform(TENANT_BUCKETS), "tenant_bucket"),
                self._part(1, self.at, DayTransform(), "day"),
            )
        return PartitionSpec(
            self._part(0, "bucket", IdentityTransform(), "tenant_bucket"),
            self._part(1, "slice", IdentityTransform(), "guid_slice"),
        )

    def _part(
        self,
        index: int,
        column: str,
        transform: BucketTransform[int] | DayTransform[int] | IdentityTransform[int],
        name: str,
    ) -> PartitionField:
        source = list(self.columns).index(column) + 1
        return PartitionField(source, FIRST_PARTITION + index, transform, name)


OBSERVATIONS = Layout(
    "observations",
    {"tenant": "int", "lane": "text", "offset": "long", "at": "time", "key": "text",
     "value": "text", "part": "int"},
    at="at",
)  # fmt: skip
FACTS = Layout(
    "facts",
    {"tenant": "int", "position": "long", "kind": "text", "at": "time", "by": "text",
     "guid": "text", "qualified_name": "text", "version": "int", "cause": "text",
     "payload": "text", "hash": "text"},
    at="at",
)  # fmt: skip
HISTORY = Layout(
    "assets_history",
    {"tenant": "int", "guid": "text", "version": "int", "position": "long", "at": "time",
     "kind": "text", "by": "text", "cause": "text", **_SHOWN},
    at="at",
)  # fmt: skip
ASSETS = Layout(
    "assets",
    {"bucket": "int", "slice": "int", "tenant": "int", "guid": "text", "version": "int",
     "position": "long", **_SHOWN, "deleted_by": "text", "created_at": "time",
     "updated_at": "time", "observed_at": "time", "applied_at": "time"},
)  # fmt: skip
TAGS = Layout(
    "tags",
    {"bucket": "int", "slice": "int", "tenant": "int", "guid": "text", "tag": "text",
     "lane": "text", "asset_type": "text", "qualified_name": "text", "updated_at": "time"},
)  # fmt: skip
EDGES = Layout(
    "edges",
    {"bucket": "int", "slice": "int", "tenant": "int", "edge_id": "text", "upstream": "text",
     "downstream": "text", "upstream_name": "text", "downstream_name": "text",
     "relationship_type": "text", "level": "text", "process": "text", "transformation": "text",
     "masking": "flag", "origin": "text", "source": "text", "properties": "text",
     "version": "int", "position": "long", "is_deleted": "flag", "deleted_by": "text",
     "created_at": "time", "updated_at": "time", "observed_at": "time"},
)  # fmt: skip
LAYOUTS: Mapping[str, Layout] = {
    each.name: each for each in (OBSERVATIONS, FACTS, HISTORY, ASSETS, TAGS, EDGES)
}
