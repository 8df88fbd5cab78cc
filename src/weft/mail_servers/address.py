"""Parse the URI of a folder on an IMAP server, or of a group on a news server.

A session is encrypted unless the URI says ``tls=off``. Weft stores and shows the URIs, so they contain no password: a
URI names the environment variable that contains the password.
"""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from weft.errors import Refused

Tls = Literal["implicit", "starttls", "off"]

PORTS: Final = {"imap": 143, "imaps": 993, "nntp": 119, "nntps": 563}
TIMEOUT: Final = 30.0
"""The maximum time for each reply of a server, in seconds."""

_EXAMPLES: Final = {
    "imap": "imaps://ana@mail.example/INBOX?password_env=MAIL_PASSWORD",
    "nntp": "nntps://news.example/comp.lang.sql",
}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETERS: Final = ("password_env", "tls")
_NAME_THE_VARIABLE: Final = (
    "Put the password into an environment variable, and name the variable: ?password_env=MAIL_PASSWORD."
)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class MailPlace:
    """A folder or group ``name`` on a server. ``text`` is the canonical URI.

    ``user`` is None if the server asks for no login. ``password_env`` is the variable that contains the password.
    """

    protocol: str
    host: str
    port: int
    tls: Tls
    user: str | None
    password_env: str | None
    name: str
    text: str

    @property
    def server(self) -> str:
        """The host and the port."""
        return f"{self.host}:{self.port}"

    def password(self) -> str:
        """Return the password. Raise Refused if the environment does not contain it."""
        if self.password_env is None:
            raise Refused(
                f"the URI names the user {self.user!r}, but no password",
                where=self.text,
                hint=_NAME_THE_VARIABLE,
            )
        password = os.environ.get(self.password_env)
        if not password:
            raise Refused(
                f"the environment variable {self.password_env}, which contains the password, is not set",
                where=self.text,
                hint="Set the variable in the environment of Weft; a service has an environment of its own.",
            )
        return password

    def tls_context(self) -> ssl.SSLContext:
        """Return the settings of TLS. The certificates of the system, or of SSL_CERT_FILE, decide about the server."""
        return ssl.create_default_context()


def mail_place(uri: str, protocol: Literal["imap", "nntp"]) -> MailPlace:
    """Return the place that the URI names. Raise Refused for an invalid URI.

    >>> place = mail_place("imaps://ana@mail.example/Lists%2Fweft?password_env=PW", "imap")
    >>> place.server, place.user, place.name, place.tls
    ('mail.example:993', 'ana', 'Lists/weft', 'implicit')
    >>> mail_place("nntp://news.example/comp.lang.sql?tls=off", "nntp").text
    'nntp://news.example:119/comp.lang.sql?tls=off'
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise _invalid(uri, protocol, str(error)) from None
    scheme, host, name = parts.scheme.lower(), parts.hostname, unquote(parts.path.removeprefix("/"))
    if scheme not in (protocol, f"{protocol}s") or not host or not name or parts.fragment:
        raise _invalid(uri, protocol, "it needs a scheme, a server and a name")
    if parts.password is not None:
        raise Refused(
            "a URI must not contain a password, because Weft stores and shows it",
            where=shown_uri(uri),
            hint=_NAME_THE_VARIABLE,
        )
    given = dict(pairs)
    if len(given) < len(pairs) or any(each not in _PARAMETERS for each in given):
        raise _invalid(uri, protocol, f"its parameters are {' and '.join(_PARAMETERS)}")
    if not all(each.isprintable() for each in (name, unquote(parts.username or ""))) or " " in host:
        raise _invalid(uri, protocol, "it contains control characters")
    variable = given.get("password_env")
    if variable is not None and not _VARIABLE.fullmatch(variable):
        raise _invalid(uri, protocol, f"{variable!r} is not the name of an environment variable")
    tls = _tls(scheme, given.get("tls"))
    if tls is None:
        raise _invalid(uri, protocol, "tls may only be off, and only if the scheme does not end in s")
    user = None if parts.username is None else unquote(parts.username)
    if tls == "off" and user is not None and host not in _LOOPBACK:
        raise Refused(
            "tls=off and a user: the password would cross the network unencrypted",
            where=shown_uri(uri),
            hint=f"Leave out tls=off, or write {protocol}s:// if the server encrypts from the start.",
        )
    return _place(scheme, host, port or PORTS[scheme], tls, user, variable, name)


def _tls(scheme: str, asked: str | None) -> Tls | None:
    if scheme.endswith("s"):
        return "implicit" if asked is None else None
    return "starttls" if asked is None else "off" if asked == "off" else None


def _place(scheme: str, host: str, port: int, tls: Tls, user: str | None, variable: str | None, name: str) -> MailPlace:
    parameters = [f"password_env={variable}"] * (variable is not None) + ["tls=off"] * (tls == "off")
    login = "" if user is None else f"{quote(user, safe='')}@"
    shown = f"[{host}]" if ":" in host else host
    text = f"{scheme}://{login}{shown}:{port}/{quote(name, safe='/')}" + ("?" + "&".join(parameters)) * bool(parameters)
    return MailPlace(scheme.removesuffix("s"), host, port, tls, user, variable, name, text)


def _invalid(uri: str, protocol: str, reason: str) -> Refused:
    what = "a folder on an IMAP server" if protocol == "imap" else "a group on a news server"
    return Refused(
        f"this is not the URI of {what}: {reason}",
        where=shown_uri(uri),
        hint=f"Write, for example, {_EXAMPLES[protocol]}.",
    )


def shown_uri(uri: str) -> str:
    """Return the URI without its user and its parameters, which may contain a password.

    >>> shown_uri("imap://ana:secret@mail.example/INBOX?password=secret")
    'imap://…@mail.example/INBOX?…'
    """
    return re.sub(r"\?.*", "?…", re.sub(r"(?<=//)[^/]*@", "…@", uri), flags=re.DOTALL)
