"""An asset and a fact, as examples in the description of the API."""

from typing import Any

GUID = "5f0c1a9e-6c0e-5f0a-9d8e-0b1c2d3e4f50"
NAME = "postgres://db.example.com:5432/shop.public.people"
AT = "2026-01-31T12:00:00Z"
ASSET: dict[str, Any] = {
    "asset_id": GUID,
    "guid": GUID,
    "qualified_name": NAME,
    "asset_name": "people",
    "asset_type": "table",
    "asset_owner": "ann",
    "description": "Everybody we sell to.",
    "parent_id": "b1f7f7a2-3a9a-5a39-8d36-0d4f0a2b6c11",
    "data_source": "postgres://db.example.com:5432",
    "external_id": None,
    "tags": ["PII"],
    "business_terms": ["customer"],
    "metadata": {"rows": 1200},
    "version": 3,
    "is_deleted": False,
    "archived": False,
    "created_at": AT,
    "updated_at": AT,
    "observed_at": AT,
    "applied_at": AT,
    "lane": "core",
    "tenant_id": "0e6b2c1c-1111-4222-8333-444455556666",
}
FACT: dict[str, Any] = {
    "position": 42,
    "kind": "AssetChanged",
    "at": AT,
    "by": "ann",
    "cause": "b7c0a3f2-5d0a-4a52-a3d1-7a9e6f0e9f11",
    "asset_id": GUID,
    "guid": GUID,
    "qualified_name": NAME,
    "asset_type": "table",
    "version": 3,
    "before": {"asset_owner": None},
    "after": {"asset_owner": "ann"},
}
