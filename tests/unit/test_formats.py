"""What a file of assets may look like, and what is said of one that does not."""

import json
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet
import pytest

from lily.errors import Invalid, LilyError, Unreadable
from lily.formats.columns import COLUMNS, EXAMPLES, TEMPLATE, Format, checked, kind_of
from lily.formats.files import check, records
from lily.formats.records import Record


def written(folder: Path, content: bytes | str) -> Path:
    path = folder / "upload"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(format: Format, folder: Path, content: bytes | str) -> list[Record]:
    return list(records(format, written(folder, content)))


@pytest.mark.parametrize(
    ("content_type", "name", "encoding", "wanted"),
    [
        ("application/x-ndjson", "", "", ("ndjson", "")),
        ("application/json; charset=utf-8", "", "gzip", ("json", "gzip")),
        ("text/csv", "x.json", "", ("csv", "")),
        ("", "a.b.CSV", "", ("csv", "")),
        ("application/octet-stream", "a.parquet", "", ("parquet", "")),
        ("application/gzip", "a.xml", "", ("xml", "gzip")),
        ("", "a.jsonl.zst", "", ("ndjson", "zstd")),
        ("", "a.xlsx", "zstd", ("xlsx", "zstd")),
    ],
)
def test_the_format_follows_from_the_type_or_the_name(
    content_type: str, name: str, encoding: str, wanted: tuple[str, str]
) -> None:
    kind = kind_of(content_type, name, encoding)
    assert (kind.format, kind.packing) == wanted


@pytest.mark.parametrize("name", ["", "a.txt", "a.gz", "json"])
def test_an_unknown_format_is_refused_with_those_that_are_known(name: str) -> None:
    if name == "json":
        assert kind_of("", name).format == "json"
        return
    with pytest.raises(Invalid, match="ndjson"):
        kind_of("", name)


def test_the_template_has_a_header_that_is_right() -> None:
    assert checked(TEMPLATE) == list(TEMPLATE)
    assert all(len(row) == len(TEMPLATE) for row in EXAMPLES)
    assert checked([*COLUMNS, "metadata.a.b", None, ""]) == [*COLUMNS, "metadata.a.b"]


def test_a_wrong_header_is_told_column_by_column() -> None:
    with pytest.raises(Invalid) as caught:
        checked(["name", "tags", "tags", "", "metadata.", "asset_type"])
    said = str(caught.value)
    assert "'name' is not known; call it metadata.name" in said
    assert "'tags' twice" in said and "column 4" in said and "qualified_name" in said


def test_cells_of_a_csv_become_texts_lists_and_values(tmp_path: Path) -> None:
    text = (
        "asset_id;tags;business_terms;partial;metadata.n;metadata.deep.er;metadata.text;metadata\n"
        'a;"x;y";"[""p;q""]";true;5;true;0012;{"k": [1]}\n'
        ";;;;;;;\n"
        '"two\nlines";;;no;1.5;"""5""";x;\n'
        "c;;;maybe;;;;\n"
        "d;;;;;;;;;extra\n"
    )
    first, second, third, fourth = read("csv", tmp_path, text)
    assert first == Record(2, {
        "asset_id": "a", "tags": ["x", "y"], "business_terms": ["p;q"], "partial": True,
        "metadata": {"n": 5, "deep": {"er": True}, "text": "0012", "k": [1]},
    })  # fmt: skip
    assert second.line == 4 and second.value == {
        "asset_id": "two\nlines", "partial": False,
        "metadata": {"n": 1.5, "deep": {"er": "5"}, "text": "x"},
    }  # fmt: skip
    assert third.line == 6 and third.reason == "partial: must be true or false"
    assert fourth.line == 7 and "cells for 8 columns" in fourth.reason


def book(folder: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)  # type: ignore[arg-type]
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    path = folder / "upload"
    made.save(path.with_suffix(".xlsx"))
    path.with_suffix(".xlsx").rename(path)
    return path


def test_an_xlsx_is_read_from_the_sheet_called_assets(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["asset_id", "tags", "metadata.n", "metadata.s"],
        ["a", "x;y", 5.0, "5"],
        [],
        ["b"],
    ]
    path = book(tmp_path, {"notes": [["hello"]], "assets": rows})
    assert list(records("xlsx", path)) == [
        Record(2, {"asset_id": "a", "tags": ["x", "y"], "metadata": {"n": 5, "s": "5"}}),
        Record(4, {"asset_id": "b"}),
    ]


def test_a_workbook_with_the_wrong_sheets_is_refused(tmp_path: Path) -> None:
    path = book(tmp_path, {"one": [["asset_id"]], "two": [["asset_id"]]})
    with pytest.raises(Invalid, match="call the one with the assets 'assets'"):
        check("xlsx", path)
    with pytest.raises(Invalid, match="needs one of"):
        check("xlsx", book(tmp_path, {"any": [["tags"]]}))


def test_a_parquet_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "upload"
    table = pa.table({"asset_id": ["a", "b"], "tags": [["x"], None], "metadata": [{"n": 1}, None]})
    pyarrow.parquet.write_table(table, path)
    assert list(records("parquet", path)) == [
        Record(1, {"asset_id": "a", "tags": ["x"], "metadata": {"n": 1}}),
        Record(2, {"asset_id": "b"}),
    ]


def test_an_xml_is_read_with_its_lines(tmp_path: Path) -> None:
    text = (
        "<?xml version='1.0'?>\n<assets>\n<asset><asset_id>a &amp; b</asset_id>"
        "<tags><tag>x</tag><tag>y</tag></tags><partial>true</partial><metadata>"
        '<entry key="n">5</entry><entry key="in"><entry key="s">t</entry></entry></metadata>'
        "</asset>\n<asset><nonsense/></asset>\n<asset>"
        "<tags><b>x</b></tags></asset>\n</assets>"
    )
    first, second, third = read("xml", tmp_path, text)
    assert first == Record(3, {
        "asset_id": "a & b", "tags": ["x", "y"], "partial": True,
        "metadata": {"n": 5, "in": {"s": "t"}},
    })  # fmt: skip
    assert (second.line, second.reason) == (4, "nonsense: is not known; put it in metadata")
    assert (third.line, third.reason) == (5, "tags: <b> is not known here")


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("xml", "<things/>"), ("xml", "no"), ("csv", "a,b\n1,2\n"), ("csv", ""),
        ("json", "5"), ("json", ""), ("xlsx", "PK no"), ("parquet", "PAR1 no"),
        ("xml", "<!DOCTYPE a [<!ENTITY b 'c'>]><assets><asset/></assets>"),
    ],
)  # fmt: skip
def test_what_is_not_what_it_claims_is_refused_at_once(
    tmp_path: Path, format: Format, content: str
) -> None:
    with pytest.raises((Invalid, Unreadable)) as caught:
        check(format, written(tmp_path, content))
    assert isinstance(caught.value, LilyError) and str(caught.value)


def test_a_json_array_is_read_with_its_lines(tmp_path: Path) -> None:
    text = json.dumps([{"asset_id": "a"}, {"asset_id": "b"}], indent=1)
    assert [each.line for each in read("json", tmp_path, text)] == [2, 5]
