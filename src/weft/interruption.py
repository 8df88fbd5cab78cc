"""How a command that runs in another process than the one it was typed in is stopped (``weft serve``).

Ctrl-C raises in the main thread only, wherever that is.  A command in a thread of a server is asked instead, and looks
at the wish where stopping leaves nothing half done: while it waits for a lease or for its turn, between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(BaseException):
    """The command was asked to stop; as SystemExit it passes by whatever handles errors."""


class Wish:
    """The wish that one command stops; it may be uttered from any thread, and again."""

    def __init__(self) -> None:
        self.uttered = False
        self._ends: list[Callable[[], None]] = []

    @property
    def ends_something(self) -> bool:
        """Whether it was uttered, and ended what the command was waiting for."""
        return self.uttered and bool(self._ends)

    def utter(self) -> None:
        """Asks the command to stop, and ends what it waits for, where that can be ended."""
        self.uttered = True
        for end in tuple(self._ends):
            end()

    @contextmanager
    def ended_by(self, end: Callable[[], None]) -> Iterator[None]:
        """While the block runs, the wish calls ``end``, in the thread of who utters it."""
        self._ends.append(end)
        try:
            yield
        finally:
            self._ends.remove(end)


_current: ContextVar[Wish | None] = ContextVar("wish", default=None)


def current_wish() -> Wish | None:
    """The wish under which this command runs; None where nobody can utter one."""
    return _current.get()


@contextmanager
def stopped_by(wish: Wish) -> Iterator[None]:
    """Lets the block, in this thread, be stopped by the wish."""
    token = _current.set(wish)
    try:
        yield
    finally:
        _current.reset(token)


def stop_here() -> None:
    """A place where nothing is half done: raises Stopped where the command was asked to stop."""
    wish = _current.get()
    if wish is not None and wish.uttered:
        raise Stopped
