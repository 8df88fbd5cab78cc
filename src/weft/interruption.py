"""Stop a command that runs in a server's process (``weft serve``), and report its progress.

Ctrl-C raises an exception only in the main thread of a process. A command in a server's thread therefore checks its
``CancelToken`` at points where stopping leaves nothing incomplete. The command checks the token while it waits for a
lease or for its turn, and between batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(BaseException):
    """The command was asked to stop. Like SystemExit, this exception is not caught by handlers of Exception."""


class CancelToken:
    """A request to stop one command. Any thread may cancel the token, more than once."""

    def __init__(self) -> None:
        self.cancelled = False
        self._ends: list[Callable[[], None]] = []

    @property
    def ends_something(self) -> bool:
        """True if the token is cancelled and the command still waits for an operation that ``cancel`` ended."""
        return self.cancelled and bool(self._ends)

    def cancel(self) -> None:
        """Ask the command to stop. If the command waits for an operation that can be ended, end this operation."""
        self.cancelled = True
        for end in tuple(self._ends):
            end()

    @contextmanager
    def on_cancel(self, end: Callable[[], None]) -> Iterator[None]:
        """During the ``with`` block, let ``cancel`` call ``end`` in the thread that cancels the token."""
        self._ends.append(end)
        try:
            yield
        finally:
            self._ends.remove(end)


_current: ContextVar[CancelToken | None] = ContextVar("cancel_token", default=None)


def current_cancel_token() -> CancelToken | None:
    """Return the token that can cancel the command in this thread, or None."""
    return _current.get()


@contextmanager
def cancellable_by(cancel_token: CancelToken) -> Iterator[None]:
    """Make ``cancel_token`` the current token of this thread during the ``with`` block."""
    token = _current.set(cancel_token)
    try:
        yield
    finally:
        _current.reset(token)


_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def progress_reported_to(listener: Callable[[str], None]) -> Iterator[None]:
    """During the ``with`` block, pass what ``report_progress`` reports in this thread to ``listener``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_progress(text: str) -> None:
    """Pass the progress of the command in this thread to the listener, if there is one.

    A listener may raise Stopped. Call this function where no operation is incomplete.
    """
    listener = _listener.get()
    if listener is not None:
        listener(text)


def stop_here() -> None:
    """Raise Stopped if the command was asked to stop. Call this function where no operation is incomplete."""
    cancel_token = _current.get()
    if cancel_token is not None and cancel_token.cancelled:
        raise Stopped
