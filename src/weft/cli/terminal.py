"""The terminal of a command: the terminal of this process, or of a client of ``weft serve``.

Commands print, read stdin and resolve paths only through this module.  One process can therefore run the commands of
many terminals at the same time.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO, TextIOBase, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO, cast

from weft.errors import Refused
from weft.printable import require_text

if TYPE_CHECKING:
    from rich.console import Console

    from weft.api.weft import Weft


class RunLocally(BaseException):
    """The error for a command that must run in the client's process, raised before the command has any effect.

    The class does not inherit from Exception, so that error handlers do not catch the error.
    """


def not_here(what: str = "this") -> BaseException:
    """Return the error for a command that must run in the client's process.

    For a client on another machine, return Refused: its process has no home.
    """
    client = _remote.get()
    if client is None or not client.elsewhere:
        return RunLocally()
    return Refused(f"{what} works on the machine of the home only", hint="Run the command there, without WEFT_URL.")


class StdinNeeded(BaseException):
    """The error for a command that needs the client's stdin, raised before the command has any effect."""


class Sink(TextIOBase):
    """A text stream that passes its text to a function."""

    def __init__(self, put: Callable[[str], None], *, is_terminal: bool, encoding: str) -> None:
        super().__init__()
        self._put, self._is_terminal, self._encoding = put, is_terminal, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the client's stream.  If the encoding has no box characters, tables use ASCII."""
        return self._encoding

    def isatty(self) -> bool:
        """Return whether the client's stream is a terminal."""
        return self._is_terminal

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Pass the text to the function."""
        self._put(text)
        return len(text)


@dataclass(frozen=True)
class Remote:
    """The terminal of a client, and the home that this process serves.

    ``stdin`` is None if the client did not send its stdin.  ``variables`` are the environment variables from which rich
    determines the capabilities of the terminal.  ``width`` and ``height`` are in characters.
    """

    out: Sink
    err: Sink
    folder: Path
    width: int
    height: int
    variables: Mapping[str, str]
    user: str | None
    stdin: str | None
    stdin_is_terminal: bool
    weft: Weft
    named_home: Path
    elsewhere: bool = False
    """Whether the client is on another machine, so that its paths mean nothing here."""

    def console(self, *, err: bool) -> Console:
        """Return a rich console for the terminal."""
        from rich.console import Console

        return Console(
            file=cast("TextIO", self.err if err else self.out),
            stderr=err,
            width=self.width,
            height=self.height,
            highlight=False,
            emoji=False,
            markup=False,
            _environ=self.variables,
        )


_remote: ContextVar[Remote | None] = ContextVar("remote", default=None)


def remote() -> Remote | None:
    """Return the client's terminal, or None if the user typed the command in this process."""
    return _remote.get()


@contextmanager
def use_terminal(terminal: Remote) -> Iterator[None]:
    """Use the given terminal for the commands of this thread during a ``with`` block."""
    token = _remote.set(terminal)
    try:
        yield
    finally:
        _remote.reset(token)


def escape_unencodable() -> None:
    """Make this process print JSON escapes for characters that its terminal cannot encode."""
    codecs.register_error(_ESCAPED, _json_escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def _json_escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ESCAPED: Final = "weft.escaped"


def out() -> TextIO:
    """Return the stream for results."""
    client = _remote.get()
    return sys.stdout if client is None else cast("TextIO", client.out)


def err() -> TextIO:
    """Return the stream for output other than results."""
    client = _remote.get()
    return sys.stderr if client is None else cast("TextIO", client.err)


def stdin_is_terminal() -> bool:
    """Return whether stdin is a terminal."""
    client = _remote.get()
    return sys.stdin.isatty() if client is None else client.stdin_is_terminal


def read_stdin() -> str:
    """Return the text of stdin.  Raise StdinNeeded.  Raise Refused for invalid UTF-8.

    Call this function before the command has any effect.
    """
    client = _remote.get()
    if client is None:
        return own_stdin()
    if client.stdin is None:
        raise StdinNeeded
    return client.stdin


def own_stdin() -> str:
    """Return the text of this process's stdin.  Raise Refused if stdin is not valid UTF-8."""
    try:
        return require_text(sys.stdin.read() if sys.stdin else "", "stdin")
    except UnicodeDecodeError as error:
        return require_text(error.object.decode("utf-8", "surrogateescape"), "stdin")


def stdin_bytes() -> BinaryIO:
    """Return stdin as a byte stream.  Raise RunLocally, or StdinNeeded for a client on another machine."""
    client = _remote.get()
    if client is None:
        return sys.stdin.buffer
    if not client.elsewhere:
        raise RunLocally
    return BytesIO(read_stdin().encode())


def folder() -> Path:
    """Return the working directory of the command."""
    client = _remote.get()
    return Path.cwd() if client is None else client.folder


def path(typed: Path) -> Path:
    """Resolve a path in the working directory of the command.

    Raise RunLocally for a client's file descriptor.  Raise Refused for a client on another machine.
    """
    client = _remote.get()
    if client is None:
        return typed
    if client.elsewhere:
        raise Refused(
            f"the server cannot use {str(typed)!r}, which is a path on your machine",
            hint="Send rows with `weft append TABLE -f FILE`, or run the command on the machine of the home.",
        )
    from weft.extraction.paths import descriptor

    if descriptor(client.folder / typed) is not None:
        raise RunLocally
    return client.folder / typed


def user() -> str | None:
    """Return the client's user name, or None for a local command."""
    client = _remote.get()
    return None if client is None or client.user is None else require_text(client.user, "the user's name")
