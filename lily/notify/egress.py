"""Where outgoing calls may go: to public addresses, and to those that the operator allows."""

from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import SplitResult, urlsplit

from lily.errors import Invalid, Reject

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

SCHEMES = {"http": 80, "https": 443}
NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
SIX_TO_FOUR = ip_network("2002::/16")
COMPATIBLE = ip_network("::/96")


def networks(allowed: Iterable[str]) -> list[Network]:
    """The setting LILY_EGRESS_ALLOW, read."""
    try:
        return [ip_network(each, strict=False) for each in allowed if not each.startswith("/")]
    except ValueError as cause:
        raise Invalid(f"{cause}; give CIDRs like 10.1.0.0/16", "LILY_EGRESS_ALLOW") from None


def parts(url: str) -> SplitResult:
    """A URL that we would call at all; refuses other schemes, credentials and nonsense."""
    try:
        split = urlsplit(url)
        split.port  # noqa: B018  reading it is what checks it
    except ValueError:
        raise Reject("is not a URL") from None
    if split.scheme not in SCHEMES:
        raise Reject("must begin with https:// or http://")
    if split.username is not None or split.password is not None or "\\" in url:
        raise Reject("may not contain a user or a password; use the plug-in's options")
    if not split.hostname or any(ord(char) <= 32 for char in url):
        raise Reject("names no host, or contains spaces")
    return split


def allowed(addresses: Sequence[str], networks: Sequence[Network]) -> None:
    """Refuse unless every one of them may be reached: one bad among good ones is a trick."""
    if not addresses:
        raise Reject("its host has no address")
    for text in addresses:
        address = _plain(ip_address(text.partition("%")[0]))
        if not _public(address) and not any(_inside(address, each) for each in networks):
            raise Reject(
                f"its host is at {address}, which is not a public address; if it may be called,"
                " the operator adds it to LILY_EGRESS_ALLOW"
            )


def _plain(address: Address) -> Address:
    """The address that really is behind one that carries another."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if any(address in net for net in NAT64) or (address in COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address in SIX_TO_FOUR:
        return IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address


def _public(address: Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _inside(address: Address, net: Network) -> bool:
    return address.version == net.version and address in net
