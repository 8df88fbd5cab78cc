"""The side of the one who types: a command is sent to the server of its home, and what that prints is printed here.

Whatever keeps the command from going through the door lets it run in this process, as without a server; where that is
not to be expected, it is said.  Once a command was sent it is never run here as well.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from weft.cli.server import address
from weft.errors import Refused

_ANSWER_SECONDS: Final = 5.0
"""A server that does not answer a greeting for so long is left alone."""

_TERMINAL_VARIABLES: Final = (
    "COLUMNS",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
)  # those that rich reads
_USER_VARIABLES: Final = ("LOGNAME", "USER", "LNAME", "USERNAME")  # those of getpass.getuser, in its order
INTERRUPTED: Final = 130
_STDIN: Final = "stdin"
_RELOAD: Final = "`weft serve --reload`"
_RELOADS: Final = f"{_RELOAD} gives it those of this terminal."
_RELOAD_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.1


class _Unprintable(Exception):
    """This process's own output takes no text any more; nothing is wrong with the server."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Connection(HTTPConnection):
    """HTTP over the socket that the file names."""

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("weft", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connects; raises OSError where nobody listens, or somebody else than this user does."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        if peer_user(self.sock) not in (None, os.getuid()):
            raise PermissionError(f"{self._path} is served by another user")


def peer_user(connection: socket.socket) -> int | None:
    """The user id of the process at the other end; None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def greeting(pointer: str) -> tuple[str, dict[str, Any]]:
    """The door's socket, and what its server says of itself.

    Raises OSError, ValueError or HTTPException where there is none, or it does not answer.
    """
    with open(pointer, encoding="utf-8") as file:
        path = str(json.load(file)["socket"])
    return path, _asked(path, "/greeting", {"settings": address.settings(os.environ)})


def answered(arguments: Sequence[str], pointer: str) -> int | None:
    """Has the command run by the server whose door the file names; its exit code, or None: it is to be run here."""
    try:
        path, server = greeting(pointer)
    except TimeoutError:
        _note(f"{_here()} `weft serve` of this home does not answer.")
        return None
    except (OSError, ValueError, KeyError, HTTPException):
        return None  # it was killed and left its socket: as if it were not there
    name = f"`weft serve` of this home (process {server['pid']})"
    if server["code"] != address.fingerprint():
        _note(f"{_here()} {name} runs another Weft than this one. {_RELOAD} starts it anew.")
        return None
    differing = _differing(server, os.environ)
    if differing:
        _note(f"{_here()} It has this terminal's settings; {name} has others: {'; '.join(differing)}. {_RELOADS}")
        return None
    return _sent(arguments, path, name)


def _differing(server: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    """In which settings the server differs from these variables, in words without their values."""
    told = []
    for name, there in server["differing"].items():
        here = bool(variables.get(name))
        told.append(f"{name} is set here only" if not there else f"{name} is set {'otherwise' * here or 'there only'}")
    for name, theirs in server["secrets"].items():
        own = address.mark(server["instance"], variables.get(name))
        if own is not None and own != theirs:
            told.append(f"{name} is set here only" if theirs is None else f"{name} is set otherwise")
    return told


def reloaded(home: str | os.PathLike[str], variables: Mapping[str, str]) -> int:
    """Restart the home's server with these variables once the work under way has ended; return its process.

    Raises NotFound where the home has no server, ExecutionError where it cannot restart or takes too long.
    """
    from weft.errors import ExecutionError, NotFound

    pointer = os.path.join(home, address.FOLDER, address.POINTER)
    try:
        path, before = greeting(pointer)
        answer = _asked(path, "/reload", {"variables": dict(variables)})
    except (OSError, ValueError, KeyError, HTTPException) as error:
        if isinstance(error, TimeoutError):
            raise ExecutionError("the server of this home does not answer", hint="`weft doctor` names it.") from None
        raise NotFound("this home has no server", where=str(home), hint="`weft serve` starts one.") from None
    if "instance" not in answer:
        told = f"its server (process {before['pid']}) is of an older Weft, which cannot reload"
        raise ExecutionError(told, hint="Stop that process, then start `weft serve` anew.", where=str(home))
    until = time.monotonic() + _RELOAD_SECONDS
    while time.monotonic() < until:
        with suppress(OSError, ValueError, KeyError, HTTPException):
            _, after = greeting(pointer)
            if after["instance"] != answer["instance"]:
                return int(after["pid"])
        time.sleep(_PAUSE_SECONDS)
    raise ExecutionError(
        f"the server has not begun anew within {_RELOAD_SECONDS:g} s (process {before['pid']})",
        hint="It ends what is under way first. `weft doctor` tells how it does.",
        where=str(home),
    )


def state(home: str | os.PathLike[str]) -> tuple[bool, str, str | None]:
    """For the doctor: whether all is well with the door of a home, what is there, and what to do where it is not."""
    pointer = os.path.join(home, address.FOLDER, address.POINTER)
    if not os.path.exists(pointer):
        return True, "none; `weft serve` makes commands quick", None
    try:
        _, server = greeting(pointer)
    except TimeoutError:
        return False, "it does not answer", "look what its process does, or end it"
    except (OSError, ValueError, KeyError, HTTPException):
        return True, "none; one that was killed left its socket, which the next one replaces", None
    name = f"process {server['pid']}, {server['commands']} commands under way"
    if server["code"] != address.fingerprint():
        return False, f"{name}; it runs another Weft than this one", f"{_RELOAD} starts it anew"
    return True, f"{name}, the same Weft as this one", None


def _sent(arguments: Sequence[str], path: str, name: str) -> int | None:
    try:
        request = {"key": os.urandom(8).hex(), **_typed(arguments)}
    except FileNotFoundError:  # the folder in which it was typed is gone
        return None
    try:
        code = _followed(path, request, name)
        if code == _STDIN:
            from weft.cli.terminal import own_stdin

            code = _followed(path, {**request, "stdin": own_stdin()}, name)
        return None if code is None else int(code)
    except Refused as error:  # stdin is not UTF-8 text
        return _refused(arguments, error)
    except OSError as error:  # of stdin
        return _told(error)
    except _Unprintable as error:
        return _told(error.reason)


def _followed(path: str, request: Mapping[str, Any], name: str) -> Any:
    """As ``_streamed``; a server that ends is a failure, told here."""
    with _interrupting(path, str(request["key"])):
        try:
            return _streamed(path, request)
        except KeyboardInterrupt:
            _note(f"{name} brings to an end what is under way.")
            return INTERRUPTED
        except (OSError, ValueError, HTTPException):
            print(f"failed: {name} ended in the middle of this command", file=sys.stderr)
            print("  Nothing that was stored is lost. Run it again: it runs without the server.", file=sys.stderr)
            return 1


def _refused(arguments: Sequence[str], error: Refused) -> int:
    from weft.cli.troubles import begin, tell

    begin(arguments)
    tell(error)
    return error.exit_code


def _told(error: Exception) -> int:
    from weft.cli.troubles import tell_unexpected

    return tell_unexpected(error)


def _streamed(path: str, request: Mapping[str, Any]) -> Any:
    """Prints what the command prints; its exit code, None where it has to run here, _STDIN where it reads that."""
    connection = _Connection(path, None)
    try:
        connection.connect()
        connection.request("POST", "/command", json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:  # it refuses the request; nothing was run
            return None
        for line in response:
            [(kind, value)] = json.loads(line).items()
            if kind == "end":
                return value
            stream = sys.stderr if kind == "err" else sys.stdout
            try:
                stream.write(value)
                stream.flush()
            except BrokenPipeError:  # the reader has seen enough, as with a command that runs here
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                return 0
            except (OSError, UnicodeError) as error:
                raise _Unprintable(error) from None
        raise ConnectionResetError("no end of the command")
    finally:
        connection.close()


def _typed(arguments: Sequence[str]) -> dict[str, Any]:
    """What a command depends on, besides what it finds in files."""
    width, height = _size()
    return {
        "arguments": list(arguments),
        "home": os.environ.get("WEFT_HOME") or "weft-home",
        "folder": os.getcwd(),
        "user": next((os.environ[name] for name in _USER_VARIABLES if os.environ.get(name)), None),
        "width": width,
        "height": height,
        "variables": {name: os.environ[name] for name in _TERMINAL_VARIABLES if name in os.environ},
        "terminals": [stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "encodings": [getattr(stream, "encoding", None) or "utf-8" for stream in (sys.stdout, sys.stderr)],
        "stdin": None,
    }


def _size() -> tuple[int, int]:
    """Columns and lines, found as rich finds them."""
    width, height = 80, 25
    for descriptor in (0, 1, 2):
        with suppress(OSError, ValueError):
            width, height = os.get_terminal_size(descriptor)
            break
    given = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    wide, high = (int(text) if text.isdigit() else 0 for text in given)
    return wide or width or 80, high or height or 25


@contextmanager
def _interrupting(path: str, key: str) -> Iterator[None]:
    """Ctrl-C asks the server to stop the command within the block; a second one raises KeyboardInterrupt."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        with suppress(OSError, ValueError, HTTPException):
            _asked(path, "/interrupt", {"key": key})

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _asked(path: str, about: str, body: Mapping[str, Any]) -> dict[str, Any]:
    connection = _Connection(path, _ANSWER_SECONDS)
    try:
        connection.request("POST", about, json.dumps(body), {"Content-Type": "application/json"})
        found = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise ValueError(f"{about} was answered with {found!r}")
    return found


def _here() -> str:
    """Which process runs a command that does not go through the door."""
    return f"process {os.getpid()}, not the server, runs this command."


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
