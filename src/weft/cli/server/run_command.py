"""One command that came through the door: run in a thread of the server, its output sent to where it was typed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.cli import terminal
from weft.cli.server import address
from weft.cli.troubles import INTERRUPTED
from weft.interruption import CancelToken, Stopped, cancellable_by, current_cancel_token

if TYPE_CHECKING:
    from weft.api.weft import Weft

_WAITING_CHARACTERS: Final = 1_000_000
"""A command whose reader has so much to read waits for it."""

_CUT_SHORT: Final = (
    "failed: `weft serve` was stopped before this command ended\n"
    "  Nothing is half done. Run it again: it runs without the server.\n"
)

HERE: Final[Mapping[str, object]] = {"end": None}
"""The command is to be run in the process in which it was typed."""


class Outlet:
    """What a command prints on its way from its thread to the server's loop, in order, a limited amount at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._news = asyncio.Event()
        self._changed = threading.Condition()
        self._waiting: list[tuple[str, list[str]]] = []
        self._size = 0
        self._closed = self._deserted = False

    def put(self, kind: str, text: str) -> None:
        """Sends a text; from any thread.

        Raises Stopped where nobody reads any more, in the thread of a command.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._size < _WAITING_CHARACTERS or self._deserted)
            if self._deserted:
                if current_cancel_token() is not None:
                    raise Stopped
                return  # a thread that draws a bar or a spinner
            if self._waiting and self._waiting[-1][0] == kind:
                self._waiting[-1][1].append(text)
            else:
                self._waiting.append((kind, [text]))
            first, self._size = self._size == 0, self._size + len(text)
        if first:
            self._loop.call_soon_threadsafe(self._news.set)

    def desert(self) -> None:
        """Nobody reads any more."""
        with self._changed:
            self._deserted = True
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more comes; called in the loop."""
        self._closed = True
        self._news.set()

    async def texts(self) -> AsyncIterator[tuple[str, str]]:
        """What comes, until it is closed, what was sent at once being joined."""
        while True:
            await self._news.wait()
            self._news.clear()
            with self._changed:
                found, self._waiting, self._size = self._waiting, [], 0
                self._changed.notify_all()
            for kind, parts in found:
                yield kind, "".join(parts)
            if self._closed and not found:
                return
            if self._closed:
                self._news.set()


@dataclass
class Command:
    """One command under way; ``typed`` is the request's body as ``client`` makes it, ``line`` runs a command line."""

    typed: Mapping[str, Any]
    weft: Weft
    outlet: Outlet
    line: Callable[[Sequence[str]], int]
    cancel_token: CancelToken = field(default_factory=CancelToken)
    cut_short: bool = False
    """The server could wait no longer, and has asked the command to stop."""
    _had_spark: bool = field(default=False, init=False)

    def tell(self, words: str) -> None:
        """Prints a word of the server's on its terminal, where that is still there."""
        self.outlet.put("err", words)

    def run(self) -> Mapping[str, object]:
        """Runs it in this thread: its exit code under ``end``, or what else ends the stream."""
        found = copy_context().run(self._run)
        if self.cut_short and found == {"end": INTERRUPTED}:
            with suppress(Stopped):  # its reader is gone
                self.tell(_CUT_SHORT)
            return {"end": 1}
        return found

    def _run(self) -> Mapping[str, object]:
        from weft.cli.troubles import tell_unexpected
        from weft.runtime.session import session_started

        self._had_spark = session_started()
        arguments = [str(word) for word in self.typed["arguments"]]
        if not address.goes_through(arguments):
            return HERE
        with terminal.typed_at(self._terminal()), cancellable_by(self.cancel_token):
            try:
                return {"end": self.line(arguments)}
            except terminal.Elsewhere:
                return HERE
            except terminal.StdinWanted:
                return {"end": "stdin"}
            except Stopped:
                return {"end": INTERRUPTED}
            except SystemExit as end:
                return {"end": end.code if isinstance(end.code, int) else 1}
            except Exception as error:  # noqa: BLE001 - the server goes on, whatever becomes of a command
                return {"end": tell_unexpected(error)}

    @property
    def lost_spark(self) -> bool:
        """Whether Spark has ended since the command began, with what was cancelled."""
        from weft.runtime.session import session_started

        return self._had_spark and not session_started()

    def _terminal(self) -> terminal.Remote:
        typed = self.typed
        (reads, *watched), encodings = typed["terminals"], typed["encodings"]
        out, err = (self._sink(*each) for each in zip(("out", "err"), watched, encodings, strict=True))
        return terminal.Remote(
            out=out,
            err=err,
            folder=Path(typed["folder"]),
            width=int(typed["width"]),
            height=int(typed["height"]),
            variables=dict(typed["variables"]),
            user=typed["user"],
            stdin=typed["stdin"],
            stdin_is_terminal=bool(reads),
            weft=self.weft,
            named_home=Path(typed["home"]),
        )

    def _sink(self, kind: str, watched: bool, encoding: str) -> terminal.Sink:
        return terminal.Sink(lambda text: self.outlet.put(kind, text), is_terminal=watched, encoding=encoding)
