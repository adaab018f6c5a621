"""An estate as large ones are shaped: sources, databases, schemas, tables with a long tail of
columns, dashboards with fields. The same seed always gives the same estate, streamed."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from lily.cli.bench.estate import (
    AREAS,
    ASPECTS,
    COLUMNS,
    FORMATS,
    SENTENCES,
    SOURCES,
    STAGES,
    SUBJECTS,
    TAGS,
    TEAMS,
    TERMS,
)

WIDEST = 100_000
TABLES_A_SCHEMA = 40
SCHEMAS_A_DATABASE = 12
TYPES = ("text", "bigint", "numeric(18,2)", "timestamptz", "boolean", "date", "jsonb", "uuid")

_encode = msgspec.json.encode


def write(file: IO[bytes], count: int, seed: int = 1) -> Counter[str]:
    """So many assets as NDJSON; how many there are of each kind."""
    kinds: Counter[str] = Counter()
    held: list[bytes] = []
    for document in estate(count, seed):
        kinds[document["asset_type"]] += 1
        held.append(_encode(document))
        if len(held) == 10_000:
            file.write(b"\n".join(held) + b"\n")
            held = []
    file.write(b"".join(line + b"\n" for line in held))
    return kinds


def estate(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """The first so many assets of an estate that has no end."""
    left = count
    for document in _endless(random.Random(seed), min(WIDEST, count // 10)):
        if left == 0:
            return
        left -= 1
        yield document


def _endless(chance: random.Random, widest: int) -> Iterator[dict[str, Any]]:
    number = 0
    while True:
        source, pattern = SOURCES[number % len(SOURCES)]
        place = pattern.format(number)
        yield {"qualified_name": place, "asset_name": f"{source} {number}",
               "asset_type": "source", "data_source": source}  # fmt: skip
        if source == "tableau":
            yield from _workspace(chance, source, place)
        else:
            yield from _database(chance, source, place, widest if number == 0 else 0)
        number += 1


def _database(
    chance: random.Random, source: str, place: str, widest: int
) -> Iterator[dict[str, Any]]:
    area = chance.choice(AREAS)
    database = f"{place}/{area}"
    yield {"qualified_name": database, "asset_name": area, "asset_type": "database",
           "data_source": source, "parent_id": place}  # fmt: skip
    for each in range(SCHEMAS_A_DATABASE):
        name = f"{chance.choice(AREAS)}_{each}"
        schema = f"{database}.{name}"
        yield {"qualified_name": schema, "asset_name": name, "asset_type": "schema",
               "data_source": source, "parent_id": database}  # fmt: skip
        for table in range(TABLES_A_SCHEMA):
            width = widest if each == table == 0 and widest else _width(chance)
            yield from _table(chance, source, schema, table, width)


def _table(
    chance: random.Random, source: str, schema: str, number: int, width: int
) -> Iterator[dict[str, Any]]:
    subject = chance.choice(SUBJECTS)
    name = f"{chance.choice(STAGES)}_{subject}_{chance.choice(ASPECTS)}_{number}"
    table = f"{schema}.{name}"
    yield {
        "qualified_name": table,
        "asset_name": name,
        "asset_type": "table" if chance.random() < 0.85 else "view",
        "data_source": source,
        "asset_owner": f"{chance.choice(AREAS)}.{chance.randrange(40)}@example.com",
        "description": f"{subject.title()} data. " + " ".join(chance.sample(SENTENCES, 4)),
        "parent_id": schema,
        "tags": sorted(chance.sample(TAGS, chance.choice((0, 0, 1, 1, 2)))),
        "business_terms": sorted(chance.sample(TERMS, chance.choice((0, 0, 1)))),
        "metadata": {
            "team": chance.choice(TEAMS),
            "format": chance.choice(FORMATS),
            "row_count": chance.randrange(10_000_000),
            "tier": chance.randrange(1, 5),
        },
    }
    for ordinal in range(width):
        yield _column(chance, source, table, ordinal, "column")


def _workspace(chance: random.Random, source: str, place: str) -> Iterator[dict[str, Any]]:
    for number in range(TABLES_A_SCHEMA * 4):
        subject = chance.choice(SUBJECTS)
        name = f"{subject} {chance.choice(ASPECTS)} {number}".title()
        board = f"{place}/{chance.choice(AREAS)}/{name}"
        yield {
            "qualified_name": board, "asset_name": name, "asset_type": "dashboard",
            "data_source": source, "parent_id": place,
            "asset_owner": f"{chance.choice(AREAS)}.{chance.randrange(40)}@example.com",
            "description": " ".join(chance.sample(SENTENCES, 2)),
            "tags": sorted(chance.sample(TAGS, chance.choice((0, 1)))),
        }  # fmt: skip
        for ordinal in range(_width(chance)):
            yield _column(chance, source, board, ordinal, "field")


def _column(
    chance: random.Random, source: str, parent: str, ordinal: int, kind: str
) -> dict[str, Any]:
    word = COLUMNS[int(chance.random() * len(COLUMNS))]
    name = f"{word}_{ordinal}"
    document = {
        "qualified_name": f"{parent}#{name}",
        "asset_name": name,
        "asset_type": kind,
        "data_source": source,
        "metadata": {
            "data_type": TYPES[int(chance.random() * len(TYPES))],
            "nullable": chance.random() < 0.5,
            "ordinal": ordinal,
        },
    }
    lot = chance.random()
    if lot < 0.5:  # half of all columns were never described
        document["description"] = SENTENCES[int(lot * 2 * len(SENTENCES))]
    if word in ("email", "phone_number", "iban") and chance.random() < 0.33:
        document["tags"] = ["PII"]
    return document


def _width(chance: random.Random) -> int:
    """Most tables have a dozen columns, a few have thousands."""
    return min(WIDEST, int(4 * chance.paretovariate(1.25)))
