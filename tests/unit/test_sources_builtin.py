"""The sources that read files: dbt's artifacts, and folders of rows."""

import gzip
import json
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest

from lily import plugins
from lily.connectors.names import escaped, field, plain
from lily.errors import Invalid
from lily.events.observations import AssetGone, AssetSeen, Observation
from lily.sdk import Cursor, EdgeSeen, Reject, Retry, Source
from lily.sdk.testing import SourceContract
from lily.workers.reading import chunks, inside

DBT = Path(__file__).parents[1] / "examples" / "dbt"
WAREHOUSE = "postgres://db:5432"


def build(plugin: str, **options: Any) -> Source:
    source: Source = plugins.build("source", plugin, options)
    return source


def read(source: Source) -> dict[str, Any]:
    return {i.qualified_name: i for i in source.read(None) if isinstance(i, AssetSeen | AssetGone)}


def edges(source: Source) -> set[tuple[str, str]]:
    return {(i.from_name, i.to_name) for i in source.read(None) if isinstance(i, EdgeSeen)}


class TestDbtKeepsTheContract(SourceContract):
    def make(self) -> Source:
        return build("dbt", path=str(DBT), namespace=WAREHOUSE)


class TestFilesKeepTheContract(SourceContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path
        for name in ("a.ndjson", "b.ndjson", "c.ndjson"):
            rows = [{"asset_id": f"{name}/{n}", "tags": ["x"]} for n in range(3)]
            (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))

    def make(self) -> Source:
        return build("files", path=str(self.path))


def test_a_dbt_project_is_told_with_columns_tests_owners_tags_and_lineage() -> None:
    found = read(build("dbt", path=str(DBT), namespace=WAREHOUSE))
    staging = found[f"{WAREHOUSE}/shop.staging.stg_customers"]
    assert (staging.asset_type, staging.tags) == ("view", ["staging"])
    assert staging.metadata["depends_on"] == [f"{WAREHOUSE}/shop.crm.customers"]
    assert staging.metadata["sql"].startswith("select id as customer_id")
    assert staging.parent_id == f"{WAREHOUSE}/shop.staging"
    email = found[f"{WAREHOUSE}/shop.staging.stg_customers#email"]
    assert (email.tags, email.metadata["data_type"]) == (["PII"], "text")
    key = found[f"{WAREHOUSE}/shop.staging.stg_customers#customer_id"]
    assert key.metadata["tests"] == ["not_null", "unique"]
    mart = found[f"{WAREHOUSE}/shop.marts.dim%2Ecustomers"]
    assert mart.metadata["depends_on"] == [
        "dbt://jaffle_shop/model.jaffle_shop.recent_payments",
        f"{WAREHOUSE}/shop.staging.stg_customers",
    ]
    assert (mart.asset_owner, mart.tags) == ("finance@example.com", ["mart", "daily"])
    assert (mart.metadata["tests"], mart.metadata["meta"]) == (["recency"], {"tier": 1})
    assert f"{WAREHOUSE}/shop.marts.dim%2Ecustomers#undocumented" in found
    assert found[f"{WAREHOUSE}/shop.marts.owned"].asset_owner == "bob@example.com"
    assert found[f"{WAREHOUSE}/shop.raw.raw_payments"].metadata["dbt_type"] == "seed"
    board = found["dbt://jaffle_shop/exposure.jaffle_shop.weekly_revenue"]
    assert (board.asset_name, board.asset_type) == ("Weekly revenue", "dashboard")
    assert board.asset_owner == "ann@example.com"
    assert board.metadata["depends_on"] == [f"{WAREHOUSE}/shop.marts.dim%2Ecustomers"]
    assert found[f"{WAREHOUSE}/shop"].asset_type == "database"


def test_a_dbt_project_tells_its_lineage_up_to_the_exposures() -> None:
    staging, mart = (
        f"{WAREHOUSE}/shop.staging.stg_customers",
        f"{WAREHOUSE}/shop.marts.dim%2Ecustomers",
    )
    recent = "dbt://jaffle_shop/model.jaffle_shop.recent_payments"
    found = edges(build("dbt", path=str(DBT), namespace=WAREHOUSE))
    assert {
        (f"{WAREHOUSE}/shop.crm.customers", staging),
        (staging, mart),
        (recent, mart),
        (mart, "dbt://jaffle_shop/exposure.jaffle_shop.weekly_revenue"),
    } <= found


def test_dbt_works_without_a_catalog_and_names_the_project_without_a_namespace() -> None:
    found = read(build("dbt", manifest=str(DBT / "manifest.json")))
    assert found["postgres://jaffle_shop/shop.staging.stg_customers"].asset_type == "view"
    assert "postgres://jaffle_shop/shop.staging.stg_customers#email" in found


def test_dbt_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Reject, match="dbt docs generate"):
        read(build("dbt", path=str(tmp_path)))
    (tmp_path / "manifest.json").write_text("{ half")
    with pytest.raises(Retry):
        read(build("dbt", path=str(tmp_path)))
    with pytest.raises(Invalid, match="give path or manifest"):
        plugins.check("source", "dbt", {})


def test_files_of_all_kinds_state_the_same(tmp_path: Path) -> None:
    row = {"qualified_name": "s.t", "asset_type": "table", "tags": ["a", "b"], "rows": "7"}
    (tmp_path / "1.ndjson").write_text(json.dumps(row) + "\n\n")
    (tmp_path / "2.json").write_text(json.dumps([{**row, "qualified_name": "s.u"}]))
    (tmp_path / "3.csv").write_text(
        "qualified_name,asset_type,tags,metadata.rows,metadata.a.b,description\n"
        's.v,table,a; b,7,deep,"two\nlines"\n'
    )
    with gzip.open(tmp_path / "4.jsonl.gz", "wt") as packed:
        packed.write(json.dumps({"asset_id": "own", "is_deleted": True}))
    (tmp_path / "5.txt").write_text("not read")
    found = read(build("files", path=str(tmp_path)))
    want: dict[str, Any] = {"asset_type": "table", "tags": ["a", "b"], "metadata": {"rows": "7"}}
    assert found["s.t"] == AssetSeen(qualified_name="s.t", **want)
    assert found["s.u"] == AssetSeen(qualified_name="s.u", **want)
    assert found["s.v"].metadata == {"rows": "7", "a": {"b": "deep"}}
    assert found["s.v"].description == "two\nlines"
    assert found["own"] == AssetGone(qualified_name="own", asset_id="own")
    assert set(found) == {"s.t", "s.u", "s.v", "own"}


def test_files_of_bulk_formats_are_read_as_a_bulk_load_reads_them(tmp_path: Path) -> None:
    header = ["qualified_name", "asset_type", "tags", "metadata.rows"]
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.append(header)
    book.active.append(["s.x", "table", "a; b", 7])
    book.save(tmp_path / "1.xlsx")
    (tmp_path / "2.xml").write_text(
        "<assets><asset><qualified_name>s.y</qualified_name><asset_type>table</asset_type>"
        "<tags><item>a</item><item>b</item></tags>"
        '<metadata><entry key="rows">7</entry></metadata></asset></assets>'
    )
    columns = {header[0]: ["s.z"], header[1]: ["table"], header[2]: [["a", "b"]], header[3]: [7]}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "3.parquet")
    found = read(build("files", path=str(tmp_path)))
    want: dict[str, Any] = {"asset_type": "table", "tags": ["a", "b"], "metadata": {"rows": 7}}
    assert found == {n: AssetSeen(qualified_name=n, **want) for n in ("s.x", "s.y", "s.z")}
    (tmp_path / "4.xml").write_text("<assets><asset><qualified_name>s.w</qualified_name>")
    with pytest.raises(Retry, match=r"4\.xml"):
        read(build("files", path=str(tmp_path)))


def test_a_broken_file_ends_the_reading_so_that_nothing_is_concluded(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"asset_id": "a"}\n{"asset_id": "b"')
    with pytest.raises(Retry, match=r"a\.ndjson"):
        read(build("files", path=str(tmp_path)))
    with pytest.raises(Reject):
        read(build("files", path=str(tmp_path / "nowhere")))


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    secret = tmp_path / "secret.ndjson"
    secret.write_text('{"asset_id": "secret"}')
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.ndjson").symlink_to(secret)
    assert read(build("files", path=str(folder))) == {}


@pytest.mark.parametrize(
    "name", ["a", "a.b", "a#b", "50%", "%2E", "%2e", "%23", "%25", "%252E", "é"]
)
def test_names_have_one_reading(name: str) -> None:
    assert plain(escaped(name)) == name and plain(field(name)) == name
    assert not set(".#") & set(escaped(name)) and "#" not in field(name)


def test_a_scope_is_an_asset_and_what_lies_below() -> None:
    assert inside("a.b", "a.b") and inside("a.b", "a.b.c") and inside("a.b", "a.b#c")
    assert not inside("a.b", "a.bc") and inside("a.", "a.bc") and inside("dbt://x/", "dbt://x/y")


def test_chunks_keep_the_last_word_and_the_last_cursor() -> None:
    items: list[Observation | Cursor] = [
        AssetSeen(qualified_name="a", description="old"),
        Cursor(1),
        AssetSeen(qualified_name="a", description="new"),
        AssetSeen(qualified_name="e\u0301"),
        Cursor(2),
        AssetSeen(qualified_name="b"),
        AssetSeen(qualified_name=" "),
    ]
    first, second, rest = chunks(items, size=2)
    assert isinstance(first.seen[0], AssetSeen) and first.seen[0].description == "new"
    assert first.seen[1].qualified_name == "\u00e9"
    assert first.cursor == Cursor(1)
    assert second.cursor == Cursor(2) and [each.qualified_name for each in second.seen] == ["b"]
    assert len(second.refused) == 1 and rest.size == 0
