"""What the facets of a dataset or a job say of it, as partial statements of assets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unicodedata import normalize

import msgspec
from msgspec import UNSET

from lily.events.observations import AssetGone, AssetSeen
from lily.lineage.names import VAGUE, column
from lily.lineage.names import job as job_name
from lily.lineage.openlineage_model import Dataset, Facets, Job, converted

# Told anew by every run: kept with the run, for each would be a new version of the asset.
OF_A_RUN = frozenset({"version", "dataQualityMetrics", "inputStatistics", "outputStatistics"})
READ = frozenset(
    {"schema", "documentation", "ownership", "tags", "symlinks", "columnLineage", "datasetType",
     "dataQualityAssertions", "lifecycleStateChange", "sql", "jobType"}
)  # fmt: skip
DEPTH = 20
_SERVER = re.compile(r"^(postgres|postgresql)://([^/:]+)(?::(\d+))?/?$", re.IGNORECASE)


class Field(msgspec.Struct):
    name: str
    type: str | None = None
    description: str | None = None
    ordinal_position: int | None = None
    fields: list["Field"] | None = None


class Schema(msgspec.Struct):
    fields: list[Field] | None = None


class Documentation(msgspec.Struct):
    description: str | None = None


class Owner(msgspec.Struct):
    name: str
    type: str | None = None


class Ownership(msgspec.Struct):
    owners: list[Owner] | None = None


class Tag(msgspec.Struct):
    key: str
    value: str | bool | int | float | None = None
    field: str | None = None


class Tags(msgspec.Struct):
    tags: list[Tag] | None = None


class Identifier(msgspec.Struct):
    namespace: str
    name: str
    type: str | None = None


class Symlinks(msgspec.Struct):
    identifiers: list[Identifier] | None = None


class Lifecycle(msgspec.Struct, rename="camel"):
    lifecycle_state_change: str = ""
    previous_identifier: Identifier | None = None


class Assertions(msgspec.Struct):
    assertions: list[Any] | None = None


class DatasetType(msgspec.Struct, rename="camel"):
    dataset_type: str | None = None
    sub_type: str | None = None


class JobType(msgspec.Struct, rename="camel"):
    integration: str = ""
    job_type: str | None = None
    processing_type: str | None = None


class Sql(msgspec.Struct):
    query: str | None = None
    dialect: str | None = None


def named(namespace: str, name: str) -> str:
    """As our crawlers call the same thing: a server has its port, and its scheme one spelling."""
    server = _SERVER.match(namespace)
    if server:
        namespace = f"postgres://{server[2].lower()}:{server[3] or 5432}"
    return normalize("NFC", f"{namespace.rstrip('/')}/{name}".replace("#", "%23"))


def name_of(dataset: Dataset) -> str:
    return named(dataset.namespace, dataset.name)


def of_dataset(dataset: Dataset, field: str) -> Iterator[AssetSeen | AssetGone]:
    """The dataset and its columns; the dataset as gone where it was dropped."""
    facets = _plain({**(dataset.input_facets or {}), **(dataset.facets or {})})
    name, where = name_of(dataset), f"{field}.facets"
    change = _facet(facets, "lifecycleStateChange", Lifecycle, where)
    renamed = None
    if change is not None:
        if change.lifecycle_state_change.upper() == "DROP":
            yield AssetGone(qualified_name=name)
            return
        if change.lifecycle_state_change.upper() == "RENAME" and change.previous_identifier:
            renamed = named(change.previous_identifier.namespace, change.previous_identifier.name)
            yield AssetGone(qualified_name=renamed)
    tags = _tags(facets, where)
    kind = _facet(facets, "datasetType", DatasetType, where)
    quality = _facet(facets, "dataQualityAssertions", Assertions, where)
    yield AssetSeen(
        qualified_name=name,
        partial=True,
        asset_type=kind.dataset_type.lower() if kind and kind.dataset_type else VAGUE,
        data_source=name.partition("://")[0] if "://" in name else UNSET,
        description=_description(facets, where),
        asset_owner=_owner(facets, where),
        tags=UNSET if tags is None else tags.get("", []),
        aliases=_aliases(facets, where, name),
        metadata={
            **_given(
                renamed_from=renamed,
                lifecycle=change.lifecycle_state_change.lower() if change else None,
                data_quality_assertions=quality.assertions if quality else None,
            ),
            **_others(facets),
        },
    )
    yield from _columns(name, facets, tags, where)


def of_job(job: Job, parent: str | None, source: str) -> AssetSeen:
    """A job is an asset too; what it reads and writes are edges between datasets."""
    facets = _plain(job.facets or {})
    kind = _facet(facets, "jobType", JobType, "job.facets")
    sql = _facet(facets, "sql", Sql, "job.facets")
    tags = _tags(facets, "job.facets")
    name = job_name(job.namespace, job.name)
    return AssetSeen(
        qualified_name=name,
        partial=True,
        asset_name=job.name,
        asset_type="job",
        data_source=source,
        parent_id=parent if parent and parent != name else UNSET,
        description=_description(facets, "job.facets"),
        asset_owner=_owner(facets, "job.facets"),
        tags=UNSET if tags is None else tags.get("", []),
        metadata={
            **_given(
                namespace=job.namespace,
                integration=kind.integration or None if kind else None,
                job_type=kind.job_type if kind else None,
                processing_type=kind.processing_type if kind else None,
                sql=sql.query if sql else None,
                sql_dialect=sql.dialect if sql else None,
            ),
            **_others(facets),
        },
    )


def is_dropped(dataset: Dataset) -> bool:
    change = (dataset.facets or {}).get("lifecycleStateChange")
    return (
        isinstance(change, dict) and str(change.get("lifecycleStateChange", "")).upper() == "DROP"
    )


def integration(job: Job | None, producer: str) -> str:
    """Who claims what an event says of assets, tags above all."""
    kind = (job.facets or {}).get("jobType") if job is not None else None
    said = kind.get("integration") if isinstance(kind, dict) else None
    if isinstance(said, str) and said.strip():
        return said.strip().lower()[:200]
    tail = re.search(r"/integration/([A-Za-z0-9_-]+)", producer)
    return tail[1].lower() if tail else "openlineage"


def of_run(dataset: Dataset) -> Facets:
    """What is true of a dataset in one run only."""
    both = {
        **(dataset.input_facets or {}),
        **(dataset.output_facets or {}),
        **(dataset.facets or {}),
    }
    return {name: bare(facet) for name, facet in both.items() if name in OF_A_RUN}


def bare(facet: Any) -> Any:
    """Without who wrote it and by which schema, which change while the facet does not."""
    if not isinstance(facet, dict):
        return facet
    return {k: v for k, v in facet.items() if k not in ("_producer", "_schemaURL")}


def _columns(
    name: str, facets: Facets, tags: Mapping[str, list[str]] | None, where: str
) -> Iterator[AssetSeen]:
    schema = _facet(facets, "schema", Schema, where)
    stated = dict(_flat(schema.fields or (), "", DEPTH)) if schema else {}
    for path, each in stated.items():
        yield AssetSeen(
            qualified_name=column(name, path),
            partial=True,
            asset_type="column",
            aliases=[],
            description=each.description or UNSET,
            tags=UNSET if tags is None else tags.get(path, []),
            metadata=_given(data_type=each.type, ordinal=each.ordinal_position),
        )
    for path, labels in (tags or {}).items():
        if path and path not in stated:
            yield AssetSeen(
                qualified_name=column(name, path),
                partial=True,
                asset_type="column",
                aliases=[],
                tags=labels,
            )


def _flat(fields: Sequence[Field], path: str, left: int) -> Iterator[tuple[str, Field]]:
    for each in fields if left else ():
        if each.name.strip():
            yield f"{path}{each.name}", each
            yield from _flat(each.fields or (), f"{path}{each.name}.", left - 1)


def _tags(facets: Facets, where: str) -> dict[str, list[str]] | None:
    """Tags per column, those of the whole under no name; None where nothing is said of tags."""
    facet = _facet(facets, "tags", Tags, where)
    if facet is None:
        return None
    found: dict[str, list[str]] = {}
    for each in facet.tags or ():
        label = _label(each)
        if label and label not in found.setdefault(each.field or "", []):
            found[each.field or ""].append(label)
    return found


def _label(tag: Tag) -> str | None:
    """`pii: true` is the tag PII, `tier: gold` the tag tier:gold, `pii: false` none."""
    key, value = tag.key.strip(), str(tag.value if tag.value is not None else "").strip()
    if not key or value.lower() == "false":
        return None
    key = key.upper() if key.upper() in ("PII", "GDPR", "PHI", "PCI") else key
    return key if value.lower() in ("", "true", key.lower()) else f"{key}:{value}"


def _description(facets: Facets, where: str) -> Any:
    facet = _facet(facets, "documentation", Documentation, where)
    return UNSET if facet is None else facet.description or None


def _owner(facets: Facets, where: str) -> Any:
    facet = _facet(facets, "ownership", Ownership, where)
    if facet is None:
        return UNSET
    owners = facet.owners or []
    first = next((o for o in owners if (o.type or "").upper() in ("OWNER", "MAINTAINER")), None)
    chosen = first or (owners[0] if owners else None)
    return chosen.name if chosen else None


def _aliases(facets: Facets, where: str, name: str) -> list[str]:
    facet = _facet(facets, "symlinks", Symlinks, where)
    found = [named(i.namespace, i.name) for i in (facet.identifiers or ())] if facet else []
    return [each for each in dict.fromkeys(found) if each != name]


def _others(facets: Facets) -> dict[str, Any]:
    return {
        f"openlineage.{name}": bare(facet)
        for name, facet in facets.items()
        if name not in READ and name not in OF_A_RUN
    }


def _plain(facets: Facets) -> Facets:
    """A facet that is null was not given; one that is deleted says nothing any more."""
    return {
        name: {} if isinstance(facet, dict) and facet.get("_deleted") is True else facet
        for name, facet in facets.items()
        if facet is not None
    }


def _facet(facets: Facets, name: str, kind: Any, where: str) -> Any:
    return converted(facets[name], kind, f"{where}.{name}") if name in facets else None


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {}, "")}
