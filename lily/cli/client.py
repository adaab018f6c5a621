"""The command line as a client of the API: plain HTTP, and answers turned into sentences."""

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from lily.cli import configured, home
from lily.cli.failures import NOT_ALLOWED, UNREACHABLE, USAGE, Failure, from_status

CURES = {
    401: "Log in again: check the credentials or the token.",
    403: "Ask an admin for the right.",
    429: "Wait a moment and try again.",
    503: "Try again in a moment, or ask `lily doctor`.",
}
Query = Mapping[str, object]


class Client:
    """One API, with one token; each request has its own connection, which is cheap enough."""

    def __init__(self, url: str, token: str = "", timeout: float = 60.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failure(f"{url} is not the URL of an API; it looks like http://host:8585.", USAGE)
        self.url = url.rstrip("/")
        self.token = token
        self._base = parts.path.rstrip("/")
        self._host, self._port, self._timeout = parts.hostname, parts.port, timeout
        secure = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection

    def get(self, path: str, **query: object) -> Any:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: object = None, **query: object) -> Any:
        return self.call("POST", path, body, query)

    def patch(self, path: str, body: object) -> Any:
        return self.call("PATCH", path, body)

    def delete(self, path: str, **query: object) -> Any:
        return self.call("DELETE", path, query=query)

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The decoded answer; raises a sentence for anything that is not a success."""
        status, answer = self.exchange(method, path, body, query, headers)
        if status >= 400:
            raise refusal(status, answer)
        return answer

    def exchange(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Status and decoded answer, whatever the status."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._base + path + ("?" + urlencode(given, doseq=True) if given else "")
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        link = self._kind(self._host, self._port, timeout=self._timeout)
        try:
            link.request(method, target, raw, self._headers(raw, headers))
            answer = link.getresponse()
            return answer.status, decoded(answer.read())
        except (OSError, http.client.HTTPException) as cause:
            raise Failure(
                f"The API at {self.url} does not answer ({cause});"
                " start it with `lily up`, or give its address with --url.",
                UNREACHABLE,
            ) from cause
        finally:
            link.close()

    def upload(self, path: str, file: IO[bytes], size: int, **query: object) -> tuple[int, Any]:
        """Send a file as the body, piece by piece."""
        target = f"{self._base}{path}?{urlencode(query)}"
        headers = self._headers(None, {"Content-Type": "application/octet-stream"})
        link = self._kind(self._host, self._port, timeout=self._timeout)
        try:
            link.request("POST", target, file, {**headers, "Content-Length": str(size)})
            answer = link.getresponse()
            return answer.status, decoded(answer.read())
        except http.client.HTTPException as cause:
            raise Failure(
                f"The API at {self.url} does not answer ({cause}).", UNREACHABLE
            ) from cause
        finally:
            link.close()

    def _headers(self, raw: bytes | None, more: Mapping[str, str] | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "lily-cli", **(more or {})}
        if raw is not None:
            headers.setdefault("Content-Type", "application/json")
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def pages(self, path: str, limit: int, **query: object) -> Iterator[dict[str, Any]]:
        """Items of a keyset-paged list, across pages, at most `limit`."""
        after, left = None, limit
        while left > 0:
            page = self.get(path, **{**query, "limit": min(left, 100), "after": after})
            items = page.get("items", [])
            yield from items[:left]
            left, after = left - len(items), page.get("next")
            if after is None or not items:
                return


def connect(
    folder: object = None, url: str | None = None, token: str | None = None, timeout: float = 60.0
) -> Client:
    """A client that is logged in: by token if there is one, else with the credentials file."""
    settings = configured.settings(home=folder, token=token)
    known = home.read_credentials(settings.home) or {}
    where = url or known.get("url") or settings.url
    if settings.token is not None:
        return Client(where, settings.token.get_secret_value(), timeout)
    if not known.get("password"):
        raise Failure(
            f"There are no credentials in {settings.home}; start `lily up` there,"
            " point --home at them, or give --token.",
            NOT_ALLOWED,
        )
    client = Client(where, timeout=timeout)
    login = {name: known.get(name, "") for name in ("username", "password", "tenant")}
    client.token = client.post("/api/v1/auth/login", login)["access_token"]
    return client


def segment(value: str) -> str:
    """An id as one segment of a path: qualified names keep their slashes, encoded."""
    return quote(value, safe="")


def decoded(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def refusal(status: int, answer: object) -> Failure:
    """A problem document as one sentence, with the fields that are wrong and the cure."""
    return Failure(sentence(status, answer), from_status(status), status)


def sentence(status: int, answer: object) -> str:
    if not isinstance(answer, dict):
        text = str(answer or "").strip()[:200] or "it gave no reason"
        return f"The API refused with status {status}: {text}"
    said = str(answer.get("detail") or answer.get("title") or "").rstrip(".")
    fields = [_field(error) for error in answer.get("errors") or [] if isinstance(error, dict)]
    unsaid = "; ".join(field for field in fields if field and field not in said).rstrip(".")
    text = ": ".join(part for part in (said, unsaid) if part) or f"The API answered {status}"
    return f"{text}. {CURES.get(status, '')}".strip()


def _field(error: Mapping[str, object]) -> str:
    where, what = str(error.get("field") or ""), str(error.get("message") or "")
    return f"{where}: {what}" if where else what
