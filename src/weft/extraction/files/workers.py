"""Run work in a thread pool with one DuckDB connection per thread, and return results in the order of the input."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Final, TypeVar

import duckdb

from weft.storage.local_sql import connect

IN_FLIGHT: Final = 12
"""The maximum number of pieces that are read ahead. Reading ahead gives the threads work while a batch is written."""

_T = TypeVar("_T")
_Item = TypeVar("_Item")


class Workers:
    """A pool of one thread per processor. Work that has not started is cancelled at the end of the ``with`` block."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(os.cpu_count() or 2, thread_name_prefix="weft-load")
        self._own = threading.local()
        self._connections: list[duckdb.DuckDBPyConnection] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()

    def submit(self, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> Future[_T]:
        """Run ``work`` on a thread with that thread's DuckDB connection."""
        return self._pool.submit(self._run, work)

    def in_order(self, items: Iterable[_Item], work: Callable[[_Item, duckdb.DuckDBPyConnection], _T]) -> Iterator[_T]:
        """Yield the result for each item in order. At most ``IN_FLIGHT`` items are processed ahead."""
        waiting: deque[Future[_T]] = deque()
        for item in items:
            waiting.append(self.submit(partial(work, item)))
            if len(waiting) >= IN_FLIGHT:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _run(self, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
        connection: duckdb.DuckDBPyConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = connect(threads=1)
            self._own.connection = connection
            self._connections.append(connection)
        return work(connection)
