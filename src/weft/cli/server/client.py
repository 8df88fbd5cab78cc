"""The client: send a command to the server of its home, and print the output.

If the server cannot run the command, the client prints the reason and runs the command.  The client prints no reason if
the server has ended.  Every command runs either on the server or in the client, never in both.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any, Final

from weft.cli import INTERRUPTED
from weft.cli.server import address
from weft.errors import Refused, WeftError

_ANSWER_SECONDS: Final = 5.0
"""The time limit for the reply to a greeting.  The client ignores a slower server."""

_TERMINAL_VARIABLES: Final = (
    "COLUMNS",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
)  # the variables that rich reads
_USER_VARIABLES: Final = ("LOGNAME", "USER", "LNAME", "USERNAME")  # those of getpass.getuser, in its order
STDIN: Final = "stdin"
_RELOAD: Final = "`weft serve --reload`"
_RELOADS: Final = f"{_RELOAD} restarts the server with the settings of this terminal."
_RELOAD_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.1


class OutputFailed(Exception):
    """The error for a failure to write the output of this process."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Connection(HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("weft", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Raise OSError if no process listens, or if the listening process belongs to another user."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        if peer_user(self.sock) not in (None, os.getuid()):
            raise PermissionError(f"{self._path} belongs to another user")


def peer_user(connection: socket.socket) -> int | None:
    """Return the user ID of the process at the other end, or None if the system does not report the ID."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def greeting(pointer: str) -> tuple[str, dict[str, Any]]:
    """Return the path of the server's socket, and the server's greeting.

    Raises OSError, ValueError or HTTPException if no server responds.
    """
    with open(pointer, encoding="utf-8") as file:
        path = str(json.load(file)["socket"])
    return path, _post(path, "/greeting", {"settings": address.settings(os.environ)})


def run_on_server(arguments: Sequence[str], pointer: str) -> int | None:
    """Run the command on the server and return its exit code.  Return None if the command must run in this process."""
    try:
        path, server = greeting(pointer)
    except TimeoutError:
        _note(f"{_local_process()} `weft serve` of this home does not answer.")
        return None
    except (OSError, ValueError, KeyError, HTTPException):
        return None  # the server was killed and left its socket
    name = f"`weft serve` of this home (process {server['pid']})"
    if server["code"] != address.fingerprint():
        _note(f"{_local_process()} {name} runs another version of Weft. {_RELOAD} restarts the server.")
        return None
    differing = _differences(server, os.environ)
    if differing:
        _note(f"{_local_process()} {name} has other settings than this terminal: {'; '.join(differing)}. {_RELOADS}")
        return None
    return _send(arguments, path, name)


def _differences(server: Mapping[str, Any], variables: Mapping[str, str]) -> list[str]:
    differences = []
    for name, on_server in server["differing"].items():
        here = bool(variables.get(name))
        differences.append(
            f"{name} is set here only"
            if not on_server
            else f"{name} is set {'differently' * here or 'on the server only'}"
        )
    for name, theirs in server["secrets"].items():
        own = address.mark(server["instance"], variables.get(name))
        if own is not None and own != theirs:
            differences.append(f"{name} is set here only" if theirs is None else f"{name} is set differently")
    return differences


def reload_server(home: str | os.PathLike[str], variables: Mapping[str, str]) -> int:
    """Restart the home's server with these environment variables, and return its process ID.

    The server first completes its running work.  Raises NotFound if the home has no server.  Raises ExecutionError if
    the server cannot restart or takes too long.
    """
    from weft.errors import ExecutionError, NotFound

    pointer = address.pointer_file(home)
    try:
        path, before = greeting(pointer)
        answer = _post(path, "/reload", {"variables": dict(variables)})
    except (OSError, ValueError, KeyError, HTTPException) as error:
        if isinstance(error, TimeoutError):
            raise ExecutionError(
                "the server of this home does not answer", hint="Check the state of the server with `weft doctor`."
            ) from None
        raise NotFound("this home has no server", where=str(home), hint="Start a server with `weft serve`.") from None
    if "instance" not in answer:
        message = (
            f"the server of this home (process {before['pid']}) runs an older version of Weft, which cannot reload"
        )
        raise ExecutionError(message, hint="Stop that process, then start `weft serve` again.", where=str(home))
    until = time.monotonic() + _RELOAD_SECONDS
    while time.monotonic() < until:
        with suppress(OSError, ValueError, KeyError, HTTPException):
            _, after = greeting(pointer)
            if after["instance"] != answer["instance"]:
                return int(after["pid"])
        time.sleep(_PAUSE_SECONDS)
    raise ExecutionError(
        f"the server has not restarted within {_RELOAD_SECONDS:g} s (process {before['pid']})",
        hint="Wait: the server finishes the running commands first. `weft doctor` shows the state of the server.",
        where=str(home),
    )


def server_state(home: str | os.PathLike[str]) -> tuple[bool, str, str | None]:
    """Return the state of the server for the doctor: whether the server works, a description, and a remedy or None."""
    pointer = address.pointer_file(home)
    if not os.path.exists(pointer):
        return True, "none; `weft serve` makes commands faster", None
    try:
        _, server = greeting(pointer)
    except TimeoutError:
        return False, "the server does not answer", "check what the process of the server does, or end the process"
    except (OSError, ValueError, KeyError, HTTPException):
        return True, "none; a killed server left its socket, and the next server replaces the socket", None
    name = f"process {server['pid']}, {server['commands']} running commands"
    if server["code"] != address.fingerprint():
        return False, f"{name}; it runs another version of Weft", f"{_RELOAD} restarts it"
    return True, f"{name}, the same version of Weft", None


def _send(arguments: Sequence[str], path: str, name: str) -> int | None:
    try:
        request = {"key": os.urandom(8).hex(), **_request(arguments)}
    except FileNotFoundError:  # the working directory was deleted
        return None
    try:
        code = _stream_or_fail(path, request, name)
        if code == STDIN:
            from weft.cli.terminal import own_stdin

            code = _stream_or_fail(path, {**request, "stdin": own_stdin()}, name)
        return None if code is None else int(code)
    except Refused as error:  # stdin is not UTF-8 text
        return print_refusal(arguments, error)
    except OSError as error:  # reading stdin failed
        return _print_unexpected(error)
    except OutputFailed as error:
        return _print_unexpected(error.reason)


def _stream_or_fail(path: str, request: Mapping[str, Any], name: str) -> Any:
    with _forward_interrupts(path, str(request["key"])):
        try:
            return _stream(path, request)
        except KeyboardInterrupt:
            _note(f"{name} finishes the running step.")
            return INTERRUPTED
        except (OSError, ValueError, HTTPException):
            print(f"failed: {name} ended during this command", file=sys.stderr)
            print("  Stored data is not lost. Run the command again, without the server.", file=sys.stderr)
            return 1


def print_refusal(arguments: Sequence[str], error: WeftError) -> int:
    """Print the error of a command that did not run, and return its exit code."""
    from weft.cli.troubles import print_error, start_command

    start_command(arguments)
    print_error(error)
    return error.exit_code


def _print_unexpected(error: Exception) -> int:
    from weft.cli.troubles import print_unexpected

    return print_unexpected(error)


def _stream(path: str, request: Mapping[str, Any]) -> Any:
    """Return the exit code, None if the command must run in this process, or ``STDIN`` if the command needs stdin."""
    connection = _Connection(path, None)
    try:
        connection.connect()
        connection.request("POST", "/command", json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:  # the server refuses the request; nothing was run
            return None
        return printed(response)
    finally:
        connection.close()


def printed(lines: Iterable[bytes]) -> Any:
    """Print the output of a command, and return what comes at its end."""
    for line in lines:
        [(kind, value)] = json.loads(line).items()
        if kind == "end":
            return value
        stream = sys.stderr if kind == "err" else sys.stdout
        try:
            stream.write(value)
            stream.flush()
        except BrokenPipeError:  # the reader closed the pipe, as can happen with a local command
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 0
        except (OSError, UnicodeError) as error:
            raise OutputFailed(error) from None
    raise ConnectionResetError("no end of the command")


def _request(arguments: Sequence[str]) -> dict[str, Any]:
    return {
        **terminal_fields(),
        "arguments": list(arguments),
        "home": os.environ.get("WEFT_HOME") or "weft-home",
        "folder": os.getcwd(),
        "user": next((os.environ[name] for name in _USER_VARIABLES if os.environ.get(name)), None),
        "stdin": None,
    }


def terminal_fields() -> dict[str, Any]:
    """Return the properties of this process's terminal that a server needs."""
    width, height = _size()
    return {
        "width": width,
        "height": height,
        "variables": {name: os.environ[name] for name in _TERMINAL_VARIABLES if name in os.environ},
        "terminals": [stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)],
        "encodings": [getattr(stream, "encoding", None) or "utf-8" for stream in (sys.stdout, sys.stderr)],
    }


def _size() -> tuple[int, int]:
    """Return the numbers of columns and lines of the terminal, as rich determines them."""
    width, height = 80, 25
    for descriptor in (0, 1, 2):
        with suppress(OSError, ValueError):
            width, height = os.get_terminal_size(descriptor)
            break
    variables = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    wide, high = (int(text) if text.isdigit() else 0 for text in variables)
    return wide or width or 80, high or height or 25


@contextmanager
def _forward_interrupts(path: str, key: str) -> Iterator[None]:
    interrupts: list[int] = []

    def forward(number: int, _frame: object) -> None:
        if interrupts:
            raise KeyboardInterrupt
        interrupts.append(number)
        with suppress(OSError, ValueError, HTTPException):
            _post(path, "/interrupt", {"key": key})

    before = signal.signal(signal.SIGINT, forward)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _post(path: str, about: str, body: Mapping[str, Any]) -> dict[str, Any]:
    connection = _Connection(path, _ANSWER_SECONDS)
    try:
        connection.request("POST", about, json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise ValueError(f"{about} was answered with {answer!r}")
    return answer


def _local_process() -> str:
    return f"this command runs in process {os.getpid()}, not on the server."


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
