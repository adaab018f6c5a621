"""One table of decisions, for everything that answers: the API, PostgreSQL, Trino, the gateway.

Each row has a table of its own in a schema of its own, `people(id, email, born, country)`, and
says what somebody sees of a column. `want` is the decision; where an engine cannot express it,
the row names the next stricter one that it applies instead.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

Json = dict[str, Any]

# Who asks; what is said of them is kept by Lily's own groups and roles.
GROUPS = {"readers": ["rita", "bob"], "outside": ["joe", "bob"]}
ROLES = {"auditor": ["sam"]}
PEOPLE = ("ana", "rita", "joe", "sam", "bob")

# Later reveals less. `some` rows are those of the French.
STRICTER = ("clear", "partial", "year", "hash", "custom", "constant", "null", "deny")
FRENCH = "country = 'FR'"
NOBODY_S = "country = 'XX'"


class Row(msgspec.Struct, kw_only=True, frozen=True):
    about: str
    policies: tuple[Json, ...] = ()  # `resource` may be table, schema, column, tag:…
    column: str = "email"
    tags: tuple[str, ...] = ()  # of the column
    table_tags: tuple[str, ...] = ()
    schema_tags: tuple[str, ...] = ()
    until: int = 0  # hours that the tags last; an expired one lasted until an hour ago
    who: str = "ana"
    context: Json = {}  # that the API is told; no engine tells it
    allow: tuple[Json, ...] = ({},)  # everybody reads
    want: str = "clear"
    rows: str = "all"  # all, some, none
    postgres: str = ""  # where it differs from `want`; a mask is a denial there
    trino: str = ""
    gateway: str = ""

    def expected(self, engine: str) -> str:
        said: str = getattr(self, engine, "")
        if said:
            return said
        is_mask = self.want not in ("clear", "deny")
        return "deny" if engine == "postgres" and is_mask else self.want


def mask(kind: str, resource: str = "tag:a", **more: Any) -> Json:
    value = {"value": "***"} if kind == "constant" else {}
    expressions = {"expressions": CUSTOM} if kind == "custom" else {}
    return {"effect": "mask", "mask": {"kind": kind, **value, **expressions},
            "resource": resource, **more}  # fmt: skip


def deny(resource: str = "tag:a", **more: Any) -> Json:
    return {"effect": "deny", "resource": resource, **more}


def rows(condition: str, resource: str = "table", **more: Any) -> Json:
    return {"effect": "filter", "row_filter": condition, "resource": resource, **more}


def user(name: str) -> Json:
    return {"user": name}


def group(name: str) -> Json:
    return {"group": name}


CUSTOM = dict.fromkeys(("postgres", "trino", "duckdb"), "'custom'")
_NOW = datetime.now(UTC)  # noqa: TID251  windows around the moment of the test


def _hours(start: int, end: int) -> Json:
    def at(hours: int) -> str:
        return (_NOW + timedelta(hours=hours)).strftime("%H:%M")

    return {"time_of_day": {"from": at(start), "to": at(end)}}


def _days(start: int, end: int) -> Json:
    def at(days: int) -> str:
        return (_NOW + timedelta(days=days)).strftime("%Y-%m-%d")

    return {"date_range": {"from": at(start), "to": at(end)}}


def _weekdays(*distances: int) -> Json:
    return {"days_of_week": [(_NOW + timedelta(days=d)).strftime("%a").lower() for d in distances]}


NOW, LATER = _hours(-2, 2), _hours(4, 6)
THESE_DAYS, LAST_WEEK = _days(-2, 2), _days(-9, -4)
TODAY, ANOTHER_DAY = _weekdays(-1, 0, 1), _weekdays(3)
AUDIT, OFFICE = {"purpose": ["audit"]}, {"network": ["10.0.0.0/8"]}
MOON = {"moon": "full"}
A = ("a",)
AB = ("a", "b")

TABLE: list[Row] = [
    Row(about="nothing is said"),
    Row(about="a tag of which no policy speaks", tags=("c",)),
    # Each kind of mask, and deny
    Row(about="mask null", tags=A, policies=(mask("null"),), want="null"),
    Row(about="mask constant", tags=A, policies=(mask("constant"),), want="constant"),
    Row(about="mask hash", tags=A, policies=(mask("hash"),), want="hash"),
    Row(about="mask partial", tags=A, policies=(mask("partial"),), want="partial"),
    Row(about="mask of each engine's own", tags=A, policies=(mask("custom"),), want="custom"),
    Row(about="mask year", column="born", tags=A, policies=(mask("year"),), want="year"),
    Row(about="deny", tags=A, policies=(deny(),), want="deny"),
    Row(about="a hash cannot be a date: null", column="born", tags=A, policies=(mask("hash"),),
        want="hash", postgres="deny", trino="null", gateway="null"),
    Row(about="a year cannot be a text: null", tags=A, policies=(mask("year"),), want="year",
        postgres="deny", trino="null", gateway="null"),
    Row(about="a constant cannot be a date: null", column="born", tags=A,
        policies=(mask("constant"),), want="constant", postgres="deny", trino="null",
        gateway="null"),
    Row(about="a custom mask that no engine has: null", tags=A,
        policies=({"effect": "mask", "resource": "tag:a",
                   "mask": {"kind": "custom", "expressions": {"oracle": "'x'"}}},),
        want="custom", postgres="deny", trino="null", gateway="null"),
    # What a policy is about
    Row(about="of the column itself", policies=(mask("null", "column"),), want="null"),
    Row(about="of another column", column="country", policies=(mask("null", "column"),)),
    Row(about="under the table", policies=(mask("hash", "under table"),), want="hash"),
    Row(about="under the schema", policies=(mask("null", "under schema"),), want="null"),
    Row(about="deny under the schema", policies=(deny("under schema"),), want="deny"),
    Row(about="a denied table has no columns to read", policies=(deny("table"),), want="deny"),
    Row(about="a mask of a table is not one of its columns", policies=(mask("null", "table"),)),
    # Hierarchy
    Row(about="tag of the table", table_tags=A, policies=(mask("null"),), want="null"),
    Row(about="tag of the schema", schema_tags=A, policies=(mask("null"),), want="null"),
    Row(about="tag of the schema denies", schema_tags=A, policies=(deny(),), want="deny"),
    Row(about="tag of the schema, for others", schema_tags=A, who="rita",
        policies=(mask("null", exempt_groups=["readers"]),)),
    Row(about="tag of table and column: the stricter", table_tags=A, tags=("b",),
        policies=(mask("partial"), mask("hash", "tag:b")), want="hash"),
    Row(about="tag of another column", column="country", tags=(), policies=(mask("null"),)),
    # Two tags, two policies: every pair
    Row(about="partial and hash", tags=AB, policies=(mask("partial"), mask("hash", "tag:b")),
        want="hash"),
    Row(about="partial and null", tags=AB, policies=(mask("partial"), mask("null", "tag:b")),
        want="null"),
    Row(about="partial and constant", tags=AB,
        policies=(mask("partial"), mask("constant", "tag:b")), want="constant"),
    Row(about="hash and null", tags=AB, policies=(mask("hash"), mask("null", "tag:b")),
        want="null"),
    Row(about="hash and constant", tags=AB, policies=(mask("hash"), mask("constant", "tag:b")),
        want="constant"),
    Row(about="hash and custom", tags=AB, policies=(mask("hash"), mask("custom", "tag:b")),
        want="custom"),
    Row(about="constant and null", tags=AB,
        policies=(mask("constant"), mask("null", "tag:b")), want="null"),
    Row(about="deny and null", tags=AB, policies=(deny(), mask("null", "tag:b")), want="deny"),
    Row(about="deny and partial", tags=AB, policies=(mask("partial"), deny("tag:b")),
        want="deny"),
    Row(about="year and null", column="born", tags=AB,
        policies=(mask("year"), mask("null", "tag:b")), want="null"),
    Row(about="two policies on one tag", tags=A, policies=(mask("partial"), mask("hash")),
        want="hash"),
    Row(about="one of two tags is gone", tags=("b",), policies=(deny(), mask("hash", "tag:b")),
        want="hash"),
    # Subjects and exemptions
    Row(about="an exempt group", tags=A, who="rita",
        policies=(mask("null", exempt_groups=["readers"]),)),
    Row(about="not in the exempt group", tags=A, who="joe",
        policies=(mask("null", exempt_groups=["readers"]),), want="null"),
    Row(about="exempt from one of two", tags=AB, who="rita",
        policies=(mask("null", exempt_groups=["readers"]), mask("hash", "tag:b")), want="hash"),
    Row(about="exempt from both", tags=AB, who="bob",
        policies=(mask("null", exempt_groups=["readers"]),
                  deny("tag:b", exempt_groups=["outside"]))),
    Row(about="exempt from deny, not from mask", tags=AB, who="joe",
        policies=(mask("null", exempt_groups=["readers"]),
                  deny("tag:b", exempt_groups=["outside"])), want="null"),
    Row(about="a group that is named", tags=A, who="joe",
        policies=(deny(subject=group("outside")),), want="deny"),
    Row(about="a group that is not theirs", tags=A, policies=(deny(subject=group("outside")),)),
    Row(about="a user who is named", tags=A, policies=(deny(subject=user("ana")),), want="deny"),
    Row(about="another user", tags=A, who="joe", policies=(deny(subject=user("ana")),)),
    Row(about="a role that is named", tags=A, who="sam",
        policies=(mask("hash", subject={"role": "auditor"}),), want="hash"),
    Row(about="a role that is not theirs", tags=A,
        policies=(mask("hash", subject={"role": "auditor"}),)),
    Row(about="named and exempt", tags=A, who="bob",
        policies=(deny(subject=group("outside"), exempt_groups=["readers"]),)),
    Row(about="one of several who are named", tags=A, who="sam",
        policies=(deny(subject=[user("joe"), {"role": "auditor"}]),), want="deny"),
    # Grants
    Row(about="nobody allows it", allow=(), want="deny"),
    Row(about="only a group is allowed", who="rita", allow=({"subject": group("readers")},)),
    Row(about="only another group is allowed", who="joe",
        allow=({"subject": group("readers")},), want="deny"),
    Row(about="a user is allowed", allow=({"subject": user("ana")},)),
    Row(about="allowed, and masked", allow=({"subject": user("ana")},), tags=A,
        policies=(mask("hash"),), want="hash"),
    Row(about="masked, and not allowed", allow=({"subject": user("joe")},), tags=A,
        policies=(mask("hash"),), want="deny"),
    # Conditions
    Row(about="within the hours", tags=A, policies=(mask("null", conditions=NOW),), want="null"),
    Row(about="outside the hours", tags=A, policies=(mask("null", conditions=LATER),)),
    Row(about="within the dates", tags=A, policies=(deny(conditions=THESE_DAYS),), want="deny"),
    Row(about="after the dates", tags=A, policies=(deny(conditions=LAST_WEEK),)),
    Row(about="on this day", tags=A, policies=(mask("hash", conditions=TODAY),), want="hash"),
    Row(about="on another day", tags=A, policies=(mask("hash", conditions=ANOTHER_DAY),)),
    Row(about="allowed in these hours", allow=({"conditions": NOW},)),
    Row(about="allowed in other hours", allow=({"conditions": LATER},), want="deny"),
    Row(about="allowed until last week", allow=({"conditions": LAST_WEEK},), want="deny"),
    Row(about="hours and day, both", tags=A, policies=(deny(conditions={**NOW, **TODAY}),),
        want="deny"),
    Row(about="hours, but not the day", tags=A,
        policies=(deny(conditions={**NOW, **ANOTHER_DAY}),)),
    Row(about="a purpose that nobody tells counts against them", tags=A,
        policies=(mask("null", conditions=AUDIT),), want="null"),
    Row(about="another purpose, which no engine tells", tags=A, context={"purpose": "fun"},
        policies=(mask("hash", conditions=AUDIT),), postgres="deny", trino="hash",
        gateway="hash"),
    Row(about="allowed for a purpose, which no engine tells", context={"purpose": "audit"},
        allow=({"conditions": AUDIT},), postgres="deny", trino="deny", gateway="deny"),
    Row(about="allowed from the office, which no engine tells", context={"network": "10.1.2.3"},
        allow=({"conditions": OFFICE},), postgres="deny", trino="deny", gateway="deny"),
    Row(about="not from the office", context={"network": "192.0.2.1"},
        allow=({"conditions": OFFICE},), want="deny"),
    Row(about="a condition that nobody knows denies", tags=A,
        policies=(mask("partial", conditions=MOON),), want="deny"),
    Row(about="a permission that nobody understands denies", allow=({}, {"conditions": MOON}),
        want="deny"),
    Row(about="that condition, for others", tags=A, who="rita",
        policies=(mask("partial", conditions=MOON, exempt_groups=["readers"]),)),
    # Validity of a tag
    Row(about="a tag that lasts", tags=A, until=5, policies=(mask("null"),), want="null"),
    Row(about="a tag that has ended", tags=A, until=-1, policies=(mask("null"),)),
    Row(about="a tag of the table that has ended", table_tags=A, until=-1, policies=(deny(),)),
    # Rows
    Row(about="rows of the table", policies=(rows(FRENCH),), rows="some"),
    Row(about="rows under the schema", policies=(rows(FRENCH, "under schema"),), rows="some"),
    Row(about="rows by a tag of the table", table_tags=A, policies=(rows(FRENCH, "tag:a"),),
        rows="some"),
    Row(about="rows by a tag of a column", tags=A, policies=(rows(FRENCH, "tag:a"),),
        rows="some"),
    Row(about="rows by a policy on a column", policies=(rows(FRENCH, "column"),), rows="some"),
    Row(about="rows for another group", policies=(rows(FRENCH, subject=group("outside")),)),
    Row(about="rows for this group", who="joe",
        policies=(rows(FRENCH, subject=group("outside")),), rows="some"),
    Row(about="rows, exempt", who="rita", policies=(rows(FRENCH, exempt_groups=["readers"]),)),
    Row(about="two filters, both hold", policies=(rows(FRENCH), rows(NOBODY_S)), rows="none"),
    Row(about="rows and a mask", tags=A, policies=(rows(FRENCH), mask("hash")), want="hash",
        rows="some"),
    Row(about="rows and a denial", tags=A, policies=(rows(FRENCH), deny()), want="deny",
        rows="some"),
    Row(about="rows outside the hours", policies=(rows(FRENCH, conditions=LATER),)),
    Row(about="rows within the hours", policies=(rows(FRENCH, conditions=NOW),), rows="some"),
]  # fmt: skip
