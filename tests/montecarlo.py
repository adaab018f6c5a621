"""What Monte Carlo sends, literally, and how it signs it."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlencode

SECRET = "lily-test-secret"
ACCOUNT = "9a59c6f1-203a-4c72-8cd7-132db7f21b92"
ID = "f83867b6-8f25-428b-807c-08518f63384c"
URL = f"https://getmontecarlo.com/incidents/{ID}"
ANOMALY: dict[str, Any] = {
    "account": {"id": ACCOUNT},
    "action": "incident",
    "payload": {
        "event_list": [{"event_details": "Has 42 rows vs. 101 expected", "table_name": "artemis"}],
        "group_id": "zeus:ares",
        "incident_id": ID,
        "url": URL,
    },
    "type": "open_anomaly_incident",
    "version": "v0.1",
}
BREACH: dict[str, Any] = {
    "account": {"id": ACCOUNT},
    "action": "incident",
    "payload": {
        "event_list": [
            {
                "data": {
                    "hits": [
                        {
                            "field": None,
                            "measurement_timestamp": "Jan 15, 06:10PM",
                            "timestamp": "",
                            "value": "50.0",
                            "value_rounded": "50",
                        }
                    ],
                    "metric_display_name": "custom_metric_1234",
                    "rule_comparisons": [
                        {"metric": "custom_metric_1234", "operator": ">", "threshold": "49.0"}
                    ],
                },
                "rule": {
                    "comparisons": [
                        {
                            "field": None,
                            "full_table_id": None,
                            "metric": "custom_metric_1234",
                            "operator": "GT",
                            "threshold": 49.0,
                            "warehouse_uuid": "custom_metric_1234",
                        }
                    ],
                    "creator_id": None,
                    "description": "test rule",
                    "execution_time": None,
                    "prev_execution_time": None,
                    "rule_type": "custom_sql",
                    "start_time": None,
                    "timezone": None,
                    "uuid": "0c8e06aa-a44b-4f2d-8a37-5ed3f394431d",
                },
                "table_name": None,
            }
        ],
        "group_id": None,
        "incident_id": ID,
        "url": URL,
    },
    "type": "open_custom_rule_anomaly_incident",
    "version": "v0.1",
}


def signed(call: dict[str, Any], secret: str = SECRET) -> tuple[dict[str, str], bytes]:
    """Headers and body, as Monte Carlo makes them."""
    text = urlencode(call).encode()
    digest = hmac.new(secret.encode(), text, hashlib.sha512).hexdigest()
    return {"x-mcd-signature": digest}, json.dumps(call).encode()
