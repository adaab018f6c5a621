"""What OpenAPI shows of the upload, which is plain Starlette."""

from typing import Any

LINE = '{"qualified_name": "postgres://db:5432/shop.public.people", "asset_type": "table"}\n'
JOB = "3b0e5c7e-9a35-4c68-8f0c-2f1d9f8f6a11"
_FILE = {"schema": {"type": "string"}, "example": LINE}
_BINARY = {"schema": {"type": "string", "format": "binary"}, "example": "(the file)"}

UPLOAD: dict[str, Any] = {
    "operationId": "bulk_upload",
    "summary": "Send a file of assets",
    "description": "JSON array, NDJSON, CSV, XLSX, XML or Parquet, by Content-Type or file name;"
    " gzip and zstd too. It is streamed to disk, and a job loads it.",
    "tags": ["bulk"],
    "parameters": [
        {
            "name": "name",
            "in": "query",
            "required": False,
            "description": "The file's name; its ending tells the format.",
            "schema": {"type": "string", "maxLength": 255},
        },
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/x-ndjson": _FILE,
            "application/json": {
                "schema": {"type": "array", "items": {"type": "object"}},
                "example": [{"asset_id": "people", "asset_type": "table"}],
            },
            "text/csv": {
                "schema": {"type": "string"},
                "example": "qualified_name,asset_type,tags\nshop.people,table,PII;gold\n",
            },
            "application/xml": {
                "schema": {"type": "string"},
                "example": "<assets><asset><asset_id>people</asset_id></asset></assets>",
            },
            "application/octet-stream": _BINARY,
        },
    },
    "responses": {
        "202": {
            "description": "It is safe on disk; the job will load it.",
            "headers": {"Location": {"schema": {"type": "string"}}},
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["job_id", "state", "status_url"],
                        "properties": {
                            "job_id": {"type": "string"},
                            "state": {"type": "string"},
                            "status_url": {"type": "string"},
                        },
                    },
                    "example": {
                        "job_id": JOB,
                        "state": "queued",
                        "status_url": f"/api/v1/metadata/bulk/status/{JOB}",
                    },
                }
            },
        }
    },
}
