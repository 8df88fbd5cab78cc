"""Decide which IP addresses belong to the public internet.

An IPv6 address may contain an IPv4 address, to which a router translates or tunnels packets.  It is public only if
every address in it is public.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final

_REFUSED_IPV4: Final = (ipaddress.IPv4Network("192.0.0.0/24"),)
"""Not globally reachable according to the IANA registry (RFC 6890), which ``is_global`` of Python 3.11 does not
know.
"""

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_IPV6: Final = (ipaddress.IPv6Network("3fff::/20"),)
"""Documentation (RFC 9637)."""

_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""The well-known prefix (RFC 6052).  64:ff9b:1::/48 (RFC 8215) is for local use, and refused because it is outside of
2000::/3.
"""

_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
"""The upper half of an interface identifier whose lower half is an IPv4 address (RFC 5214, section 6.1)."""


def is_public(address: str) -> bool:
    """Return whether an address is public: not private, loopback, link-local, or reserved.

    >>> [is_public(each) for each in ("93.184.215.14", "10.0.0.1", "::1", "64:ff9b::7f00:1", "fe80::1%eth0")]
    [True, False, False, False, False]
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv4Address):
        return _is_public_ipv4(parsed)
    if not all(_is_public_ipv4(each) for each in _embedded(parsed)):
        return False
    if parsed in _MAPPED or parsed in _NAT64:
        return True
    return parsed in _GLOBAL_UNICAST and parsed.is_global and not any(parsed in each for each in _REFUSED_IPV6)


def _is_public_ipv4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in each for each in _REFUSED_IPV4)


def _embedded(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses in an IPv6 address: mapped, NAT64, 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP."""
    low = int(address) & 0xFFFF_FFFF
    if address in _MAPPED or address in _NAT64 or (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        yield ipaddress.IPv4Address(low)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo  # the server's and the client's
