"""Compute which rows of a table are new in a tick, by arithmetic on microseconds, without Spark.

A row is new if the sum of a column value and a branch's threshold lies in a query's window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from weft.algebra.access import Access, DeltaScan
from weft.algebra.scalar import ColumnRef, Literal, Scalar
from weft.algebra.schema import DATE
from weft.execution.groups import Group, Member
from weft.planning.plan import PARAMETERS, Branch
from weft.storage.slices import Slice

_Ranges: TypeAlias = "dict[tuple[str, str, bool], set[tuple[int | None, int]]]"
"""Ranges of instants by table and column, and whether the column has dates."""
MOST_SLICES: Final = 16
"""Greatest number of ranges of one column. If there are more ranges, the ranges with the smallest gaps are merged."""
NEVER: Final = 253_402_300_799_000_000
"""The end of the calendar in microseconds."""


def slices_of(work: Iterable[tuple[Group, Sequence[Branch]]]) -> dict[str, tuple[Slice, ...]]:
    """Map each table to the ranges of the new rows that some branch reads for some query."""
    ranges: _Ranges = {}
    for group, branches in work:
        for branch in branches:
            for path in branch.paths.values():
                if isinstance(path, DeltaScan):
                    ranges.setdefault(_column(path), set()).update(_ranges(path, group))
    return _slices(ranges)


def slices_between(paths: Iterable[Access], tau: int | None, t: int) -> dict[str, tuple[Slice, ...]]:
    """Map each table to the ranges of the rows that paths without parameters read in the window [tau, t)."""
    ranges: _Ranges = {}
    for path in paths:
        if isinstance(path, DeltaScan):
            ranges.setdefault(_column(path), set()).add(_range(path, tau, t, _constant))
    return _slices(ranges)


def _column(path: DeltaScan) -> tuple[str, str, bool]:
    return path.table, path.column, path.shift.base.type == DATE


def _slices(ranges: _Ranges) -> dict[str, tuple[Slice, ...]]:
    result: dict[str, list[Slice]] = {}
    for (table, column, days), ranges_of_column in ranges.items():
        result.setdefault(table, []).extend(Slice(column, low, high, days) for low, high in merged(ranges_of_column))
    return {table: tuple(slices) for table, slices in result.items()}


def _ranges(path: DeltaScan, group: Group) -> set[tuple[int | None, int]]:
    members = group.members if path.shift.intervals else group.of_each_window
    return {_range(path, member.tau, group.t, partial(_value, member)) for member in members}


def _range(
    path: DeltaScan, tau: int | None, t: int, value_of: Callable[[Scalar], int | None]
) -> tuple[int | None, int]:
    """Return the range [tau - shift, t - shift) of the path's column, widened by the path's slack.

    ``value_of`` returns the length of an interval, or None if the interval is not constant. In that case, return the
    range of all instants.
    """
    shift = path.shift.micros
    for interval, count in path.shift.intervals:
        value = value_of(interval)
        if value is None:
            return None, NEVER
        shift += count * value
    return (None if tau is None else tau - shift - path.slack), t - shift + path.slack


def _constant(interval: Scalar) -> int | None:
    return interval.value if isinstance(interval, Literal) and isinstance(interval.value, int) else None


def _value(member: Member, interval: Scalar) -> int | None:
    if isinstance(interval, ColumnRef) and interval.scan == PARAMETERS:
        return _constant(member.values[int(interval.column[1:]) - 1])
    return _constant(interval)


def merged(ranges: Iterable[tuple[int | None, int]]) -> list[tuple[int | None, int]]:
    """Return the union of half-open ranges as at most ``MOST_SLICES`` ranges.

    >>> merged([(0, 5), (5, 7), (20, 30)])
    [(0, 7), (20, 30)]
    """
    lowest = -(2**63)
    ordered = sorted((lowest if low is None else low, high) for low, high in ranges)
    joined: list[list[int]] = []
    for low, high in ordered:
        if joined and low <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    while len(joined) > MOST_SLICES:
        gaps = [joined[i + 1][0] - joined[i][1] for i in range(len(joined) - 1)]
        at = gaps.index(min(gaps))
        joined[at : at + 2] = [[joined[at][0], joined[at + 1][1]]]
    return [(None if low == lowest else low, high) for low, high in joined]
