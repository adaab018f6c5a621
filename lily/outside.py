"""Reading what other servers publish: checked addresses only, small answers, no redirects."""

import http.client
import re
import socket
import ssl
from collections.abc import Mapping, Sequence

from lily.errors import Reject, Unavailable
from lily.identity.jwks import Published
from lily.notify import egress

PATIENCE = 5.0
LARGEST = 1_000_000
_AGE = re.compile(r"max-age=(\d{1,9})")


class Outside:
    """Calls that must end soon. The address that was checked is the one that is called."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._networks = egress.networks(allow)
        self._tls = ssl.create_default_context()

    def get(self, url: str) -> Published:
        return self._call("GET", url, b"", {"Accept": "application/json"})

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Published:
        return self._call("POST", url, body, headers)

    def check(self, url: str) -> None:
        """Refuse an address that would never be called; one that is not known yet may come."""
        parts = egress.parts(url)
        try:
            self._addresses(parts.hostname or "", parts.port or 0, parts.scheme)
        except Unavailable:
            return

    def _call(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Published:
        parts = egress.parts(url)
        port = parts.port or egress.SCHEMES[parts.scheme]
        host = parts.hostname or ""
        address = self._addresses(host, port, parts.scheme)[0]
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            link = socket.create_connection((address, port), PATIENCE)
            secure = self._tls.wrap_socket(link, server_hostname=host) if (
                parts.scheme == "https"
            ) else link  # fmt: skip
            with secure:
                return _asked(secure, host, port, method, path, body, headers)
        except (OSError, http.client.HTTPException) as cause:
            raise Unavailable(f"{host} does not answer: {type(cause).__name__}.") from cause

    def _addresses(self, host: str, port: int, scheme: str) -> list[str]:
        try:
            found = socket.getaddrinfo(host, port or None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as cause:
            raise Unavailable(f"{host} is not known.") from cause
        addresses = [str(info[4][0]) for info in found]
        egress.allowed(addresses, self._networks)
        if scheme == "http" and not self._is_private(addresses):
            raise Reject("must begin with https://")
        return addresses

    def _is_private(self, addresses: Sequence[str]) -> bool:
        try:
            egress.allowed(addresses, [])
        except Reject:
            return True
        return False


def _asked(
    link: socket.socket,
    host: str,
    port: int,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
) -> Published:
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    connection.sock = link
    connection.request(method, path, body or None, dict(headers))
    answer = connection.getresponse()
    found = answer.read(LARGEST + 1)
    if answer.status != 200 or len(found) > LARGEST:
        raise Unavailable(f"{host} answered {answer.status}.")
    age = _AGE.search(answer.headers.get("cache-control", ""))
    return Published(found, float(age[1]) if age else None)
