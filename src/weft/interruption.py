"""Cooperative cancellation of a command that runs in another process than the one it was typed in (``weft serve``).

Ctrl-C raises in the main thread only.  A command that runs in a server's thread checks its ``CancelToken`` at the
points where stopping leaves nothing half done: while it waits for a lease or for its turn, and between batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(BaseException):
    """Raised in a command that was asked to stop.  As with SystemExit, handlers of Exception do not catch it."""


class CancelToken:
    """A request to stop one command.  Any thread may cancel it, more than once."""

    def __init__(self) -> None:
        self.cancelled = False
        self._ends: list[Callable[[], None]] = []

    @property
    def ends_something(self) -> bool:
        """Whether it was cancelled, and ended what the command was waiting for."""
        return self.cancelled and bool(self._ends)

    def cancel(self) -> None:
        """Asks the command to stop, and ends what it waits for, where that can be ended."""
        self.cancelled = True
        for end in tuple(self._ends):
            end()

    @contextmanager
    def on_cancel(self, end: Callable[[], None]) -> Iterator[None]:
        """While the block runs, the cancel_token calls ``end``, in the thread of who cancels it it."""
        self._ends.append(end)
        try:
            yield
        finally:
            self._ends.remove(end)


_current: ContextVar[CancelToken | None] = ContextVar("cancel_token", default=None)


def current_cancel_token() -> CancelToken | None:
    """The cancel_token under which this command runs; None where nobody can cancel one."""
    return _current.get()


@contextmanager
def cancellable_by(cancel_token: CancelToken) -> Iterator[None]:
    """Lets the block, in this thread, be stopped by the cancel_token."""
    token = _current.set(cancel_token)
    try:
        yield
    finally:
        _current.reset(token)


def stop_here() -> None:
    """A place where nothing is half done: raises Stopped where the command was asked to stop."""
    cancel_token = _current.get()
    if cancel_token is not None and cancel_token.cancelled:
        raise Stopped
