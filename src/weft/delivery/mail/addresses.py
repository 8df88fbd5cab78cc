"""Parse the recipients of a letter: ``email:ADDRESS[,ADDRESS…][?unknown=again|hold]``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

from weft.configuration import Configuration
from weft.errors import Refused

Policy = Literal["again", "hold"]
"""The treatment of a letter that may have been sent.  With ``again``, Weft repeats the letter with the same Message-ID.
With ``hold``, a person decides whether Weft repeats the letter.
"""

_LONGEST: Final = 254
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")
_NAME: Final = re.compile(r"[^@\s,?]+")


@dataclass(frozen=True)
class Recipients:
    """The email addresses of a channel.  ``text`` is the canonical name of the channel."""

    text: str
    addresses: tuple[str, ...]
    policy: Policy


def parse_recipients(text: str, chosen: Configuration) -> Recipients:
    """Parse the text after ``email:``.  Replace each user name by the address of that user in the settings.

    Raises Refused for an invalid address, a name without an address, and any option except ``unknown``.
    """
    people, _, option = text.partition("?")
    policy = _policy(option)
    names = [name.strip() for name in people.split(",")]
    addresses = tuple(dict.fromkeys(_address(name, chosen) for name in names))
    written = ",".join(dict.fromkeys(_canonical(name) for name in names))
    return Recipients(
        f"email:{written}" + (f"?unknown={policy}" if policy else ""), addresses, policy or chosen.smtp_unknown
    )


def _policy(option: str) -> Policy | None:
    if not option:
        return None
    key, _, value = option.partition("=")
    if key != "unknown" or value not in ("again", "hold"):
        raise Refused(
            f"{option!r} is not an option of an email channel",
            hint=(
                "Use ?unknown=again (Weft sends a message that may have been sent again, with the same "
                "Message-ID) or ?unknown=hold (the message waits for `weft resume`)."
            ),
        )
    return cast(Policy, value)


def _canonical(name: str) -> str:
    local, at, domain = name.rpartition("@")
    return f"{local}{at}{domain.lower()}" if at else name


def _address(name: str, chosen: Configuration) -> str:
    if "@" in name:
        if _ADDRESS.fullmatch(name) is None or len(name) > _LONGEST or ".." in name:
            raise Refused(
                f"{name!r} is not an email address",
                hint="Write email:ann@example.com, in ASCII; commas separate several addresses.",
            )
        return _canonical(name)
    user = chosen.users.get(name)
    if user is not None and user.email is not None:
        return _address(user.email, chosen)
    raise Refused(f"{name!r} is not an email address", hint=_hint(name, chosen))


def _hint(name: str, chosen: Configuration) -> str:
    known = list(_with_address(chosen))
    near = difflib.get_close_matches(name, known, 1, 0.6)
    if near:
        return f"Did you mean email:{near[0]}?"
    if _NAME.fullmatch(name) is None:
        return "Write email:ann@example.com; commas separate several addresses."
    return f"Write email:ann@example.com, or set email in [users.{name}] of weft.toml."


def _with_address(chosen: Configuration) -> Iterator[str]:
    return (name for name, user in chosen.users.items() if user.email is not None)
