"""Ranges of instants, by which readers leave out files, row groups and rows."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from weft.storage.delta_log import DataFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


_DAY: Final = 86_400_000_000
_MOST_DAYS: Final = 2**31 - 1


@dataclass(frozen=True)
class Slice:
    """The rows with ``column`` in [low, high), in microseconds UTC. If ``low`` is None, there is no lower bound.

    With ``days``, the column has dates, whose instants are their beginnings.
    """

    column: str
    low: int | None
    high: int
    days: bool = False

    @property
    def condition(self) -> pc.Expression:
        """The condition of the slice for Arrow. The column has the type INSTANT, or DATE with ``days``."""
        import pyarrow.compute as pc

        return self._inside(pc.field(self.column))

    def condition_on(self, column: str, schema: pa.Schema) -> pc.Expression | None:
        """Return the condition for ``column`` instead, which may be a timestamp of any unit.

        A bound that its type cannot represent is left out. Return None if ``schema`` lacks the column, if its type
        is no timestamp (a cast to a date would round the bound down), or if no bound is left.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        from weft.storage.columns import INSTANT

        if column not in schema.names or not pa.types.is_timestamp(schema.field(column).type):
            return None
        conditions = []
        for bound, holds in ((self.low, operator.ge), (self.high, operator.lt)):
            if bound is not None:
                with suppress(pa.ArrowException):
                    value = pa.scalar(bound, INSTANT).cast(schema.field(column).type)
                    conditions.append(holds(pc.field(column), value))
        return reduce(operator.and_, conditions) if conditions else None

    def holds(self, at: int) -> bool:
        """Return whether the instant (µs UTC) lies in the slice."""
        return at < self.high and (self.low is None or at >= self.low)

    def mask(self, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        """Return for each instant of a column whether it lies in the slice. NULL stays NULL."""
        import pyarrow.compute as pc

        below = pc.less(column, self._bound(self.high))
        return below if self.low is None else pc.and_kleene(pc.greater_equal(column, self._bound(self.low)), below)

    def _inside(self, column: pc.Expression) -> pc.Expression:
        below = column < self._bound(self.high)
        return below if self.low is None else (column >= self._bound(self.low)) & below

    def _bound(self, instant: int) -> pa.Scalar:
        """Return the instant, or the first day that does not begin before it."""
        import pyarrow as pa

        from weft.storage.columns import INSTANT

        if not self.days:
            return pa.scalar(instant, INSTANT)
        return pa.scalar(max(-_MOST_DAYS, min(-(-instant // _DAY), _MOST_DAYS)), pa.int32()).cast(pa.date32())


def hull(slices: Sequence[Slice]) -> Slice | None:
    """Return the smallest slice that contains the given ones, or None if they have several columns.

    >>> hull([Slice("ts", 5, 7), Slice("ts", 1, 3)]), hull([Slice("ts", 5, 7), Slice("ts", None, 3)])
    (Slice(column='ts', low=1, high=7, days=False), Slice(column='ts', low=None, high=7, days=False))
    """
    if len({each.column for each in slices}) != 1:
        return None
    lows = [each.low for each in slices if each.low is not None]
    low = min(lows) if len(lows) == len(slices) else None
    return replace(slices[0], low=low, high=max(each.high for each in slices))


def may_hold(file: DataFile, part: Slice, names: Mapping[str, str] | None) -> bool:
    """Return whether the file may contain rows of the slice, according to the file statistics.

    ``names`` maps columns to their names in the statistics. If ``names`` is None, the statistics use the column names.
    """
    column = part.column if names is None else names.get(part.column, "")
    least, greatest = file.least.get(column), file.greatest.get(column)
    above = greatest is None or part.low is None or greatest >= part.low
    return bool(above and (least is None or least < part.high))
