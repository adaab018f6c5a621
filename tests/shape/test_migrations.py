"""Migrations only widen the schema, so that the release before goes on beside the new one."""

import re

import pytest

from lily.store.migrate import Migration, migrations

FIRST_BOUND = 17  # what came before was never released
COMMENT = re.compile(r"--.*$", re.MULTILINE)
BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
# A statement that takes away what the code before may use, and why it does.
NARROWS = {
    r"\bDROP (TABLE|COLUMN|VIEW|FUNCTION|SEQUENCE|SCHEMA|TYPE)\b": "something is dropped",
    r"\bRENAME\b": "something is renamed",
    r"\bALTER (COLUMN )?\w+ (SET DATA )?TYPE\b": "a column changes its type",
    r"\bSET NOT NULL\b": "a column must be given from now on",
    r"\bADD COLUMN (?:(?!DEFAULT|,|;).)*NOT NULL(?:(?!DEFAULT|,|;).)*[,;]": "so must a new one",
    r"\bREVOKE\b.*\bFROM lily_": "a right is taken away",
    r"\bTRUNCATE\b": "rows are dropped",
}
ALLOWED = re.compile(r"^-- Contract, since (\d+\.\d+): \S", re.MULTILINE)


def narrows(step: Migration) -> list[str]:
    """What of a migration the code before could not live with."""
    text = BODY.sub("''", COMMENT.sub("", step.sql))
    found = [why for pattern, why in NARROWS.items() if re.search(pattern, text, re.I | re.S)]
    for name in re.findall(r"DROP CONSTRAINT (\w+)", text, re.I):
        if not re.search(rf"ADD CONSTRAINT {name}\b", text, re.I):
            found.append(f"the constraint {name} is dropped and not widened")
    return found


@pytest.mark.parametrize(
    "step", [m for m in migrations() if m.number >= FIRST_BOUND], ids=lambda m: m.name
)
def test_a_migration_widens_or_says_since_when_nobody_needs_what_it_takes(step: Migration) -> None:
    assert not narrows(step) or ALLOWED.search(step.sql)


@pytest.mark.parametrize(
    "line",
    [
        "DROP TABLE tenant;",
        "ALTER TABLE tenant RENAME COLUMN name TO title;",
        "ALTER TABLE tenant ALTER COLUMN name TYPE int;",
        "ALTER TABLE tenant ALTER name SET NOT NULL;",
        "ALTER TABLE tenant ADD COLUMN more text NOT NULL;",
        "ALTER TABLE tenant DROP CONSTRAINT tenant_state_check;",
        "REVOKE SELECT ON tenant FROM lily_app;",
    ],
)
def test_what_narrows_is_noticed(line: str) -> None:
    assert narrows(Migration(99, "0099_line.sql", line))


@pytest.mark.parametrize(
    "line",
    [
        "ALTER TABLE tenant ADD COLUMN more text;",
        "ALTER TABLE tenant ADD COLUMN more text NOT NULL DEFAULT '';",
        "ALTER TABLE a DROP CONSTRAINT c; ALTER TABLE a ADD CONSTRAINT c CHECK (true);",
        "CREATE FUNCTION f() RETURNS int AS $$ TRUNCATE x $$; -- DROP TABLE t",
    ],
)
def test_what_widens_is_let_through(line: str) -> None:
    assert not narrows(Migration(99, "0099_line.sql", line))
