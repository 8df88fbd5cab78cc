"""How each relation that branches read is read, one after the other as look-ups go through one another; no Spark.

The tick makes Spark's views of what is chosen here (``views``), and ``explain --tick`` shows it (``forecast``).
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
    """Paths that are read together, and how: whole tables and news first, then look-ups step by step.

    ``columns`` has those that are read of each table, ``slices`` the ranges of its news.  One pass over a table serves
    all its look-ups of one step: each gets what any of them finds.  More rows than a look-up asks for change nothing: a
    branch tests its equalities itself.
    """
    found: dict[str, Reading] = {}
    for same in _in_order(paths):
        first = same[0]
        names = columns[first.table]
        if isinstance(first, FullScan):
            reading = driver.whole(first.table, names)
        elif isinstance(first, Lookup):
            reading = _looked_up(driver, names, [path for path in same if isinstance(path, Lookup)], found)
        else:
            reading = driver.news(first.table, slices[first.table], names)
        for path in same:
            found.setdefault(path.view, reading)
        yield same, reading


def _looked_up(driver: DriverReader, names: set[str], same: Sequence[Lookup], found: Mapping[str, Reading]) -> Reading:
    keys: dict[str, list[pa.ChunkedArray]] = {}
    for path in same:
        via = found[path.via.view]
        if via.rows is None:
            if via.by == "Spark":
                return Reading("Spark", f"its keys come from {path.via.view}, which Spark reads")
            return Reading(via.by, f"its keys come from {path.via.view}, whose arrangement is behind")
        keys.setdefault(path.column, []).append(via.rows.column(path.via_column))
    return driver.lookup(same[0].table, keys, names)


def _in_order(paths: Iterable[Access]) -> list[list[Access]]:
    """The paths, and all that they go through, in groups that are read at once."""
    groups: dict[tuple[int, str], dict[Access, None]] = {}
    for path in paths:
        step: Access = path
        while True:
            # Whole tables and news by view, look-ups by table.
            key = (step.step, step.table) if isinstance(step, Lookup) else (0, step.view)
            groups.setdefault(key, {})[step] = None
            if not isinstance(step, Lookup):
                break
            step = step.via
    return [list(groups[key]) for key in sorted(groups, key=lambda each: each[0])]
