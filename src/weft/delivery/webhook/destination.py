"""Where a webhook goes, as it is written in ``webhook:URL[#as=slack|teams]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from weft.configuration import Configuration
from weft.errors import Refused

Form = Literal["standard", "slack", "teams"]
"""What is posted: answers as JSON with a signature, or a text as Slack or Teams shows it."""

_LONGEST: Final = 2_000
_HINT: Final = "Write webhook:https://example.com/path."


@dataclass(frozen=True)
class Destination:
    """``text`` is the channel's one name; ``target`` is the path with the query, as a request names it."""

    text: str
    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str
    form: Form

    @property
    def server(self) -> str:
        """The host and port."""
        return f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """The host as a request names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def destination(text: str, chosen: Configuration) -> Destination:
    """Reads what stands after ``webhook:``; raises Refused for what is no address of the web, or not to be used."""
    url, _, option = text.strip().partition("#")
    if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or " " in url:
        raise Refused("a webhook's URL is printable ASCII of 2,000 characters at most", hint=_HINT)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused(f"{url!r} is no URL: {error}", hint=_HINT) from None
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"{url!r} is no address of the web", hint=_HINT)
    if parts.username is not None or parts.password is not None:
        raise Refused(
            "a webhook's URL has no user and no password", hint="Its messages are signed: see webhook.secret."
        )
    if scheme == "http" and not chosen.webhook_private:
        raise Refused(
            f"{url!r} is not encrypted: everybody on the way could read the answers",
            hint="Write https://…; http:// is for your own network, with private = true in [webhook] of weft.toml.",
        )
    form = _form(option)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = port or {"http": 80, "https": 443}[scheme]
    found = Destination("", cast(Literal["http", "https"], scheme), parts.hostname, port, target, form)
    name = f"webhook:{scheme}://{found.authority}{target}" + (f"#as={form}" if form != "standard" else "")
    return Destination(name, found.scheme, found.host, found.port, target, form)


def _form(option: str) -> Form:
    if option in ("", "as=slack", "as=teams"):
        return cast(Form, option.removeprefix("as=") or "standard")
    raise Refused(
        f"{option!r} is nothing that a webhook can be told", hint="After the URL may stand #as=slack or #as=teams."
    )
