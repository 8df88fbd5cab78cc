"""A query's answers, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from weft.algebra.schema import BIGINT, TIMESTAMP, DataType
from weft.catalog.records import FIRST_AT, ORDINAL, QueryRecord
from weft.execution.tabular import Columns, Tabular, told_columns
from weft.location import Location
from weft.printable import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from weft.storage.ledger import ResultRow
    from weft.storage.values import Value


class Results(Tabular):
    """The answers that a query had when it was asked, those of an ordinal above ``after``, at most ``limit`` of them.

    Iterating gives one ``ResultRow`` after another, in the order of their ordinals, and holds a few of them in memory;
    as a table they begin with ``_ordinal``, ``_first_at`` and ``_tick``.  Raises StorageError where one is missing.
    """

    def __init__(
        self, data: Location, query: QueryRecord, after: int, limit: int | None, session: Callable[[], SparkSession]
    ) -> None:
        self.query = query
        self._data = data
        self._after = max(after, 0)
        self._limit = limit
        self._spark = session

    @property
    def columns(self) -> tuple[tuple[str, DataType], ...]:
        """The query's columns, those of the answers' ``values``."""
        return self.query.columns

    def __iter__(self) -> Iterator[ResultRow]:
        from weft.storage.ledger import read_rows

        return read_rows(self._data, self.query, self._after, self._limit)

    def __len__(self) -> int:
        there = max(self.query.rows - self._after, 0)
        return there if self._limit is None else min(there, self._limit)

    def spark(self) -> DataFrame:
        """The answers as a DataFrame that Spark reads from the home, in no order, however many there are.

        It is to be used while the home is there as it is: a purge of the query takes the files away.
        """
        from weft.execution.answer_frame import answer_frame

        last = self._after + len(self)
        found = answer_frame(self._spark, self._data, self.query, self._after, last) if len(self) else None
        return super().spark() if found is None else found

    def _typed(self) -> Columns:
        return ((ORDINAL, BIGINT), (FIRST_AT, TIMESTAMP), ("_tick", BIGINT), *self.query.columns)

    def _values(self) -> Iterator[tuple[Value, ...]]:
        return ((row.ordinal, row.first_at, row.tick, *row.values) for row in self)

    def _total(self) -> int:
        return len(self)

    def _session(self) -> SparkSession:
        return self._spark()

    def _brief(self) -> str:
        return f"{counted(len(self), 'answer')} of {self.query.name}: {told_columns(self.query.columns)}"
