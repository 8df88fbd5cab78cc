"""Read the relations to which SQL refers (``derivation.access_paths``), and register them as temporary views of Spark.

The driver reads the small relations. DuckDB reads whole tables for the states that it computes, and Spark reads the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from weft.algebra.access import Access, DeltaScan, FullScan, Key, Lookup
from weft.algebra.relation import StateSchema
from weft.execution.driver_reader import DriverReader, LocalRows, Reading, keys_for, readings
from weft.execution.reader import Reader, key_column
from weft.runtime.settings import arrow_input
from weft.sql.rendering.render import quoted
from weft.storage.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class FileRows:
    """The rows of a stored table before they are read: by DuckDB, the whole table, or by Spark with ``frame``."""

    table: str
    frame: Callable[[], DataFrame]


Rows: TypeAlias = "LocalRows | FileRows | DataFrame"


class NotSmall(Exception):
    """The error for a relation that is too large for the driver if ``small_only`` is set. No user sees this error."""


class States(Protocol):
    """Compute the rows of states (``execution.states``)."""

    def read(self, state: StateSchema, same: Sequence[Access], vias: Mapping[str, Rows]) -> Rows:
        """Return the rows that the access paths ``same`` of a state need. ``vias`` has the rows of earlier views."""
        ...


@dataclass
class TempViews:
    """The relations to which SQL refers, by the names of their views.

    ``columns`` maps each table to the columns that the SQL reads. ``schemas`` has the states by name. ``driver`` reads
    the small relations. ``given`` has relations in memory, by view. ``suffix`` ends the names of all views. With
    ``small_only``, ``read`` raises NotSmall at the first relation that Spark must read.
    """

    reader: Reader
    columns: Mapping[str, set[str]]
    states: States
    schemas: Mapping[str, StateSchema]
    driver: DriverReader
    small_only: bool = False
    suffix: str = ""
    rows: dict[str, Rows] = field(default_factory=dict)
    given: dict[str, Rows] = field(default_factory=dict)
    _frames: dict[int, DataFrame] = field(default_factory=dict)

    @property
    def local(self) -> dict[str, LocalRows]:
        """The relations whose rows are in the driver's memory."""
        return {view: rows for view, rows in self.rows.items() if isinstance(rows, LocalRows)}

    @property
    def of_files(self) -> dict[str, str]:
        """The names of the tables that DuckDB reads whole, by view."""
        return {view: rows.table for view, rows in self.rows.items() if isinstance(rows, FileRows)}

    @property
    def in_memory(self) -> bool:
        """Whether the driver's memory holds the rows of all relations."""
        return all(isinstance(rows, LocalRows) for rows in self.rows.values())

    @property
    def small(self) -> bool:
        """Whether a Spark job gets all rows from the driver's memory."""
        return self.in_memory and not any(map(self.reader.is_large, self.local.values()))

    def read(self, paths: Iterable[Access], slices: Mapping[str, Sequence[Slice]]) -> None:
        """Read the relations of all ``paths``. Whole tables and new rows come before look-ups."""
        pending: list[tuple[Sequence[Access], Rows | None]] = []

        def computed(same: Sequence[Access], by_view: Mapping[str, Reading]) -> Reading:
            """A state may need the keys of a relation that Spark reads, so the views before it come first."""
            vias = [path.via.view for path in same if isinstance(path, Lookup)]
            if any(by_view[via].rows is None for via in vias):
                self._add(pending, slices)
                pending.clear()
            known = {view: reading.rows for view, reading in by_view.items() if reading.rows is not None}
            return self._computed(same, {**self.rows, **known}, slices)

        for same, reading in readings(self.driver, self.columns, paths, slices, computed):
            rows = reading.rows if reading.rows is not None else self.given.get(same[0].view)
            if rows is None and reading.by == "DuckDB":
                rows = FileRows(same[0].table, partial(self._by_spark, tuple(same), slices))
            if not isinstance(rows, LocalRows | FileRows) and self.small_only:
                raise NotSmall
            pending.append((same, rows))
        self._add(pending, slices)

    def register(self) -> None:
        """Register all relations as temporary views of Spark."""
        with arrow_input(self.reader.spark) if self.small else nullcontext():
            for view in self.rows:
                self._frame(view).createOrReplaceTempView(quoted(view + self.suffix))

    def _computed(
        self, same: Sequence[Access], known: Mapping[str, Rows], slices: Mapping[str, Sequence[Slice]]
    ) -> Reading:
        first = same[0]
        if first.table in self.schemas:
            rows = self.states.read(self.schemas[first.table], same, known)
            self.given |= dict.fromkeys((path.view for path in same), rows)
        elif first.view not in self.given:
            self.given[first.view] = self._part(same, known, slices)
        rows = self.given[first.view]
        if isinstance(rows, LocalRows):
            return Reading("driver", f"computed, {rows.data.num_rows:,} rows", rows)
        return Reading("Spark", "computed")

    def _part(self, same: Sequence[Access], known: Mapping[str, Rows], slices: Mapping[str, Sequence[Slice]]) -> Rows:
        """Return the rows of a given relation that access paths need."""
        rows, keys = self.given[same[0].table], dict[Key, list[pa.ChunkedArray]]()
        assert isinstance(rows, LocalRows)
        for path in same:
            if not isinstance(path, Lookup):
                return rows.inside(slices[path.table])
            via = known[path.via.view]
            values = keys_for(path, via) if isinstance(via, LocalRows) else None
            if values is None:
                return rows
            keys.setdefault(path.key, []).append(values)
        return rows.among(keys)

    def _by_spark(self, same: Sequence[Access], slices: Mapping[str, Sequence[Slice]]) -> DataFrame:
        first = same[0]
        columns = self.columns[first.table]
        if isinstance(first, FullScan):
            return self.reader.whole(first.table, columns)
        if isinstance(first, DeltaScan):
            return self.reader.news(first.table, slices[first.table], columns)
        keys: dict[Key, list[DataFrame]] = {}
        for path in same:
            if isinstance(path, Lookup):
                keys.setdefault(path.key, []).append(keys_in_spark(path, self._frame(path.via.view)))
        return self.reader.lookup(first.table, keys, columns)

    def _add(
        self, pending: Iterable[tuple[Sequence[Access], Rows | None]], slices: Mapping[str, Sequence[Slice]]
    ) -> None:
        for same, rows in pending:
            data = self._by_spark(same, slices) if rows is None else rows
            for path in same:
                self.rows.setdefault(path.view, data)

    def _frame(self, view: str) -> DataFrame:
        """The views of one relation share a DataFrame."""
        rows = self.rows[view]
        if id(rows) not in self._frames:
            self._frames[id(rows)] = in_spark(self.reader, rows)
        return self._frames[id(rows)]


def in_spark(reader: Reader, rows: Rows) -> DataFrame:
    """Return the rows as a DataFrame. Spark keeps rows that are large for the driver's tables."""
    if isinstance(rows, FileRows):
        return rows.frame()
    if not isinstance(rows, LocalRows):
        return rows
    frame = rows.frame(reader.spark)
    return reader.keep(frame) if reader.is_large(rows) else frame


def keys_in_spark(path: Lookup, rows: DataFrame) -> DataFrame:
    """Return the keys of a look-up. NULL is a key only of a null-safe equality, and NaN is one of each."""
    keys = rows.select(key_column(rows, path.via_key).alias("_key"))
    return keys if path.null_safe else keys.where(keys[0].isNotNull())
