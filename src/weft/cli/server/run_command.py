"""Run one command in a thread of the server, and send its output to the client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weft.cli import INTERRUPTED, terminal
from weft.cli.server import address
from weft.interruption import CancelToken, Stopped, cancellable_by, current_cancel_token

if TYPE_CHECKING:
    from weft.api.weft import Weft

_WAITING_CHARACTERS: Final = 1_000_000
"""The maximum number of unread characters.  If the limit is reached, the command waits until the client reads."""

_CUT_SHORT: Final = (
    "failed: `weft serve` was stopped before this command ended\n"
    "  No work is half done. Run the command again, without the server.\n"
)

RUN_LOCALLY: Final[Mapping[str, object]] = {"end": None}
"""The reply for a command that must run in the client's process."""


class OutputStream:
    """A bounded queue that passes the output of a command from its thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._news = asyncio.Event()
        self._changed = threading.Condition()
        self._waiting: list[tuple[str, list[str]]] = []
        self._size = 0
        self._closed = self._deserted = False

    def put(self, kind: str, text: str) -> None:
        """Add a text to the queue.  In the thread of a command, raise Stopped if the client has disconnected."""
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

    def abandon(self) -> None:
        """Discard all further output."""
        with self._changed:
            self._deserted = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the output.  Call this method in the event loop."""
        self._closed = True
        self._news.set()

    async def texts(self) -> AsyncIterator[tuple[str, str]]:
        """Yield the output until the end.  Join the texts that are waiting."""
        while True:
            await self._news.wait()
            self._news.clear()
            with self._changed:
                batch, self._waiting, self._size = self._waiting, [], 0
                self._changed.notify_all()
            for kind, parts in batch:
                yield kind, "".join(parts)
            if self._closed and not batch:
                return
            if self._closed:
                self._news.set()


@dataclass
class Command:
    """A running command.  ``typed`` is the body of the client's request.  The function ``line`` runs a command line."""

    typed: Mapping[str, Any]
    weft: Weft
    outlet: OutputStream
    line: Callable[[Sequence[str]], int]
    cancel_token: CancelToken = field(default_factory=CancelToken)
    elsewhere: bool = False
    """Whether the client is on another machine."""
    cut_short: bool = False
    """Whether the server canceled the command because the server was stopped."""
    _had_spark: bool = field(default=False, init=False)

    def print_note(self, words: str) -> None:
        """Print a message of the server on the terminal of the command."""
        self.outlet.put("err", words)

    def run(self) -> Mapping[str, object]:
        """Run the command in this thread.  Return the last line for the client, such as ``{"end": exit code}``."""
        end = copy_context().run(self._run)
        if self.cut_short and end == {"end": INTERRUPTED}:
            with suppress(Stopped):  # its reader is gone
                self.print_note(_CUT_SHORT)
            return {"end": 1}
        return end

    def _run(self) -> Mapping[str, object]:
        from weft.cli.troubles import print_unexpected
        from weft.runtime.session import session_started

        self._had_spark = session_started()
        arguments = [str(word) for word in self.typed["arguments"]]
        if not address.runs_on_server(arguments, elsewhere=self.elsewhere):
            return RUN_LOCALLY
        with terminal.use_terminal(self._terminal()), cancellable_by(self.cancel_token):
            try:
                return {"end": self.line(arguments)}
            except terminal.RunLocally:
                return RUN_LOCALLY
            except terminal.StdinNeeded:
                return {"end": "stdin"}
            except Stopped:
                return {"end": INTERRUPTED}
            except SystemExit as end:
                return {"end": end.code if isinstance(end.code, int) else 1}
            except Exception as error:  # noqa: BLE001 - a failed command must not stop the server
                return {"end": print_unexpected(error)}

    @property
    def lost_spark(self) -> bool:
        """Whether Spark ended during the command because of a cancellation."""
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
            elsewhere=self.elsewhere,
        )

    def _sink(self, kind: str, watched: bool, encoding: str) -> terminal.Sink:
        return terminal.Sink(lambda text: self.outlet.put(kind, text), is_terminal=watched, encoding=encoding)
