"""Secrets at rest: AES-256-GCM, with a ring of keys so that the newest can be rotated in."""

import base64
import hmac
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lily.errors import Unavailable

VERSION = b"\x01"


class Seal:
    """Seals with the first key; opens with whichever fits. A wrong key opens nothing."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = [AESGCM(key) for key in keys]
        self._raw = keys

    def seal(self, plain: bytes, about: bytes = b"") -> bytes:
        nonce = os.urandom(12)
        return VERSION + nonce + self._keys[0].encrypt(nonce, plain, about)

    def derived(self, purpose: str) -> list[bytes]:
        """A key for another purpose from each of ours, the newest first."""
        return [hmac.digest(key, f"lily:{purpose}".encode(), "sha256") for key in self._raw]

    def open(self, sealed: bytes, about: bytes = b"") -> bytes:
        nonce, body = sealed[1:13], sealed[13:]
        for key in self._keys:
            try:
                return key.decrypt(nonce, body, about)
            except InvalidTag:
                continue
        raise Unavailable(
            "A stored secret cannot be opened with the keys in LILY_SECRET_KEY_FILE;"
            " put the key that sealed it back into that file."
        )


def load(path: Path) -> Seal:
    """Read the key file, newest key first; make one with a fresh key if it is absent."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            pass  # another process was faster
        else:
            with os.fdopen(handle, "wb") as file:
                file.write(base64.b64encode(os.urandom(32)) + b"\n")
    return parse(path.read_text())


def parse(text: str) -> Seal:
    """One key a line, newest first."""
    return Seal([base64.b64decode(line) for line in text.split()])
