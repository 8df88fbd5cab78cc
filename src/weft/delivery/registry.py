"""The channels that there are, by the word before the colon; a new one is a file and a line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from weft.catalog import layout
from weft.configuration import FILE, configuration
from weft.delivery.channel import Channel
from weft.delivery.file import FileChannel
from weft.delivery.mail.addresses import addressed
from weft.errors import Refused
from weft.storage.ledger import Answers

CURSOR: Final = "cursor"
"""Answers that are fetched, not sent: every query has this one."""


def files_root(home: Path) -> Path:
    """The folder under which file channels write: the settings', else ``files`` in the home."""
    return configuration(home).files_root or layout.files_folder(home)


def _file(address: str, home: Path) -> FileChannel:
    return FileChannel(address, files_root(home))


def _email(address: str, home: Path) -> Channel:
    from weft.delivery.mail.channel import EmailChannel

    chosen = configuration(home)
    return EmailChannel(addressed(address, chosen), chosen)


def delta_root(home: Path) -> Path:
    """The folder under which channels write Delta tables: the settings', else ``delta`` in the home."""
    return configuration(home).delta_root or layout.delta_folder(home)


def _delta(address: str, home: Path) -> Channel:
    from weft.delivery.delta import DeltaChannel

    return DeltaChannel(address, delta_root(home))


def _webhook(address: str, home: Path) -> Channel:
    from weft.delivery.webhook.channel import WebhookChannel
    from weft.delivery.webhook.destination import destination

    chosen = configuration(home)
    return WebhookChannel(destination(address, chosen), chosen)


def _exec(address: str, home: Path) -> Channel:
    from weft.delivery.program import ProgramChannel

    return ProgramChannel(address, home, configuration(home))


_CHANNELS: Final[Mapping[str, Callable[[str, Path], Channel]]] = {
    "file": _file,
    "delta": _delta,
    "email": _email,
    "webhook": _webhook,
    "exec": _exec,
}


def canonical(text: str, home: Path) -> str:
    """A channel's one name, for ``install``; raises Refused for one that is not known or cannot be."""
    if text.strip().lower() == CURSOR:
        return CURSOR
    return _made(text, home).address


def default_channels(home: Path) -> tuple[str, ...]:
    """The channels of new queries that name none, by their one names; raises Refused, naming the key, where one of
    ``install.to`` cannot be."""
    try:
        return tuple(canonical(each, home) for each in configuration(home).install_to)
    except Refused as error:
        error.where = error.where or f"install.to of {home / FILE}"
        raise


def require_taken(channels: Iterable[str], home: Path, answers: Answers) -> None:
    """Raises Refused, naming the channel, where one of them can not take such answers; for ``install``."""
    for each in channels:
        channel = open_channel(each, home)
        if channel is not None:
            channel.require(answers)


def open_channel(text: str, home: Path) -> Channel | None:
    """The channel of that name, None for the cursor, which takes no messages; raises Refused."""
    return None if text.strip().lower() == CURSOR else _made(text, home)


def _made(text: str, home: Path) -> Channel:
    scheme, colon, address = text.strip().partition(":")
    make = _CHANNELS.get(scheme.lower()) if colon else None
    if make is None:
        near = difflib.get_close_matches(scheme.lower(), [CURSOR, *_CHANNELS], 1, 0.6)
        meant = "" if not near else f": did you mean {near[0]}{'' if near[0] == CURSOR else ':…'}?"
        kinds = ", ".join(f"{each}:…" for each in _CHANNELS)
        raise Refused(f"there is no channel {text!r}{meant}", hint=f"There is: {CURSOR}, {kinds}")
    return make(address, home)
