"""Limit the computing time of a query in this process.

DuckDB is interrupted at the limit, and Python loops check the limit. A limit applies to a ``with`` block, and to all
DuckDB connections that the block opens (``temporal_sql``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX, Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from weft.errors import LimitExceeded
from weft.interruption import CancelToken, Stopped, current_cancel_token

if TYPE_CHECKING:
    import duckdb

_AGAIN_SECONDS: Final = 0.1
"""The pause between interrupts. A single interrupt has no effect if it falls between two statements."""


@dataclass
class _Limit:
    seconds: float
    spent: float = 0.0
    cancel_token: CancelToken | None = None
    over: bool = False
    ended: bool = False
    woken: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)
    connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list)

    def watch(self) -> None:
        """After the time limit, interrupt all connections repeatedly until the block ends."""
        wait = min(max(self.seconds - self.spent, 0.0), TIMEOUT_MAX)
        while True:
            self.woken.wait(wait)
            if self.ended:
                return
            self.over = True
            with self.lock:
                for each in self.connections:
                    each.interrupt()
            self.woken.clear()
            wait = _AGAIN_SECONDS

    def end(self) -> None:
        """End the watch."""
        self.ended = True
        self.woken.set()


_current: ContextVar[_Limit | None] = ContextVar("time_limit", default=None)


@contextmanager
def time_limit(seconds: float, *, spent: float = 0.0, cancellable: bool = False) -> Iterator[None]:
    """Limit the time of the ``with`` block in this thread. After the limit, computations raise LimitExceeded.

    An earlier block of the same query took ``spent`` of the seconds.
    With ``cancellable``, they raise Stopped after the command of this thread was cancelled.
    """
    cancel_token = current_cancel_token() if cancellable else None
    limit = _Limit(seconds, spent, cancel_token)
    watching = Thread(target=limit.watch, name="weft-time-limit", daemon=True)
    token = _current.set(limit)
    watching.start()
    try:
        with nullcontext() if cancel_token is None else cancel_token.on_cancel(limit.woken.set):
            yield
    finally:
        limit.end()
        watching.join()
        _current.reset(token)


def require_time() -> None:
    """Raise LimitExceeded if the time limit of an enclosing block has expired, or Stopped after a cancellation."""
    limit = _current.get()
    if limit is not None and limit.over:
        if limit.cancel_token is not None and limit.cancel_token.cancelled:
            raise Stopped
        raise LimitExceeded(
            f"the query took longer than {limit.seconds:g} s",
            hint="Restrict the query. Or raise WEFT_QUERY_SECONDS and, if she has one, the limit of the user.",
        )


@contextmanager
def interrupted_in_time(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """During the ``with`` block, interrupt the statements of the connection when the time limit expires."""
    limit = _current.get()
    if limit is None:
        yield
        return
    require_time()
    with limit.lock:
        limit.connections.append(connection)
    try:
        yield
    finally:
        with limit.lock:
            limit.connections.remove(connection)
