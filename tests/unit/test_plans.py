"""What engines would be told that Lily only plans for, word by word."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lily import plugins
from lily.sdk.enforcers import Entry, Grantee, Report, Rule, Rules

GOLDEN = Path(__file__).parent.parent / "fixtures" / "plans"
TAXONOMY = "projects/p/locations/eu/taxonomies/7"
ENGINES: dict[str, tuple[dict[str, Any], str]] = {
    "snowflake": ({"namespace": "snowflake://acme"}, "snowflake://acme/SHOP.PUBLIC.PEOPLE"),
    "databricks": ({"namespace": "databricks://acme"}, "databricks://acme/main.shop.people"),
    "bigquery": ({"namespace": "bigquery", "taxonomy": TAXONOMY}, "bigquery/p.shop.people"),
    "ranger": ({"namespace": "hive://node:9083"}, "hive://node:9083/shop.people"),
}
COLUMNS: Mapping[str, Rule] = {
    "born": Rule("mask", "year"),
    "email": Rule("mask", "null"),
    "name": Rule("mask", "partial"),
    "note": Rule("mask", "constant", "it's gone"),
    "phone": Rule("mask", "hash"),
    "salary": Rule("deny"),
    "site": Rule("mask", "custom", expression="lower({column})"),
}


class Memory:
    """A ledger."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], Entry] = {}

    def entries(self) -> Sequence[Entry]:
        return list(self._kept.values())

    def add(self, entries: Iterable[Entry]) -> None:
        self._kept |= {(each.kind, each.part, each.column): each for each in entries}

    def drop(self, entries: Iterable[Entry]) -> None:
        for each in entries:
            self._kept.pop((each.kind, each.part, each.column), None)


class Wanted:
    """Everything is kept from everybody; what is masked not from readers."""

    fingerprint = "f"

    def __init__(self, columns: Mapping[str, Rule], *filters: str) -> None:
        self._columns, self._filters = columns, filters

    def rules(self, grantee: Grantee) -> Rules:
        if "pii_reader" in grantee.groups:
            denied = {name: rule for name, rule in self._columns.items() if rule.effect == "deny"}
            return Rules(denied)
        return Rules(self._columns, self._filters)


def built(engine: str) -> tuple[Any, str]:
    options, table = ENGINES[engine]
    return plugins.build(
        "enforcer", engine, {**options, "groups": {"pii_reader": "READERS"}}
    ), table


@pytest.mark.parametrize("engine", ENGINES)
def test_the_plan_is_word_by_word(engine: str) -> None:
    planner, table = built(engine)
    ledger = Memory()
    wanted = Wanted(COLUMNS, "country = 'FR'")
    first: Report = planner.enforce(table, lambda: wanted, ledger)
    assert planner.enforce(table, lambda: wanted, ledger) == first
    after: Report = planner.enforce(table, lambda: Wanted({"born": COLUMNS["born"]}), ledger)
    told = [f"{each.column or '*'}: {each.reason}" for each in first.findings]
    text = "\n".join(
        ["# everything", *first.plan, "# told", *told, "# only born is left", *after.plan, ""]
    )
    assert text == (GOLDEN / f"{engine}.txt").read_text()
    assert first.exempt["email"] == ("READERS",)
    assert first.exempt["salary"] == ()


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_planned_where_nothing_is_wanted_or_was(engine: str) -> None:
    planner, table = built(engine)
    assert planner.observe(table, lambda: Wanted({}), Memory()).plan == ()
    assert planner.owns(table) and not planner.owns(f"{table}#email")
    assert not planner.owns("postgres://warehouse:5432/shop.public.people")
    assert not planner.owns(table.rpartition(".")[0])


def test_another_mask_takes_the_place_of_the_first() -> None:
    planner, table = built("snowflake")
    ledger = Memory()
    plan: tuple[str, ...] = ()
    for kind in ("null", "hash"):
        wanted = Wanted({"email": Rule("mask", kind)})
        plan = planner.observe(table, lambda wanted=wanted: wanted, ledger).plan
    assert [line.partition("lily_")[2].partition("_")[0] for line in plan[-2:]] == ["hash", "null"]
    assert (" SET TAG " in plan[-2], " UNSET TAG " in plan[-1]) == (True, True)


def test_names_and_texts_cannot_leave_their_quotes() -> None:
    planner, _ = built("snowflake")
    bad = {'a"; DROP': Rule("mask", "constant", "x'); DROP TABLE t; --")}
    plan = planner.observe('snowflake://acme/a"b.c.d', lambda: Wanted(bad), Memory()).plan
    assert any("'x''); DROP TABLE t; --'" in line for line in plan)
    assert plan[-1].startswith('ALTER TABLE "a""b"."c"."d" MODIFY COLUMN "a""; DROP" SET TAG')
