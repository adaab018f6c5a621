"""The same through API, log and Spark: a shuffled day ends where the day in order ended."""

import random
from typing import Any

from tests.flow.people import Person

SOURCES = ("crawler", "dbt", "person")
SHOWN = ("asset_name", "asset_type", "asset_owner", "description", "tags", "metadata", "is_deleted")


def _document(chance: random.Random, minute: int) -> dict[str, Any]:
    said: dict[str, Any] = {
        "source": chance.choice(SOURCES),
        "observed_at": f"2026-02-01T10:{minute:02}:00Z",
    }
    if chance.random() < 0.2:
        return {**said, "is_deleted": True}
    given = {
        "asset_name": chance.choice("ab"),
        "asset_type": chance.choice(["table", "view"]),
        "asset_owner": chance.choice(["alice", "bob"]),
        "description": chance.choice(["x", "y", "z"]),
        "tags": chance.sample(["PII", "public", "gold"], chance.randrange(3)),
        "metadata": {chance.choice("kl"): chance.randrange(3)},
    }
    names = chance.sample(sorted(given), chance.randrange(1, 6))
    return {**said, "partial": chance.random() < 0.4, **{name: given[name] for name in names}}


def _send(api: Person, name: str, documents: list[dict[str, Any]], chance: random.Random) -> None:
    for document in documents:
        prefer = {"Prefer": "respond-async"} if chance.random() < 0.8 else {}
        headers = {**api.headers, **prefer}
        body = {"qualified_name": name, **document}
        assert api.client.post("/api/v1/metadata", json=body, headers=headers).is_success


def test_a_shuffled_and_doubled_day_ends_in_the_same_state(api: Person) -> None:
    chance = random.Random(7)
    for number in range(12):
        story = [_document(chance, minute) for minute in range(chance.randrange(2, 9))]
        mixed = story + chance.choices(story, k=2)
        chance.shuffle(mixed)
        _send(api, f"straight-{number}", story, chance)
        _send(api, f"mixed-{number}", mixed, chance)
    barrier = api.client.post("/api/v1/metadata", json={"asset_id": "end"}, headers=api.headers)
    assert barrier.status_code == 201
    for number in range(12):
        one, other = (
            api.client.get(f"/api/v1/metadata/{which}-{number}", headers=api.headers).json()
            for which in ("straight", "mixed")
        )
        for field in SHOWN:
            shown = (one.get(field), other.get(field))
            if field == "asset_name" and shown[0]:
                shown = (shown[0].replace("straight", "mixed"), shown[1])  # named by its id
            assert shown[0] == shown[1], (number, field)
