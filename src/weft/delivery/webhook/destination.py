"""Parse the destination of a webhook: ``webhook:URL[#as=slack|teams]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from weft.configuration import Configuration
from weft.errors import Refused

Form = Literal["standard", "slack", "teams"]
"""The form of a post: answers as JSON with a signature, or text for Slack or Teams."""

_LONGEST: Final = 2_000
_HINT: Final = "Write webhook:https://example.com/path."


@dataclass(frozen=True)
class Destination:
    """A webhook's URL in parts: ``text`` is the channel's canonical name, ``target`` the path and the query string."""

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
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == {"http": 80, "https": 443}[self.scheme] else f"{host}:{self.port}"


def parse_destination(text: str, chosen: Configuration) -> Destination:
    """Parse the text after ``webhook:``; raise Refused for an invalid or disallowed URL."""
    url, _, option = text.strip().partition("#")
    if len(url) > _LONGEST or not url.isascii() or not url.isprintable() or " " in url:
        raise Refused("a webhook's URL is printable ASCII of 2,000 characters at most", hint=_HINT)
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
            "a webhook's URL must not contain a user or password", hint="Messages are signed: see webhook.secret."
        )
    if scheme == "http" and not chosen.webhook_private:
        raise Refused(
            f"{url!r} is not encrypted: anyone on the way could read the answers",
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
    raise Refused(
        f"{option!r} is not an option of a webhook", hint="The options after the URL are #as=slack and #as=teams."
    )
