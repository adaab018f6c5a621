"""The crawler for dbt: what manifest.json and catalog.json of a project say."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator

from lily.connectors.names import column, joined, shown
from lily.sdk import AssetSeen, Cursor, EdgeSeen, Reading, Reject, Retry, SqlPlace

RELATIONS = ("model", "seed", "snapshot", "source")
KINDS = {"view": "view", "materialized_view": "materialized_view", "base table": "table"}

Node = Mapping[str, Any]


class Dbt:
    """Reads a dbt project's artifacts: sources, models, columns, tests, exposures, lineage."""

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        path: Path | None = Field(None, description="Folder with manifest.json and catalog.json.")
        manifest: Path | None = Field(None, description="manifest.json, instead of path.")
        catalog: Path | None = Field(None, description="catalog.json; types and actual columns.")
        namespace: str | None = Field(
            None,
            pattern=r"^[^\s#]+[^\s#/]$",
            description="Of the warehouse, e.g. postgres://host:5432, so that a model is the same"
            " asset as the table that other crawlers see.",
        )
        rate_limit: float | None = Field(None, gt=0, description="Observations a second at most.")

        @model_validator(mode="after")
        def _something_to_read(self) -> Self:
            if self.path is None and self.manifest is None:
                raise ValueError("give path or manifest")
            return self

    def __init__(self, options: Options) -> None:
        self._manifest = options.manifest or Path(options.path or "") / "manifest.json"
        beside = options.path / "catalog.json" if options.path else None
        self._catalog = options.catalog or beside
        self._namespace = options.namespace

    def read(self, cursor: Cursor | None) -> Iterator[Reading]:
        manifest = _load(self._manifest)
        needless = self._catalog is None or not self._catalog.exists()
        catalog = {} if needless else _load(self._catalog or Path())
        yield from Project(manifest, catalog, self._namespace).observations()

    def sql_place(self) -> SqlPlace | None:
        return SqlPlace(namespace=self._namespace) if self._namespace else None


class Project:
    """One project's artifacts, with names for everything in them."""

    def __init__(self, manifest: Node, catalog: Node, namespace: str | None) -> None:
        head = _mapping(manifest.get("metadata"))
        self._adapter = str(head.get("adapter_type") or "dbt")
        self._project = str(head.get("project_name") or "project")
        self._namespace = namespace or f"{self._adapter}://{self._project}"
        self._nodes: dict[str, Node] = {
            **_mapping(manifest.get("sources")),
            **_mapping(manifest.get("nodes")),
        }
        self._exposures = _mapping(manifest.get("exposures"))
        self._groups = _mapping(manifest.get("groups"))
        self._found = {**_mapping(catalog.get("sources")), **_mapping(catalog.get("nodes"))}
        self._tests = self._attached()

    def observations(self) -> Iterator[AssetSeen | EdgeSeen]:
        relations = {k: n for k, n in self._nodes.items() if n.get("resource_type") in RELATIONS}
        yield from self._containers(relations)
        for key, node in relations.items():
            yield from self._relation(key, node)
        for key, exposure in self._exposures.items():
            yield self._exposure(key, exposure)
        for key, node in {**relations, **self._exposures}.items():
            yield from self._edges(key, node)

    def _edges(self, key: str, node: Node) -> Iterator[EdgeSeen]:
        """From everything that a model or an exposure depends on."""
        own = self.name(key)
        for each in self._upstream(node):
            if own is not None and each != own:
                yield EdgeSeen(from_name=each, to_name=own, process=key)

    def name(self, key: str) -> str | None:
        """The qualified name of a node; what is no asset has none."""
        if key in self._exposures:
            return f"dbt://{self._project}/{key.replace('#', '%23')}"
        node = self._nodes.get(key)
        if node is None or node.get("resource_type") not in RELATIONS:
            return None
        if _materialized(node) == "ephemeral":  # inlined: there is nothing in the warehouse
            return f"dbt://{self._project}/{key.replace('#', '%23')}"
        return joined(self._namespace, node.get("database"), node.get("schema"), _own(node))

    def _containers(self, relations: Mapping[str, Node]) -> Iterator[AssetSeen]:
        places = {
            (node.get("database"), node.get("schema"))
            for node in relations.values()
            if _materialized(node) != "ephemeral"
        }
        for database in sorted({each for each, _ in places if each}):
            yield self._container("database", database, joined(self._namespace, database), None)
        for database, schema in sorted((d or "", s) for d, s in places if s):
            parent = joined(self._namespace, database) if database else None
            name = joined(self._namespace, database or None, schema)
            yield self._container("schema", schema, name, parent)

    def _container(self, kind: str, own: str, name: str, parent: str | None) -> AssetSeen:
        return AssetSeen(
            qualified_name=name,
            asset_name=shown(own),
            asset_type=kind,
            parent_id=parent,
            data_source=self._adapter,
        )

    def _relation(self, key: str, node: Node) -> Iterator[AssetSeen]:
        name = self.name(key) or key
        found = _mapping(self._found.get(key))
        schema = joined(self._namespace, node.get("database"), node.get("schema"))
        yield AssetSeen(
            qualified_name=name,
            asset_name=shown(_own(node)),
            asset_type=self._kind(node, found),
            asset_owner=self._owner(node),
            description=node.get("description") or None,
            parent_id=None if _materialized(node) == "ephemeral" else schema,
            data_source=self._adapter,
            tags=_tags(node),
            metadata=self._described(key, node),
        )
        yield from self._columns(key, name, node, found)

    def _described(self, key: str, node: Node) -> dict[str, Any]:
        """What it depends on by name too, for those who read an asset alone."""
        return _given(
            dbt_id=key,
            dbt_type=node.get("resource_type"),
            dbt_project=self._project,
            dbt_path=node.get("original_file_path"),
            materialized=_materialized(node),
            depends_on=self._upstream(node),
            sql=node.get("compiled_code") or node.get("raw_code"),
            tests=self._tests.get((key, ""), []),
            meta=_meta(node),
        )

    def _upstream(self, node: Node) -> list[str]:
        upstream = _mapping(node.get("depends_on")).get("nodes") or []
        return sorted({name for each in upstream if (name := self.name(each)) is not None})

    def _kind(self, node: Node, found: Node) -> str:
        actual = str(_mapping(found.get("metadata")).get("type") or "").lower()
        if actual:
            return KINDS.get(actual, actual.replace(" ", "_"))
        materialized = _materialized(node)
        return "model" if materialized == "ephemeral" else KINDS.get(materialized or "", "table")

    def _columns(self, key: str, name: str, node: Node, found: Node) -> Iterator[AssetSeen]:
        """Those of the warehouse, and documented ones that it does not know."""
        stated = {each.lower(): (each, _mapping(v)) for each, v in _items(node.get("columns"))}
        actual = {each.lower(): (each, _mapping(v)) for each, v in _items(found.get("columns"))}
        for lower in dict.fromkeys([*actual, *stated]):
            own = (actual.get(lower) or stated[lower])[0]
            said = stated.get(lower, ("", {}))[1]
            seen = actual.get(lower, ("", {}))[1]
            yield AssetSeen(
                qualified_name=column(name, own),
                asset_name=shown(own),
                asset_type="column",
                description=said.get("description") or seen.get("comment") or None,
                parent_id=name,
                data_source=self._adapter,
                tags=_tags(said),
                metadata=_given(
                    data_type=seen.get("type") or said.get("data_type"),
                    ordinal=seen.get("index"),
                    tests=self._tests.get((key, lower), []),
                    meta=_meta(said),
                ),
            )

    def _exposure(self, key: str, exposure: Node) -> AssetSeen:
        return AssetSeen(
            qualified_name=self.name(key) or key,
            asset_name=shown(str(exposure.get("label") or exposure.get("name") or key)),
            asset_type=str(exposure.get("type") or "exposure"),
            asset_owner=_person(exposure.get("owner")),
            description=exposure.get("description") or None,
            data_source="dbt",
            external_id=exposure.get("url") or None,
            tags=_tags(exposure),
            metadata=_given(
                dbt_id=key,
                dbt_project=self._project,
                maturity=exposure.get("maturity"),
                depends_on=self._upstream(exposure),
                meta=_meta(exposure),
            ),
        )

    def _owner(self, node: Node) -> str | None:
        """As `meta.owner` says, else the owner of its group."""
        config = _mapping(node.get("config"))
        said = _meta(node).get("owner")
        if said:
            return _person(said)
        group = node.get("group") or config.get("group")
        for each in self._groups.values():
            if group and each.get("name") == group:
                return _person(each.get("owner"))
        return None

    def _attached(self) -> dict[tuple[str, str], list[str]]:
        """Names of tests per node and column; those of the node itself under no column."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for node in self._nodes.values():
            if node.get("resource_type") != "test":
                continue
            name = str(_mapping(node.get("test_metadata")).get("name") or node.get("name"))
            upstream = _mapping(node.get("depends_on")).get("nodes") or []
            target = node.get("attached_node") or (upstream[0] if upstream else None)
            if target:
                found[str(target), str(node.get("column_name") or "").lower()].add(name)
        return {place: sorted(names) for place, names in found.items()}


def _load(path: Path) -> Node:
    try:
        return _mapping(msgspec.json.decode(path.read_bytes()))
    except FileNotFoundError:
        raise Reject(
            f"There is no {path.name} in {path.parent}; run `dbt docs generate`."
        ) from None
    except (OSError, msgspec.DecodeError) as cause:
        raise Retry(f"{path.name} cannot be read: {cause}") from cause


def _own(node: Node) -> str:
    return str(node.get("identifier") or node.get("alias") or node.get("name"))


def _materialized(node: Node) -> str | None:
    said = _mapping(node.get("config")).get("materialized")
    return str(said) if said else None


def _tags(node: Node) -> list[str]:
    tags = [*_list(node.get("tags")), *_list(_mapping(node.get("config")).get("tags"))]
    return list(dict.fromkeys(str(tag) for tag in tags if str(tag).strip()))


def _meta(node: Node) -> dict[str, Any]:
    return {**_mapping(_mapping(node.get("config")).get("meta")), **_mapping(node.get("meta"))}


def _person(owner: Any) -> str | None:
    if isinstance(owner, Mapping):
        owner = owner.get("email") or owner.get("name")
    if isinstance(owner, list):
        owner = owner[0] if owner else None
    return str(owner) if owner else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(_mapping(value).items())


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], {}, "")}
