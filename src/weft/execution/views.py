"""The temporary views that branches name (``derivation.access_paths``); what is small is read by the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.algebra.access import Access, FullScan, Lookup
from weft.execution.driver_reader import LocalRows
from weft.execution.reader import Reader
from weft.execution.windows import Slice
from weft.sql.render import name as quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NotSmall(Exception):
    """What was asked for where it is small only, is not; never shown to a user."""


@dataclass
class Views:
    """Registers the views of some branches; ``local`` are those whose rows are in the driver's memory.

    With ``small_only`` NotSmall is raised at the first that is not.
    """

    reader: Reader
    columns: Mapping[str, set[str]]
    small_only: bool = False
    made: dict[str, DataFrame] = field(default_factory=dict)
    local: dict[str, LocalRows] = field(default_factory=dict)

    @property
    def small(self) -> bool:
        """Whether Spark is given rows only, and no file to read."""
        return len(self.local) == len(self.made)

    def register(self, paths: Iterable[Access], slices: Mapping[str, Sequence[Slice]]) -> None:
        """Makes every view that ``paths`` need, news first, then look-ups step by step."""
        needed = _with_roots(paths)
        for path in needed:
            if path.view in self.made or isinstance(path, Lookup):
                continue
            columns = self.columns[path.table]
            if isinstance(path, FullScan):
                whole = self._small(self.reader.driver.whole(path.table, columns))
                self._add([path.view], whole or self.reader.whole(path.table, columns))
            else:
                news = self._small(self.reader.driver.news(path.table, slices[path.table], columns))
                self._add([path.view], news or self.reader.news(path.table, slices[path.table], columns))
        lookups = [path for path in needed if isinstance(path, Lookup)]
        for step in sorted({path.step for path in lookups}):
            by_table: dict[str, list[Lookup]] = {}
            for path in lookups:
                if path.step == step:
                    by_table.setdefault(path.table, []).append(path)
            for table, same in by_table.items():
                self._look_up(table, same)

    def _look_up(self, table: str, lookups: Sequence[Lookup]) -> None:
        """One pass over a table serves all its look-ups of one step: each gets what any of them finds.

        More rows than a look-up asks for change nothing: a branch tests its equalities itself.
        """
        found = self._small(self._found_locally(table, lookups))
        self._add([path.view for path in lookups], found or self._found(table, lookups))

    def _small(self, rows: LocalRows | None) -> LocalRows | None:
        if rows is None and self.small_only:
            raise NotSmall
        return rows

    def _found_locally(self, table: str, lookups: Sequence[Lookup]) -> LocalRows | None:
        keys: dict[str, list[pa.ChunkedArray]] = {}
        for path in lookups:
            via = self.local.get(path.via.view)
            if via is None:
                return None
            keys.setdefault(path.column, []).append(via.column(path.via_column))
        return self.reader.driver.lookup(table, keys, self.columns[table])

    def _found(self, table: str, lookups: Sequence[Lookup]) -> DataFrame:
        keys: dict[str, list[DataFrame]] = {}
        for path in lookups:
            keys.setdefault(path.column, []).append(self.made[path.via.view].select(quoted(path.via_column)))
        return self.reader.lookup(table, keys, self.columns[table])

    def _add(self, views: Iterable[str], data: DataFrame | LocalRows) -> None:
        """Registers the rows under all of these names."""
        frame = data.frame(self.reader.spark) if isinstance(data, LocalRows) else data
        for view in views:
            if view in self.made:
                continue
            self.made[view] = frame
            if isinstance(data, LocalRows):
                self.local[view] = data
            frame.createOrReplaceTempView(quoted(view))


def _with_roots(paths: Iterable[Access]) -> list[Access]:
    """The paths and all that they go through, each once."""
    found: dict[Access, None] = {}
    for path in paths:
        step: Access = path
        while True:
            found[step] = None
            if not isinstance(step, Lookup):
                break
            step = step.via
    return list(found)
