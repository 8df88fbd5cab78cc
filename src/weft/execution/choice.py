"""Choose how each relation that branches read is read, step by step, since look-ups depend on each other; no Spark.

The tick makes Spark views of these readings (``temp_views``); ``explain --tick`` shows them (``forecast``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from weft.algebra.access import Access, FullScan, Lookup
from weft.execution.driver_reader import DriverReader, Reading
from weft.execution.windows import Slice


def readings(
    driver: DriverReader,
    columns: Mapping[str, set[str]],
    paths: Iterable[Access],
    slices: Mapping[str, Sequence[Slice]],
) -> Iterator[tuple[list[Access], Reading]]:
    """Yield the paths that are read together with their reading: whole tables and news first, then look-ups step by
    step.

    ``columns`` has the columns to read of each table, ``slices`` the ranges of its news. One pass over a table serves
    all its look-ups of one step, so a look-up may return rows for the keys of another. Extra rows are harmless: each
    branch tests its own equalities.
    """
    by_view: dict[str, Reading] = {}
    for same in _in_order(paths):
        first = same[0]
        names = columns[first.table]
        if isinstance(first, FullScan):
            reading = driver.whole(first.table, names)
        elif isinstance(first, Lookup):
            reading = _looked_up(driver, names, [path for path in same if isinstance(path, Lookup)], by_view)
        else:
            reading = driver.news(first.table, slices[first.table], names)
        for path in same:
            by_view.setdefault(path.view, reading)
        yield same, reading


def _looked_up(
    driver: DriverReader, names: set[str], same: Sequence[Lookup], by_view: Mapping[str, Reading]
) -> Reading:
    keys: dict[str, list[pa.ChunkedArray]] = {}
    for path in same:
        via = by_view[path.via.view]
        if via.rows is None:
            if via.by == "Spark":
                return Reading("Spark", f"its keys come from {path.via.view}, which Spark reads")
            return Reading(via.by, f"its keys come from {path.via.view}, whose arrangement is behind")
        keys.setdefault(path.column, []).append(via.rows.column(path.via_column))
    return driver.lookup(same[0].table, keys, names)


def _in_order(paths: Iterable[Access]) -> list[list[Access]]:
    """Return the paths and the paths below them, grouped by what one reading serves."""
    groups: dict[tuple[int, str], dict[Access, None]] = {}
    for path in paths:
        step: Access = path
        while True:
            # Group whole tables and news by view, look-ups by table.
            key = (step.step, step.table) if isinstance(step, Lookup) else (0, step.view)
            groups.setdefault(key, {})[step] = None
            if not isinstance(step, Lookup):
                break
            step = step.via
    return [list(groups[key]) for key in sorted(groups, key=lambda each: each[0])]
