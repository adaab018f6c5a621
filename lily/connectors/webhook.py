"""Target `webhook`: a signed CloudEvent to any URL, as Standard Webhooks wants it."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from lily.connectors.events import CONTENT, encoded
from lily.sdk import Call, Notice, Rate, Sending

MOST = 20_000  # bytes that receivers take by convention


class Webhook:
    """Sends a CloudEvent, signed; the same `webhook-id` on every try."""

    concurrency: ClassVar[int] = 16
    rate: ClassVar[Rate | None] = None
    threads: ClassVar[bool] = False

    class Options(BaseModel):
        model_config = ConfigDict(extra="forbid")

        url: SecretStr = Field(description="Where to POST. Kept secret, for it may be a password.")
        secret: SecretStr = Field(
            description="`whsec_` and base64, or any text of at least 16 characters."
        )
        previous_secret: SecretStr | None = Field(
            None, description="The one before, while receivers change: both sign."
        )
        headers: dict[str, SecretStr] = Field(default_factory=dict, max_length=20)
        source: str = Field("/lily", max_length=200, description="`source` of the events.")

        @field_validator("secret", "previous_secret")
        @classmethod
        def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
            if value is not None and len(key_of(value.get_secret_value())) < 16:
                raise ValueError("must hold at least 16 bytes")
            return value

        @field_validator("headers")
        @classmethod
        def _harmless(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
            for name, text in value.items():
                if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) or re.search(
                    r"[\r\n\0]", text.get_secret_value()
                ):
                    raise ValueError("names are letters, digits and dashes; values are one line")
                if name.lower() in ("host", "content-length", "transfer-encoding", "connection"):
                    raise ValueError(f"{name} is not yours to set")
            return value

    def __init__(self, options: Options) -> None:
        self._url = options.url.get_secret_value()
        secrets = [options.secret, options.previous_secret]
        self._keys = [key_of(s.get_secret_value()) for s in secrets if s is not None]
        self._headers = {k: v.get_secret_value() for k, v in options.headers.items()}
        self._source = options.source

    def address(self) -> str:
        return self._url

    def send(self, notice: Notice) -> Sending:
        if notice.echo:
            return None
        body = encoded(notice, self._source, MOST)
        assert notice.sent_at is not None
        stamp = int(notice.sent_at.timestamp())
        headers = {
            **self._headers,
            "Content-Type": CONTENT,
            "webhook-id": notice.id,
            "webhook-timestamp": str(stamp),
            "webhook-signature": signature(self._keys, notice.id, stamp, body),
        }
        if notice.traceparent:
            headers["traceparent"] = notice.traceparent
        yield Call("POST", self._url, headers, body)
        return None


def key_of(secret: str) -> bytes:
    """The bytes to sign with."""
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise ValueError("is not base64 behind whsec_") from None
    return secret.encode()


def signature(keys: Sequence[bytes], id: str, stamp: int, body: bytes) -> str:
    """One signature for each key, the newest first."""
    signed = f"{id}.{stamp}.".encode() + body
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
