"""Cooperative cancellation of a command that runs in a server's process, not where the user typed it (``weft serve``).

Ctrl-C raises an exception in the main thread only. A command in a server's thread checks its ``CancelToken`` at the
points where stopping leaves nothing incomplete: while it waits for a lease or for its turn, and between batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(BaseException):
    """Raised in a command that was asked to stop. As with SystemExit, handlers of Exception do not catch it."""


class CancelToken:
    """A request to stop one command.  Any thread may cancel it, more than once."""

    def __init__(self) -> None:
        self.cancelled = False
        self._ends: list[Callable[[], None]] = []

    @property
    def ends_something(self) -> bool:
        """Whether the token was cancelled and has ended an operation that the command was waiting for."""
        return self.cancelled and bool(self._ends)

    def cancel(self) -> None:
        """Ask the command to stop, and end the operation that it waits for, if possible."""
        self.cancelled = True
        for end in tuple(self._ends):
            end()

    @contextmanager
    def on_cancel(self, end: Callable[[], None]) -> Iterator[None]:
        """Call ``end`` if the token is cancelled while the block runs, in the thread that cancels it."""
        self._ends.append(end)
        try:
            yield
        finally:
            self._ends.remove(end)


_current: ContextVar[CancelToken | None] = ContextVar("cancel_token", default=None)


def current_cancel_token() -> CancelToken | None:
    """Return the token that can cancel this command, or None."""
    return _current.get()


@contextmanager
def cancellable_by(cancel_token: CancelToken) -> Iterator[None]:
    """Let the token stop the block in this thread."""
    token = _current.set(cancel_token)
    try:
        yield
    finally:
        _current.reset(token)


def stop_here() -> None:
    """Raise Stopped if the command was asked to stop. Call it where nothing is incomplete."""
    cancel_token = _current.get()
    if cancel_token is not None and cancel_token.cancelled:
        raise Stopped
