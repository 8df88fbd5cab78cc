"""Register the temporary views to which the SQL of branches refers (``derivation.access_paths``).

The driver reads the small relations, and Spark reads the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.execution.driver_reader import LocalRows, readings
from weft.execution.reader import Reader
from weft.runtime.settings import arrow_input
from weft.sql.render import quoted
from weft.storage.slices import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NotSmall(Exception):
    """The error for a relation that is too large for the driver if ``small_only`` is set. No user sees this error."""


@dataclass
class TempViews:
    """The temporary views to which branches refer. ``local`` has the views with rows in the driver's memory.

    With ``small_only``, ``register`` raises NotSmall at the first view whose rows are not in the driver's memory.
    """

    reader: Reader
    columns: Mapping[str, set[str]]
    small_only: bool = False
    frames: dict[str, DataFrame] = field(default_factory=dict)
    local: dict[str, LocalRows] = field(default_factory=dict)

    @property
    def small(self) -> bool:
        """Whether Spark reads no file, because the driver's memory holds the rows of all registered views."""
        return len(self.local) == len(self.frames)

    def register(self, paths: Iterable[Access], slices: Mapping[str, Sequence[Slice]]) -> None:
        """Register the views of all ``paths``. Whole tables and new rows come before look-ups."""
        chosen = []
        for same, reading in readings(self.reader.driver, self.columns, paths, slices):
            if reading.rows is None and self.small_only:
                raise NotSmall
            chosen.append((same, reading))
        with arrow_input(self.reader.spark) if all(each.rows for _, each in chosen) else nullcontext():
            for same, reading in chosen:
                views = dict.fromkeys(path.view for path in same)
                self._add(views, reading.rows or self._by_spark(same, slices))

    def _by_spark(self, same: Sequence[Access], slices: Mapping[str, Sequence[Slice]]) -> DataFrame:
        first = same[0]
        columns = self.columns[first.table]
        if isinstance(first, FullScan):
            return self.reader.whole(first.table, columns)
        if isinstance(first, DeltaScan):
            return self.reader.news(first.table, slices[first.table], columns)
        keys: dict[str, list[DataFrame]] = {}
        for path in same:
            if isinstance(path, Lookup):
                keys.setdefault(path.column, []).append(self.frames[path.via.view].select(quoted(path.via_column)))
        return self.reader.lookup(first.table, keys, columns)

    def _add(self, views: Iterable[str], data: DataFrame | LocalRows) -> None:
        frame = data.frame(self.reader.spark) if isinstance(data, LocalRows) else data
        for view in views:
            if view in self.frames:
                continue
            self.frames[view] = frame
            if isinstance(data, LocalRows):
                self.local[view] = data
            frame.createOrReplaceTempView(quoted(view))
