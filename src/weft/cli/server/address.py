"""Where the door of a home is, and which commands go through it.

Asked by every command that is typed, so nothing but the standard library's lightest parts is loaded here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

FOLDER: Final = "serve"
"""Below the home; its owner's alone.  It has the socket (or it is elsewhere), the name of it, and the server's lock."""
SOCKET: Final = "socket"
POINTER: Final = "door.json"
LOCK: Final = "lock"

COMMANDS: Final = frozenset(
    {
        "append",
        "backtest",
        "channel",
        "deliveries",
        "describe",
        "explain",
        "history",
        "ingest",
        "install",
        "mute",
        "pause",
        "quarantine",
    }
    | {"loads", "queries", "redeliver", "remove", "results", "resume", "show", "source", "sources", "subscribe"}
    | {"table", "tables"}
    | {"tick", "try", "unmute", "unsubscribe", "view", "views"}
)
"""The others make homes, look at this machine, run for ever, measure, or talk with a person."""

_HERE_ONLY: Final = frozenset({"--help", "--version", "--install-completion", "--show-completion"})
_GROUPS: Final = frozenset({"channel", "ingest", "quarantine", "source", "table", "view"})
"""Alone they print their help."""
_DEFAULT_HOME: Final = "weft-home"


def door_of(arguments: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """The file that names the socket of the door through which the command could go; None where it cannot.

    The home is read from ``--home``, else from the variable, as the command itself would; the server looks again.
    """
    if not goes_through(arguments):
        return None
    pointer = os.path.join(home_of(arguments, variables), FOLDER, POINTER)
    return pointer if os.path.exists(pointer) else None


def goes_through(arguments: Sequence[str]) -> bool:
    """Whether it is a command of those that a server runs, and no question for help."""
    asked = arguments[:1] and arguments[0] in _GROUPS and len(arguments) == 1
    return bool(arguments and not asked and arguments[0] in COMMANDS and _HERE_ONLY.isdisjoint(arguments))


def home_of(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    """The home's folder as it was typed."""
    home = variables.get("WEFT_HOME") or _DEFAULT_HOME
    for number, word in enumerate(arguments):
        if word == "--":
            break
        if word == "--home" and number + 1 < len(arguments):
            home = arguments[number + 1]
        elif word.startswith("--home="):
            home = word.removeprefix("--home=")
    return home.removeprefix("file://") if home.startswith("file:///") else home


def command_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with a ``--home`` that stands before the command behind it, where commands have their options.

    >>> command_first(["--home", "mine", "show", "--", "-x"])
    ['show', '--home', 'mine', '--', '-x']
    """
    words = list(arguments)
    homes: list[str] = []
    while words and (words[0].startswith("--home=") or (words[0] == "--home" and len(words) > 1)):
        taken = 2 if words[0] == "--home" else 1
        homes += words[:taken]
        del words[:taken]
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *homes, *words[end:]] if words else homes


def settings(variables: Mapping[str, str]) -> dict[str, str]:
    """Weft's settings of an environment, but for the home; those that are empty are not set."""
    return {
        name: value for name, value in variables.items() if name.startswith("WEFT_") and value and name != "WEFT_HOME"
    }


def mark(instance: str, value: str | None) -> str | None:
    """By which a server and a command compare a secret without telling it; None where it is not set."""
    import hashlib

    return None if not value else hashlib.sha256(f"{instance}\0{value}".encode(errors="surrogateescape")).hexdigest()


def fingerprint() -> str:
    """What tells this very code from another: a hash of its files' names, sizes and times."""
    import hashlib

    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return hashlib.sha256("\n".join(sorted(_files(package))).encode(errors="surrogateescape")).hexdigest()[:16]


def _files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                stat = entry.stat()
                yield f"{entry.path} {stat.st_size} {stat.st_mtime_ns}"
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _files(entry.path)
