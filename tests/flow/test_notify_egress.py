"""No URL of a tenant makes Lily call where it must not: nothing arrives at the canary."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from lily.errors import Invalid, Reject
from lily.notify import egress
from lily.sdk import Call
from lily.types import Tenant
from lily.wiring import Core
from lily.workers.unreached import Unreached
from lily.workers.wire import Checked, Wire
from tests.flow.notifying import Stage, staged
from tests.vendors.server import Scripted, running


class Canary:
    """Listens on every address of this machine, and counts who comes."""

    def __init__(self) -> None:
        self._sockets = []
        four = socket.create_server(("0.0.0.0", 0))
        self.port = four.getsockname()[1]
        self._sockets.append(four)
        if socket.has_dualstack_ipv6():
            six = socket.socket(socket.AF_INET6)
            six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            six.bind(("::", self.port))
            six.listen()
            self._sockets.append(six)

    def visits(self) -> int:
        count = 0
        for each in self._sockets:
            each.setblocking(False)
            try:
                while True:
                    each.accept()[0].close()
                    count += 1
            except BlockingIOError:
                continue
        return count

    def close(self) -> None:
        for each in self._sockets:
            each.close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    made.close()


HOSTS = [
    "127.0.0.1", "127.0.0.53", "127.1", "127.0.1", "localhost", "LOCALHOST.", "0.0.0.0", "0",
    "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "00000127.0.0.1",
    "127.000.000.001", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]", "[2001:0:7f00:1::80ff:fffe]", "[fc00::1]", "[fd12::1]", "[fe80::1]",
    "[fe80::1%25lo]", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254",
    "[fd00:ec2::254]", "100.64.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "①②⑦.⓪.⓪.①", "127。0。0。1", "ⓛocalhost", "localhost%00.example.com",
    "localhost%2eexample", "127.0.0.1%20", "127.0.0.1.nip.example@127.0.0.1",
    "user@127.0.0.1", "user:pass@localhost", "example.com@127.0.0.1", "example.com#@127.0.0.1",
    "example.com\\@127.0.0.1", "127.0.0.1\\@example.com", "127.0.0.1\t", " 127.0.0.1",
]  # fmt: skip
SCHEMES = ["file:///etc/passwd", "gopher://127.0.0.1:{port}/", "ftp://127.0.0.1:{port}/",
           "dict://127.0.0.1:{port}/", "ldap://127.0.0.1:{port}/", "unix:///tmp/x",
           "//127.0.0.1:{port}/", "127.0.0.1:{port}", "javascript:1", "http:///", "http://:{port}/",
           "http:127.0.0.1:{port}/", "http://127.0.0.1:{port}:80/", "http://[::1", ""]  # fmt: skip


class Lying(Checked):
    """A name server of an attacker."""

    def __init__(self, *answers: list[str]) -> None:
        super().__init__([])
        self.answers = list(answers)

    async def addresses(self, host: str, port: int) -> list[str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def call(url: str, resolver: Checked | None = None, allowed: Any = ()) -> str:
    async def play() -> str:
        wire = Wire(egress.networks(allowed), resolver, patience=1.0)
        try:
            answer = await wire.call(Call("GET", url))
            return str(answer.status)
        except (Reject, Unreached) as refusal:
            return str(refusal)
        finally:
            await wire.close()

    return asyncio.run(play())


@pytest.mark.parametrize("host", HOSTS)
def test_no_way_to_write_an_inner_address_reaches_it(canary: Canary, host: str) -> None:
    for scheme in ("http", "https"):
        assert not call(f"{scheme}://{host}:{canary.port}/").isdigit()
    assert canary.visits() == 0


@pytest.mark.parametrize("url", SCHEMES)
def test_no_other_scheme_or_shape_is_called(canary: Canary, url: str) -> None:
    assert not call(url.format(port=canary.port)).isdigit()
    assert canary.visits() == 0


@pytest.mark.parametrize(
    "answers",
    [
        [["127.0.0.1"]],
        [["::1"]],
        [["::ffff:10.0.0.1"]],
        [["93.184.216.34", "127.0.0.1"]],
        [["10.1.2.3"]],
        [[]],
    ],
)
def test_a_name_that_leads_inside_is_not_followed(canary: Canary, answers: list[Any]) -> None:
    lying = Lying(*answers)
    assert not call(f"http://friendly.example:{canary.port}/", lying).isdigit()
    assert canary.visits() == 0


def test_a_name_that_changes_its_mind_is_checked_at_every_connection(canary: Canary) -> None:
    """Rebinding: what was checked is what is connected to, and the next one is checked anew."""
    lying = Lying(["203.0.113.7"], ["127.0.0.1"])
    for _ in range(3):
        assert not call(f"http://friendly.example:{canary.port}/", lying).isdigit()
    assert canary.visits() == 0


def test_a_redirect_to_the_inside_is_not_followed(canary: Canary) -> None:
    for status in (301, 302, 303, 307, 308):
        away = {"Location": f"http://127.0.0.1:{canary.port}/"}
        with running(Scripted((status, away, b""))) as vendor:
            assert call(vendor.url, allowed=["127.0.0.0/8"]) == str(status)
    assert canary.visits() == 0


def test_the_operator_may_allow_a_network_and_nothing_beside_it() -> None:
    with running(Scripted(200)) as vendor:
        assert call(vendor.url, allowed=["127.0.0.0/8"]) == "200"
        assert "LILY_EGRESS_ALLOW" in call(vendor.url, allowed=["10.0.0.0/8"])
    with pytest.raises(Invalid, match="LILY_EGRESS_ALLOW"):
        egress.networks(["nonsense"])


def test_public_addresses_are_allowed() -> None:
    egress.allowed(["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"], [])


@pytest.fixture
def stage(core: Core, system: Core, tenant: Tenant) -> Iterator[Stage]:
    with staged(core, system, tenant) as made:
        yield made


def test_a_delivery_inside_is_dead_at_once_and_names_the_setting(
    stage: Stage, canary: Canary
) -> None:
    stage.allowed = []
    stage.subscribe(stage.webhook(f"http://127.0.0.1:{canary.port}"))
    stage.happen()
    stage.tell()
    [sent] = stage.deliveries()
    assert sent.state == "dead" and "LILY_EGRESS_ALLOW" in sent.reason
    assert canary.visits() == 0
