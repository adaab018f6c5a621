"""An OpenID provider on loopback: discovery, keys that rotate, a token endpoint, and outages."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from joserfc import jwt
from joserfc.jwk import RSAKey

from lily.clock import SystemClock

_KEYS = [RSAKey.generate_key(2048, {"kid": f"key-{n}", "use": "sig"}) for n in range(3)]


class Provider:
    """What it serves can be changed while it runs; `asked` counts its pages."""

    def __init__(self) -> None:
        self.keys: list[RSAKey] = [_KEYS[0]]
        self.away = False
        self.asked: list[str] = []
        self.codes: dict[str, dict[str, Any]] = {}
        self.url = ""
        self.max_age = 300

    def claims(self, **other: Any) -> dict[str, Any]:
        now = int(SystemClock().now().timestamp())
        who = {"sub": "ann@example.com", "uid": "00u1", "groups": ["stewards"]}
        given = {"iss": self.url, "aud": "api://lily", **who, "iat": now, "exp": now + 600}
        return {k: v for k, v in {**given, **other}.items() if v is not None}

    def token(
        self, key: RSAKey | None = None, header: dict[str, Any] | None = None, **other: Any
    ) -> str:
        signer = key or self.keys[-1]
        head = {"alg": "RS256", "kid": signer.kid, **(header or {})}
        return jwt.encode(head, self.claims(**other), signer, algorithms=[head["alg"]])

    def another_key(self) -> RSAKey:
        return _KEYS[2]

    def rotate(self) -> None:
        self.keys = [_KEYS[0], _KEYS[1]]

    def log_in(self, url: str, **claims: Any) -> tuple[str, str]:
        """As a browser that follows the login's redirect: the code and the state."""
        asked = {k: v[0] for k, v in parse_qs(urlsplit(url).query).items()}
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = uuid4().hex
        self.codes[code] = {**asked, "claims": claims}
        return code, asked["state"]

    def page(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
            }
        if path == "/keys":
            return {"keys": [key.as_dict(private=False) for key in self.keys]}
        return None

    def exchange(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        asked = self.codes.pop(form.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return None
        if authorization != "Basic " + base64.b64encode(b"client:secret%20text").decode():
            return None
        given = {"aud": asked["client_id"], "nonce": asked["nonce"], **asked["claims"]}
        return {"id_token": self.token(**given), "token_type": "Bearer"}


@contextmanager
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None if made.away else made.page(self.path))

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {k: v[0] for k, v in parse_qs(raw).items()}
            self._answer(made.exchange(form, self.headers.get("Authorization", "")))

        def _answer(self, found: dict[str, Any] | None) -> None:
            body = json.dumps(found or {}).encode()
            self.send_response(200 if found else 503)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", f"max-age={made.max_age}")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, name="provider")
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
