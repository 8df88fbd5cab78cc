"""Parse the destination of a webhook: ``webhook:URL[#as=slack|teams]``.

By default, a destination must have a public IP address.  An IPv6 address may contain an IPv4 address, to which a router
translates or tunnels packets.  Such an IPv6 address is public only if the IPv4 address is public, too.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from weft.configuration import Configuration
from weft.errors import Refused

Form = Literal["standard", "slack", "teams"]
"""The format of a post: ``standard`` is signed JSON, ``slack`` and ``teams`` are text."""

_LONGEST: Final = 2_000
_HINT: Final = "Write webhook:https://example.com/path."


@dataclass(frozen=True)
class Destination:
    """The parsed URL of a webhook.  ``text`` is the name of the channel.  ``target`` is the path with the query
    string.
    """

    text: str
    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str
    form: Form

    @property
    def server(self) -> str:
        """The host and the port."""
        return f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def parse_destination(text: str, chosen: Configuration) -> Destination:
    """Parse the text after ``webhook:``.  Raise Refused for an invalid or disallowed URL."""
    url, _, option = text.strip().partition("#")
    if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or " " in url:
        raise Refused("a webhook's URL must be printable ASCII of at most 2,000 characters", hint=_HINT)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused(f"{url!r} is not a URL: {error}", hint=_HINT) from None
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"{url!r} is not an http or https URL", hint=_HINT)
    if parts.username is not None or parts.password is not None:
        raise Refused(
            "a webhook's URL must not contain a user or password",
            hint="Omit them: Weft signs each message instead, see webhook.secret.",
        )
    if scheme == "http" and not chosen.webhook_private:
        raise Refused(
            f"{url!r} is not encrypted, so others on the network could read the answers",
            hint="Write https://…, or, in your own network, set private = true in [webhook] of weft.toml.",
        )
    form = _form(option)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = port or {"http": 80, "https": 443}[scheme]
    parsed = Destination("", cast(Literal["http", "https"], scheme), parts.hostname, port, target, form)
    name = f"webhook:{scheme}://{parsed.authority}{target}" + (f"#as={form}" if form != "standard" else "")
    return Destination(name, parsed.scheme, parsed.host, parsed.port, target, form)


def _form(option: str) -> Form:
    if option in ("", "as=slack", "as=teams"):
        return cast(Form, option.removeprefix("as=") or "standard")
    raise Refused(f"{option!r} is not an option of a webhook", hint="Use #as=slack or #as=teams after the URL.")


_REFUSED_IPV4: Final = (ipaddress.IPv4Network("192.0.0.0/24"),)
"""A network that is not globally reachable (RFC 6890).  ``is_global`` of Python 3.11 is wrong for this network."""

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_REFUSED_IPV6: Final = (ipaddress.IPv6Network("3fff::/20"),)
"""A network reserved for documentation (RFC 9637)."""

_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""The well-known prefix (RFC 6052).  The local-use prefix (RFC 8215) lies outside ``_GLOBAL_UNICAST``."""

_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
"""The upper half of an interface identifier whose lower half is an IPv4 address (RFC 5214, section 6.1)."""


def is_public(address: str) -> bool:
    """Return whether an address is public.  Private, loopback, link-local and reserved addresses are not public.

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
