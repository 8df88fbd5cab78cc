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
import pyarrow as pa

from weft.extraction.batches import MAX_BYTES
from weft.storage.local_sql import another, share_memory

IN_FLIGHT: Final = 12
"""The maximum number of pieces that are read ahead. Reading ahead gives the threads work while a batch is written."""

_T = TypeVar("_T")
_threads: int | None = None


def use_one_thread() -> None:
    """Use one thread in the pools of this process.  Each processor of the machine has such a process.

    The DuckDBs of these processes share the memory that the DuckDBs of one process may use.
    """
    global _threads
    _threads = 1
    share_memory(os.cpu_count() or 2)


class Workers:
    """A pool of one thread per processor, or of one thread (``use_one_thread``).

    Work that has not started is cancelled at the end of the ``with`` block.

    The threads' connections belong to the DuckDB instance of ``connection`` and share its memory limit.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._pool = ThreadPoolExecutor(_threads or os.cpu_count() or 2, thread_name_prefix="weft-load")
        self._connection = connection
        self._own = threading.local()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> Future[_T]:
        """Run ``work`` on a thread with that thread's DuckDB connection."""
        return self._pool.submit(self._run, work)

    def in_order(
        self, tables: Iterable[pa.Table], work: Callable[[pa.Table, duckdb.DuckDBPyConnection], _T]
    ) -> Iterator[_T]:
        """Yield the result for each table in order.

        At most ``IN_FLIGHT`` tables, of at most ``MAX_BYTES`` together, are processed ahead.
        """
        waiting: deque[tuple[Future[_T], int]] = deque()
        for table in tables:
            waiting.append((self.submit(partial(work, table)), table.nbytes))
            while len(waiting) >= IN_FLIGHT or sum(size for _, size in waiting) >= MAX_BYTES:
                yield waiting.popleft()[0].result()
        while waiting:
            yield waiting.popleft()[0].result()

    def _run(self, work: Callable[[duckdb.DuckDBPyConnection], _T]) -> _T:
        if not hasattr(self._own, "connection"):
            self._own.connection = another(self._connection)
        return work(self._own.connection)
