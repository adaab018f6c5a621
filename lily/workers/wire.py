"""What goes out: to checked addresses only, with an end to everything."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from lily.errors import Reject
from lily.notify import egress
from lily.notify.egress import Network
from lily.sdk.targets import Answer, Call, Record
from lily.workers.brokers import Brokers
from lily.workers.unreached import Unreached

PATIENCE = 15.0  # seconds for one call, from the first packet to the last
CONNECT = 5.0
MOST_ANSWER = 256 * 1024
AGENT = "Lily"
MOST_URLS = 10_000


class Checked(AbstractResolver):
    """Names to addresses that we may call; what was checked is what is connected to."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self.addresses(host, port)
        egress.allowed(found, self._allowed)
        return [
            ResolveResult(
                hostname=host, host=address, port=port, proto=0, flags=socket.AI_NUMERICHOST,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            )
            for address in found
        ]  # fmt: skip

    async def addresses(self, host: str, port: int) -> list[str]:
        """Every address of a name. A test replaces it to play a lying name server."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in infos))

    async def close(self) -> None:
        return None


class Wire:
    """One session for all targets. Open it inside the loop that uses it."""

    def __init__(
        self,
        allowed: Sequence[Network],
        resolver: Checked | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._allowed = allowed
        self._patience = patience
        self._urls: dict[str, URL] = {}
        self._brokers = Brokers(allowed)
        connector = aiohttp.TCPConnector(
            limit=0,
            use_dns_cache=False,
            keepalive_timeout=30,
            resolver=resolver or Checked(allowed),
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT),
            headers={"User-Agent": AGENT, "Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        await self._session.close()
        await self._brokers.close()

    async def call(self, call: Call | Record) -> Answer:
        """The answer, whatever it says; Reject for where we must not go, Unreached for silence."""
        if isinstance(call, Record):
            return await self._brokers.write(call)
        url = self._url(call.url)
        try:
            async with (
                asyncio.timeout(self._patience),
                self._session.request(
                    call.method,
                    url,
                    data=call.body or None,
                    headers=call.headers,
                    allow_redirects=False,
                ) as response,
            ):
                body = await _limited(response)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, headers, body)
        except TimeoutError:
            raise Unreached(f"no answer within {self._patience:.0f} s", unsure=True) from None
        except aiohttp.ClientConnectorError as cause:
            raise Unreached(f"cannot connect: {cause.os_error}", unsure=False) from None
        except (aiohttp.ClientError, OSError) as cause:
            told = str(cause) or type(cause).__name__
            raise Unreached(f"the connection broke: {told}", unsure=True) from None

    def _url(self, text: str) -> URL:
        """As the client library reads it, for that is what it will call.

        What a name resolves to is looked at with every connection; the text itself only once.
        """
        if (known := self._urls.get(text)) is not None:
            return known
        url = self._checked(text)
        if len(self._urls) >= MOST_URLS:
            self._urls.clear()
        self._urls[text] = url
        return url

    def _checked(self, text: str) -> URL:
        egress.parts(text)
        try:
            url = URL(text)
        except ValueError:
            raise Reject("is not a URL") from None
        host = url.host or ""
        if ":" in host or host.replace(".", "").isdigit():
            try:
                ip_address(host)
            except ValueError:
                raise Reject("writes an address in a way that is not allowed") from None
            egress.allowed([host], self._allowed)
        return url

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """The last door: nothing is connected that was not checked."""
        family, kind, proto, _, address = info
        try:
            egress.allowed([str(address[0])], self._allowed)
        except Reject as refusal:
            raise PermissionError(str(refusal)) from None
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        return made


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    """The beginning of the body; a longer one ends with the connection."""
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size >= MOST_ANSWER:
            response.close()
            break
    return b"".join(parts)[:MOST_ANSWER]
