"""Proofs that a call is genuine, compared in constant time."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from lily.errors import Reject, Unreadable
from lily.sdk.webhooks import ARRIVED_AT

TOLERANCE = 300  # seconds between their clock and ours
REFUSAL = "The signature is missing or not right."


def same(given: str | None, wanted: str) -> None:
    """Refuse unless both are the same, and neither is empty."""
    if not given or not wanted:
        raise Reject(REFUSAL)
    if not hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
        raise Reject(REFUSAL)


def hexadecimal(secret: str, signed: bytes, algorithm: str) -> str:
    return hmac.new(secret.encode(), signed, algorithm).hexdigest()


def in_time(headers: Mapping[str, str], stamp: str | None) -> str:
    """The time that a call claims, if it is close to when it arrived."""
    if not stamp or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        raise Reject(REFUSAL)
    if abs(int(headers[ARRIVED_AT]) - int(stamp)) > TOLERANCE:
        raise Reject("The call is too old, or from the future; check the clocks.")
    return stamp


def standard(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    """Standard Webhooks 1.0: returns the id of the message."""
    id = headers.get("webhook-id", "")
    stamp = in_time(headers, headers.get("webhook-timestamp"))
    if not id or "." in id:
        raise Reject(REFUSAL)
    signed = f"{id}.{stamp}.".encode() + body
    digest = hmac.new(standard_key(secret), signed, hashlib.sha256).digest()
    wanted = base64.b64encode(digest)
    given = headers.get("webhook-signature", "").split()
    # All of them are compared: rotation sends one for the old secret and one for the new.
    hits = [
        hmac.compare_digest(each.encode("utf-8", "replace"), b"v1," + wanted) for each in given[:10]
    ]
    if not any(hits):
        raise Reject(REFUSAL)
    return id


def standard_key(secret: str) -> bytes:
    """`whsec_` and base64; any other text is its own bytes."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise Reject(REFUSAL) from None


def document(body: bytes) -> dict[str, Any]:
    """The JSON object in a body; with Python's own reader, whose numbers some tools sign."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable("The body is not valid JSON.") from None
    if not isinstance(found, dict):
        raise Unreadable("The body must be a JSON object.")
    return found
