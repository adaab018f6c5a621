"""What SQL lineage promises beside the table of statements."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from lily.lineage.hiding import hides
from lily.lineage.names import joined
from lily.lineage.sql import edges, of_script, of_view
from lily.lineage.sql_model import Relation

CATALOG = {"people": ["id", "email", "dept_id"], "dept": ["id", "title"]}
NAMESPACE = "postgres://db:5432"
PEOPLE = "postgres://db:5432/shop.public.people"
VIEW = "postgres://db:5432/shop.public.v"


def columns_of(relation: Relation) -> Sequence[str] | None:
    return CATALOG.get(relation.name)


def name_of(relation: Relation) -> str:
    return joined(NAMESPACE, relation.catalog, relation.schema, relation.name)


def told(definition: str) -> list[tuple[str, str, str, str | None]]:
    lineage = of_view(definition, "postgres", "shop.public", columns_of)
    return sorted(
        (e.from_name, e.to_name, e.relationship_type, e.transformation)
        for e in edges(lineage, VIEW, name_of, None)
    )


def test_a_views_definition_gives_edges_into_the_view() -> None:
    assert told(" SELECT people.id,\n    md5(people.email) AS mail\n   FROM people;") == [
        (f"{PEOPLE}#email", f"{VIEW}#mail", "derived-from", "md5(email)"),
        (f"{PEOPLE}#id", f"{VIEW}#id", "derived-from", None),
    ]


def test_filters_are_edges_of_their_own_kind_into_the_whole_view() -> None:
    assert told("select email from people where dept_id > 1") == [
        (f"{PEOPLE}#dept_id", VIEW, "influences", None),
        (f"{PEOPLE}#email", f"{VIEW}#email", "derived-from", None),
    ]


def test_rows_that_are_only_counted_are_an_edge_between_tables() -> None:
    assert told("select count(*) as n from people") == [(PEOPLE, VIEW, "derived-from", None)]


def test_what_a_table_takes_from_itself_is_no_edge() -> None:
    [lineage] = of_script(
        "update people set email = lower(email) where id > 1", "postgres", "shop.public", columns_of
    )
    assert edges(lineage, PEOPLE, name_of, None) == []


def test_names_with_dots_and_hashes_have_one_reading() -> None:
    lineage = of_view('select "a#b" from "x.y"', "postgres", "shop.public", lambda _: None)
    [edge] = edges(lineage, VIEW, name_of, None)
    assert edge.from_name == f"{NAMESPACE}/shop.public.x%2Ey#a%23b"
    assert edge.to_name == f"{VIEW}#a%23b"


def test_a_value_that_comes_in_the_clear_on_one_way_is_not_hidden_on_the_other() -> None:
    both = "select md5(email) as m from people union select lower(email) from people"
    [(_, _, _, transformation)] = told(both)
    assert hides(transformation, masking=False) is None
    hashed = "select md5(email) as m from people union select sha256(email) from people"
    [(_, _, _, transformation)] = told(hashed)
    assert hides(transformation, masking=False) is not None


def test_a_long_transformation_is_cut() -> None:
    wide = " || ".join(["email"] * 2000)
    [(_, _, _, transformation)] = told(f"select {wide} as m from people")
    assert transformation is not None
    assert len(transformation) == 2000


def test_nesting_without_end_is_reported() -> None:
    deep = "select " + "(" * 3000 + "1" + ")" * 3000
    [lineage] = of_script(deep, "postgres", None, columns_of)
    assert [problem.missing for problem in lineage.problems] == ["syntax"]
    assert lineage.derived == ()


def test_a_view_of_several_statements_is_no_view() -> None:
    lineage = of_view("select 1; select 2", "postgres", None, columns_of)
    assert [problem.message for problem in lineage.problems] == ["a view has exactly one statement"]


VOCABULARY = """select from where people dept email id title join on using ( ) , * . as with a b
union all insert into create view table update set = merge lateral values group by order over count
partition case when then end 'x' 1 "Q" exists in not except recursive ;"""
WORDS = st.sampled_from(VOCABULARY.split())


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, max_size=25), st.sampled_from(["postgres", "snowflake", "spark"]))
def test_whatever_is_written_is_answered(words: list[str], dialect: str) -> None:
    for lineage in of_script(" ".join(words), dialect, "shop.public", columns_of):
        edges(lineage, VIEW, name_of, None)
