"""Read the answers of a query on demand.  Sort any number of answers with temporary files."""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, cmp_to_key
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final

from weft.algebra.schema import BIGINT, TIMESTAMP, DataType
from weft.algebra.sort_key import Key, compared
from weft.catalog.queries import Queries
from weft.catalog.records import FIRST_AT, ORDINAL, QueryRecord
from weft.catalog.ticks import Ticks
from weft.errors import HomeClosed
from weft.execution.tabular import Columns, Tabular, columns_text
from weft.printable import counted
from weft.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from weft.storage.ledger import ResultRow
    from weft.storage.values import Value


def answers_order(query: QueryRecord) -> tuple[Key, ...]:
    """Return the sort keys of a query's ORDER BY."""
    if "order" not in query.sql.lower():
        return ()
    from weft.sql.lower.ordering import order_of

    return order_of(query.sql, [name for name, _ in query.columns])


class Results(Tabular):
    """The answers of a query as of the time of the call.

    The ordinals of the answers are above ``after``, and their number is at most ``limit``.  The query's ORDER BY
    determines the order of the answers.  If ``after`` is given or the query has no ORDER BY, the answers are in the
    order of their ordinals.

    An iteration yields ``ResultRow`` objects and holds only a limited number of them in memory.  In a table, the first
    columns are ``_ordinal``, ``_first_at`` and ``_tick``.  Raises StorageError if an answer is missing.  Raises
    NotFound if the query was purged in the meantime.
    """

    def __init__(
        self,
        data: Store,
        queries: Queries,
        ticks: Ticks,
        query: QueryRecord,
        after: int | None,
        limit: int | None,
        session: Callable[[], SparkSession],
    ) -> None:
        self.query = query
        self._data = data
        self._queries = queries
        self._ticks = ticks
        self._after = max(after or 0, 0)
        self._by_ordinal = after is not None
        self._limit = limit
        self._spark = session

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The query's columns, in the order of ``ResultRow.values``."""
        return self.query.columns

    def __iter__(self) -> Iterator[ResultRow]:
        with self._queries.purge_reported(self.query.query_id):
            yield from self._rows()

    def _rows(self) -> Iterator[ResultRow]:
        from weft.storage.ledger import read_rows

        if not self.order:
            return read_rows(self._data, self.query, self._after, self._limit, self._found_by)

        return sorted_answers(read_rows(self._data, self.query), self.order, self._limit)

    def _found_by(self, query_id: int, first: int, last: int) -> tuple[int, ...] | None:
        """Return the result of ``Ticks.with_answers``, or None after the home is closed, so that all files are read."""
        try:
            return self._ticks.with_answers(query_id, first, last)
        except HomeClosed:
            return None

    @cached_property
    def order(self) -> tuple[Key, ...]:
        """The sort keys of the query's ORDER BY, or an empty tuple if ordinals determine the order."""
        return () if self._by_ordinal else answers_order(self.query)

    def __len__(self) -> int:
        count = max(self.query.rows - self._after, 0)
        return count if self._limit is None else min(count, self._limit)

    def spark(self) -> DataFrame:
        """Return the answers as a Spark DataFrame.

        Spark reads the answers from the home, so memory does not limit the number of answers.  The rows are sorted only
        if the query has an ORDER BY and ``limit`` was given.  A purge of the query deletes the files of the DataFrame.
        """
        from weft.execution.relations import answer_frame

        if self.order and self._limit is not None:
            return super().spark()
        last = self._after + len(self)
        frame = answer_frame(self._spark, self._data, self.query, self._after, last) if len(self) else None
        return super().spark() if frame is None else frame

    def _typed(self) -> Columns:
        return ((ORDINAL, BIGINT), (FIRST_AT, TIMESTAMP), ("_tick", BIGINT), *self.query.columns)

    def _values(self) -> Iterator[tuple[Value, ...]]:
        return ((row.ordinal, row.first_at, row.tick, *row.values) for row in self)

    def _total(self) -> int:
        return len(self)

    def _session(self) -> SparkSession:
        return self._spark()

    def _brief(self) -> str:
        return f"{counted(len(self), 'answer')} of {self.query.name}: {columns_text(self.query.columns)}"


_RUN: Final = 50_000


def sorted_answers(rows: Iterable[ResultRow], keys: Sequence[Key], limit: int | None) -> Iterator[ResultRow]:
    """Yield the first ``limit`` answers (None: all), sorted by ``keys`` and then by ordinal."""
    by: Callable[[ResultRow], Any] = cmp_to_key(lambda one, other: _compared(keys, one, other))
    if limit is not None and limit <= _RUN:
        yield from heapq.nsmallest(limit, rows, key=by)
        return
    runs: list[Iterable[ResultRow]] = []
    remaining = iter(rows)
    while run := sorted(islice(remaining, _RUN), key=by):
        runs.append(run if len(run) < _RUN and not runs else _spill(run))
    yield from islice(heapq.merge(*runs, key=by), limit)


def _compared(keys: Sequence[Key], one: ResultRow, other: ResultRow) -> int:
    return compared(keys, one.values, other.values) or one.ordinal - other.ordinal


def _spill(rows: Sequence[ResultRow]) -> Iterator[ResultRow]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - _read closes it
    for row in rows:
        pickle.dump(row, file)
    file.seek(0)
    return _read(file, len(rows))


def _read(file: IO[bytes], count: int) -> Iterator[ResultRow]:
    with file:
        for _ in range(count):
            yield pickle.load(file)
