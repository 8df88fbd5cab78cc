"""Locate the server of a home, and decide which commands it runs.

Every command imports this module, so it imports only the lightest parts of the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

FOLDER: Final = "serve"
"""A folder in the home that only its owner can enter.  It has the socket (unless that is elsewhere), the pointer file,
and the server's lock.
"""
SOCKET: Final = "socket"
POINTER: Final = "door.json"
"""The name cannot change: a command must find a running server of an older Weft, to say that it is older."""
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
"""The commands that a server runs.  Others make homes, check this machine, run forever, measure, or are interactive."""

_LOCAL_OPTIONS: Final = frozenset({"--help", "--version", "--install-completion", "--show-completion"})
_GROUPS: Final = frozenset({"channel", "ingest", "quarantine", "source", "table", "view"})
"""Without a subcommand they print their help."""
_DEFAULT_HOME: Final = "weft-home"


def server_pointer(arguments: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Return the file that names the socket of the server that could run the command, or None.

    The home comes from ``--home``, else from the variable, as in the command itself; the server checks it again.
    """
    if not runs_on_server(arguments):
        return None
    pointer = os.path.join(home_of(arguments, variables), FOLDER, POINTER)
    return pointer if os.path.exists(pointer) else None


def runs_on_server(arguments: Sequence[str]) -> bool:
    """Return whether a server runs this command; a request for help is not run there."""
    help_of_group = arguments[:1] and arguments[0] in _GROUPS and len(arguments) == 1
    return bool(arguments and not help_of_group and arguments[0] in COMMANDS and _LOCAL_OPTIONS.isdisjoint(arguments))


def home_of(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the home's folder as typed."""
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
    """Move a ``--home`` before the command behind it, where commands expect their options.

    >>> command_first(["--home", "mine", "show", "--", "-x"])
    ['show', '--home', 'mine', '--', '-x']
    """
    words = list(arguments)
    homes: list[str] = []
    while words and (words[0].startswith("--home=") or (words[0] == "--home" and len(words) > 1)):
        count = 2 if words[0] == "--home" else 1
        homes += words[:count]
        del words[:count]
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *homes, *words[end:]] if words else homes


def settings(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the nonempty settings of Weft in an environment, except the home."""
    return {
        name: value for name, value in variables.items() if name.startswith("WEFT_") and value and name != "WEFT_HOME"
    }


def mark(instance: str, value: str | None) -> str | None:
    """Return a hash by which a server and a client compare a secret without revealing it; None if it is not set."""
    import hashlib

    return None if not value else hashlib.sha256(f"{instance}\0{value}".encode(errors="surrogateescape")).hexdigest()


def fingerprint() -> str:
    """Return a hash of the names, sizes and times of Weft's source files, which identifies the running code."""
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
