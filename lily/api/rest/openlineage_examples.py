"""How events of OpenLineage look, for the description of the API."""

from typing import Any

_SERVER = "postgres://db.example.com:5432"
PRODUCER = "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/client/python"
EVENT: dict[str, Any] = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-31T12:00:00Z",
    "run": {"runId": "01a1de6d-d77e-7269-a80e-c96a0e48d625"},
    "job": {"namespace": "airflow", "name": "nightly"},
    "inputs": [{"namespace": _SERVER, "name": "shop.public.people"}],
    "outputs": [
        {
            "namespace": _SERVER,
            "name": "shop.public.newsletter",
            "facets": {
                "columnLineage": {
                    "fields": {
                        "address": {
                            "inputFields": [
                                {
                                    "namespace": _SERVER,
                                    "name": "shop.public.people",
                                    "field": "email",
                                    "transformations": [{"type": "DIRECT", "masking": False}],
                                }
                            ]
                        }
                    }
                }
            },
        }
    ],
    "producer": PRODUCER,
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
}
DATASET: dict[str, Any] = {
    "eventTime": "2026-01-31T12:00:00Z",
    "dataset": {"namespace": _SERVER, "name": "shop.public.people"},
    "producer": PRODUCER,
}
EVENTS: list[dict[str, Any]] = [EVENT, DATASET]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "An event of OpenLineage 2-0-2, told apart by what it has: a `run`, a"
    " `dataset`, or only a `job`. Facets may be any; those that are not understood are kept.",
    "required": ["eventTime"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "eventType": {"type": ["string", "null"]},
        "run": {"type": "object"},
        "job": {"type": "object"},
        "dataset": {"type": "object"},
        "inputs": {"type": ["array", "null"], "items": {"type": "object"}},
        "outputs": {"type": ["array", "null"], "items": {"type": "object"}},
        "producer": {"type": "string"},
    },
}
