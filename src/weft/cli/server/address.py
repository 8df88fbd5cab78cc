"""Locate the server of a home, and decide which commands run on the server.

The module imports only small parts of the standard library, because every command imports the module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_SERVERS: Final = "serve"
SOCKET: Final = "socket"
POINTER: Final = "door.json"
"""The file that names the socket.  The file name must not change, so that commands find servers of older versions."""
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
    | {
        "loads",
        "queries",
        "redeliver",
        "remove",
        "results",
        "resume",
        "saved",
        "show",
        "source",
        "sources",
        "subscribe",
    }
    | {"table", "tables"}
    | {"tick", "try", "unmute", "unsubscribe", "view", "views", "why"}
)
"""The commands that the server runs.  The client runs all other commands."""

_ELSEWHERE: Final = frozenset({"audit", "grant", "grants", "group", "maintain", "revoke", "status", "token", "user"})
NO_HOME: Final = frozenset({"monitor", "prepare"})
"""The commands that need no home."""
_LOCAL_OPTIONS: Final = frozenset({"--help", "--version", "--install-completion", "--show-completion"})
_GROUPS: Final = frozenset(
    {"channel", "ingest", "quarantine", "saved", "source", "table", "view", "user", "group", "token"}
)
"""The groups of commands.  Without a subcommand, each group prints its help."""
_HOMES: Final = frozenset({"WEFT_HOME", "WEFT_URL", "WEFT_TOKEN"})
"""The variables that name a home, or the server of a home."""
_DEFAULT_HOME: Final = "weft-home"


def server_folder(home: str | os.PathLike[str]) -> str:
    """Return the private folder in the home for the socket, the pointer file and the lock of this machine's server.

    Machines that share the folder of a home each have their own server.
    """
    return os.path.join(home, _SERVERS, os.uname().nodename)


def pointer_file(home: str | os.PathLike[str]) -> str:
    """Return the file that names the socket of this machine's server."""
    return os.path.join(server_folder(home), POINTER)


def server_pointer(arguments: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Return the pointer file of the server for this command, or None.

    The home comes from ``--home`` or from the variable ``WEFT_HOME``.  The server also checks the home.
    """
    if not runs_on_server(arguments):
        return None
    pointer = pointer_file(home_of(arguments, variables))
    return pointer if os.path.exists(pointer) else None


def runs_on_server(arguments: Sequence[str], *, elsewhere: bool = False) -> bool:
    """Return whether the server runs this command.  Requests for help run in the client.

    For a client ``elsewhere``, on another machine, the server also runs the commands that show the server itself.
    """
    if wants_help(arguments):
        return False
    return arguments[0] in COMMANDS or (elsewhere and arguments[0] in _ELSEWHERE)


def wants_help(arguments: Sequence[str]) -> bool:
    """Return whether the command only prints help or installs itself in the shell."""
    help_of_group = arguments[:1] and arguments[0] in _GROUPS and len(arguments) == 1
    return bool(not arguments or help_of_group or not _LOCAL_OPTIONS.isdisjoint(arguments))


def home_of(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return the home folder as the user typed the path."""
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
    """Move a leading ``--home`` behind the command, because each command parses its own options.

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
    """Return those environment variables that are settings of Weft and not empty.  Omit those that name a home."""
    return {
        name: value for name, value in variables.items() if name.startswith("WEFT_") and value and name not in _HOMES
    }


def mark(instance: str, value: str | None) -> str | None:
    """Return a hash of a secret, or None if the secret is not set.  Server and client compare only hashes."""
    import hashlib

    return None if not value else hashlib.sha256(f"{instance}\0{value}".encode(errors="surrogateescape")).hexdigest()


def fingerprint() -> str:
    """Return a hash of the names, sizes and times of Weft's source files.  The hash identifies the running code."""
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
