"""The table of SQL statements in tests/fixtures, and what each of them says of lineage.

`a.x -> y = f(x)`: column y is made of x. `a.x ~ filter`: x decides about rows. `reads a`: rows of
a are read, but no column. What could not be resolved begins with what is missing.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lily.lineage.sql import of_script
from lily.lineage.sql_model import Relation, SqlLineage

TABLE = Path(__file__).parent.parent / "fixtures" / "sql_statements.txt"
CATALOG = {
    "people": ["id", "email", "name", "dept_id"],
    "dept": ["id", "title"],
    "orders": ["id", "person_id", "amount", "created"],
    "Odd Table": ["Mixed Case", "plain"],
}


def cases() -> Iterator[tuple[str, str, list[str]]]:
    for part in re.split(r"^(?=\[)", TABLE.read_text(), flags=re.MULTILINE)[1:]:
        first, *expected = part.splitlines()
        dialect, _, sql = first[1:].partition("] ")
        yield dialect, sql, [line.strip() for line in expected]


CASES = list(cases())


def columns_of(relation: Relation) -> Sequence[str] | None:
    return CATALOG.get(relation.name) if relation.schema == "public" else None


def said(lineages: Sequence[SqlLineage]) -> list[str]:
    found: list[str] = []
    for each in lineages:
        found += [f"into {each.target}"] if each.target else []
        for made in each.derived:
            how = f" = {made.transformation}" if made.transformation else ""
            found.append(f"{made.origin} -> {made.column}{how}")
        for bears in each.influences:
            on = f"{bears.column} " if bears.column else ""
            found.append(f"{bears.origin} ~ {on}{'+'.join(bears.why)}")
        found += [f"reads {table}" for table in each.tables]
        found += [f"{problem.missing}: {problem.message}" for problem in each.problems]
    return sorted(each.replace("shop.public.", "") for each in found)


@pytest.mark.parametrize(("dialect", "sql", "expected"), CASES, ids=[sql for _, sql, _ in CASES])
def test_a_statement_says_this(dialect: str, sql: str, expected: list[str]) -> None:
    assert said(of_script(sql, dialect, "shop.public", columns_of)) == expected


def test_the_table_is_read() -> None:
    assert len(CASES) > 90
