"""Whose terminal a command talks to: that of this process, or that of a person whose command came through the door of
``weft serve``.

Commands print, read stdin and look at paths through this module only, so that one process can run the commands of many
terminals at once.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import TextIOBase, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TextIO, cast

from weft.printable import require_text

if TYPE_CHECKING:
    from rich.console import Console

    from weft.api.weft import Weft


class Elsewhere(BaseException):
    """The command belongs into the process in which it was typed; raised before anything is printed or done.

    As SystemExit it passes by whatever handles errors.
    """


class StdinWanted(BaseException):
    """The command reads stdin, which was not sent along; raised before anything is printed or done."""


class Sink(TextIOBase):
    """A stream whose text goes to a function."""

    def __init__(self, put: Callable[[str], None], *, is_terminal: bool, encoding: str) -> None:
        super().__init__()
        self._put, self._is_terminal, self._encoding = put, is_terminal, encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """What the terminal's own stream is encoded in: tables are drawn with ASCII where it has no lines."""
        return self._encoding

    def isatty(self) -> bool:
        """Whether somebody watches."""
        return self._is_terminal

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Passes the text on."""
        self._put(text)
        return len(text)


@dataclass(frozen=True)
class Remote:
    """The terminal of another process: where its command was typed, and the home that this process keeps open.

    ``stdin`` is None where it was not sent along; ``variables`` are those of the environment by which rich finds out
    what the terminal can show; ``width`` and ``height`` count characters.
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

    def console(self, *, err: bool) -> Console:
        """The terminal as rich writes to it."""
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
    """The other process's terminal; None where a command runs in the process in which it was typed."""
    return _remote.get()


@contextmanager
def typed_at(terminal: Remote) -> Iterator[None]:
    """Runs the block, in this thread, for that terminal."""
    token = _remote.set(terminal)
    try:
        yield
    finally:
        _remote.reset(token)


def escape_what_cannot_be_shown() -> None:
    """From now on this process prints a letter that its terminal's encoding lacks as JSON would escape it."""
    codecs.register_error(_ESCAPED, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


_ESCAPED: Final = "weft.escaped"


def out() -> TextIO:
    """Where what was asked for is printed."""
    there = _remote.get()
    return sys.stdout if there is None else cast("TextIO", there.out)


def err() -> TextIO:
    """Where everything else is printed."""
    there = _remote.get()
    return sys.stderr if there is None else cast("TextIO", there.err)


def stdin_is_terminal() -> bool:
    """Whether a person would have to type what is read."""
    there = _remote.get()
    return sys.stdin.isatty() if there is None else there.stdin_is_terminal


def read_stdin() -> str:
    """All that stdin has, to be read before anything else is done.

    Raises StdinWanted, and Refused where stdin is not UTF-8 text.
    """
    there = _remote.get()
    if there is None:
        return own_stdin()
    if there.stdin is None:
        raise StdinWanted
    return there.stdin


def own_stdin() -> str:
    """All that this process's stdin has; raises Refused where it is not UTF-8 text."""
    try:
        return require_text(sys.stdin.read() if sys.stdin else "", "stdin")
    except UnicodeDecodeError as error:
        return require_text(error.object.decode("utf-8", "surrogateescape"), "stdin")


def stdin_bytes() -> BinaryIO:
    """Stdin as it is, which may be no text; raises Elsewhere where that is another process's."""
    if _remote.get() is not None:
        raise Elsewhere
    return sys.stdin.buffer


def folder() -> Path:
    """The folder in which the command was typed."""
    there = _remote.get()
    return Path.cwd() if there is None else there.folder


def path(typed: Path) -> Path:
    """A path as it was meant where it was typed; raises Elsewhere for a descriptor of another process."""
    there = _remote.get()
    if there is None:
        return typed
    from weft.extraction.paths import descriptor

    if descriptor(there.folder / typed) is not None:
        raise Elsewhere
    return there.folder / typed


def user() -> str | None:
    """Whose command it is, where that is not the owner of this process's environment."""
    there = _remote.get()
    return None if there is None or there.user is None else require_text(there.user, "the user's name")
