"""An estate of made-up but plausible assets: the same number always gives the same asset."""

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

Document = dict[str, Any]

FAMILY = 10  # one asset of the core lane, and its fields
SOURCES = (
    ("postgres", "postgres://warehouse-{}:5432"), ("snowflake", "snowflake://acme-{}"),
    ("bigquery", "bigquery:acme-{}"), ("tableau", "tableau://bi-{}"), ("mysql", "mysql://shop-{}:3306"),
)  # fmt: skip
AREAS = (
    "sales", "finance", "marketing", "support", "logistics", "people", "product", "risk",
    "billing", "inventory", "growth", "compliance",
)  # fmt: skip
STAGES = ("raw", "stg", "int", "dim", "fct", "mart", "snap", "tmp")
SUBJECTS = (
    "customer", "order", "invoice", "payment", "shipment", "employee", "supplier", "product",
    "contract", "campaign", "ticket", "refund", "account", "session", "subscription", "warehouse",
    "address", "voucher", "forecast", "ledger", "claim", "policy", "lead", "visit", "return",
    "basket", "device", "event", "review", "salary",
)  # fmt: skip
ASPECTS = (
    "daily", "history", "summary", "detail", "current", "archive", "enriched", "clean", "eu", "us",
    "items", "status", "lines", "totals", "metrics", "audit", "latest", "by_region", "by_month",
    "snapshot",
)  # fmt: skip
COLUMNS = (
    "id", "email", "phone_number", "created_at", "updated_at", "amount", "currency", "countryCode",
    "first_name", "last_name", "birth_date", "status", "quantity", "unitPrice", "discount",
    "postal_code", "city", "channel", "external_ref", "is_active", "comment", "score", "iban",
    "tax_rate", "valid_from", "valid_to",
)  # fmt: skip
TAGS = ("PII", "gold", "silver", "bronze", "GDPR", "finance-critical", "deprecated", "certified")
TERMS = ("Customer", "Net revenue", "Churn", "Active user", "Order value", "Margin", "Stock level")
TEAMS = tuple(f"team-{area}" for area in AREAS)
FORMATS = ("parquet", "iceberg", "heap", "columnar", "delta")
SENTENCES = (
    "Loaded every night from the operational system and checked against yesterday's totals.",
    "One row per business key; late arrivals are merged for seven days and then closed.",
    "Used by the weekly board report and by the reconciliation job of the controlling team.",
    "Amounts are in the currency of the contract; see the conversion table for euro values.",
    "Do not join on the natural key across regions, because it is only unique within a country.",
    "Deletions in the source arrive as tombstones and are kept for the legal retention period.",
    "Owned by the domain team, who answer questions in their channel within one working day.",
    "Partitioned by month and clustered by account so that dashboards stay quick.",
)


def asset(number: int, edition: int = 0) -> Document:
    """Asset by number; every tenth is a table or the like, the rest are its fields."""
    family, place = divmod(number, FAMILY)
    return core(family, edition) if place == 0 else field(family, place, edition)


def core(family: int, edition: int = 0) -> Document:
    """A table, view, dashboard or topic. A new edition really changes it."""
    chance = random.Random(family)
    source, pattern = SOURCES[family % len(SOURCES)]
    area, subject = chance.choice(AREAS), chance.choice(SUBJECTS)
    name = f"{chance.choice(STAGES)}_{subject}_{chance.choice(ASPECTS)}_{family}"
    bi = source == "tableau"
    kind = "dashboard" if bi else chance.choice(("table", "table", "table", "view"))
    return {
        "qualified_name": f"{pattern.format(family % 17)}/{area}.{_schema(family)}.{name}",
        "asset_name": name.replace("_", " ").title() if bi else name,
        "asset_type": kind,
        "data_source": source,
        "asset_owner": f"{chance.choice(AREAS)}.{chance.randrange(40)}@example.com",
        "description": _story(chance, f"{subject.title()} data of {area}, edition {edition}."),
        "tags": sorted(chance.sample(TAGS, chance.choice((0, 0, 1, 1, 2)))),
        "business_terms": sorted(chance.sample(TERMS, chance.choice((0, 1, 2)))),
        "metadata": {
            "team": chance.choice(TEAMS),
            "format": chance.choice(FORMATS),
            "row_count": chance.randrange(10_000_000) + edition,
            "tier": chance.randrange(1, 5),
            "refresh": chance.choice(("hourly", "daily", "weekly")),
            "cost_center": f"CC-{chance.randrange(900):04d}",
        },
    }


def field(family: int, place: int, edition: int = 0) -> Document:
    """A column or dashboard field of a family's asset."""
    chance = random.Random(family * FAMILY + place)
    parent = core(family)
    name = COLUMNS[(family + place * 3) % len(COLUMNS)]
    kind = "field" if parent["asset_type"] == "dashboard" else "column"
    return {
        "qualified_name": f"{parent['qualified_name']}#{name}",
        "asset_name": name,
        "asset_type": kind,
        "data_source": parent["data_source"],
        "description": _story(chance, f"The {name} of it, edition {edition}.", 1),
        "tags": ["PII"] if name in ("email", "phone_number", "iban") and family % 3 == 0 else [],
        "metadata": {
            "data_type": chance.choice(("text", "bigint", "numeric", "timestamptz", "boolean")),
            "nullable": chance.random() < 0.5,
            "ordinal": place,
        },
    }


def assets(count: int) -> Iterator[Document]:
    return (asset(number) for number in range(count))


def _schema(family: int) -> str:
    return f"{AREAS[family % len(AREAS)]}_{family % 7}"


def _story(chance: random.Random, first: str, sentences: int = 6) -> str:
    return " ".join((first, *chance.sample(SENTENCES, sentences)))


class Stream:
    """Observations for a load: new ones without end, and second editions of those sent before."""

    def __init__(self, mark: str, templates: int = 2_000) -> None:
        self._templates = [_template(family, mark) for family in range(templates)]

    def one(self, number: int, edition: int = 0) -> bytes:
        raw = self._templates[number % len(self._templates)]
        return raw.replace(b"@N", b"%d" % number).replace(b"@E", b"%d" % edition)

    def many(self, numbers: Iterable[tuple[int, int]]) -> bytes:
        return b"[" + b",".join(self.one(number, edition) for number, edition in numbers) + b"]"


def _template(family: int, mark: str) -> bytes:
    document = core(family)
    document["qualified_name"] += f"_{mark}_@N"
    document["asset_name"] += "_@N"
    document["description"] = document["description"].replace("edition 0", "edition @E")
    return json.dumps(document, ensure_ascii=False).encode()
