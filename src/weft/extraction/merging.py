"""Merge the batches of several sources by the event times of the rows.

The sort key of a row is the greatest event time in its source up to the row. The rows of a source therefore stay in
order. Rows with the same key follow the order of the sources. Batch boundaries do not influence the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.execution.append_rows import OWN_TIME, SEQ
from weft.extraction.batches import Batch, RejectedRecord

BEFORE_ALL: Final = -(2**62)


@dataclass(frozen=True)
class Timed:
    """A source of rows. No event time is before ``begins`` (µs UTC). A call of ``batches`` starts reading.

    If the files of a merge rarely overlap in time, only a few of them are open at once.
    """

    begins: int
    batches: Callable[[], Iterator[Batch]]


@dataclass
class _Source:
    batches: Iterator[Batch]
    number: int
    rows: pa.Table | None = None
    origins: tuple[RejectedRecord, ...] = ()
    reached: int = BEFORE_ALL
    places: pa.Array | None = None
    rejected: tuple[RejectedRecord, ...] = ()
    read: int = 0

    def fill(self) -> bool:
        """Read batches until at least one row is waiting. Return False if the source has no more rows."""
        while self.rows is None or not self.rows.num_rows:
            batch = next(self.batches, None)
            if batch is None:
                self.rows = None
                return False
            self.rejected += batch.rejected
            self.read += batch.read
            self.rows, self.origins = batch.rows, batch.origins
            own = pc.fill_null(batch.rows.column(OWN_TIME), BEFORE_ALL).combine_chunks()
            reached = pa.concat_arrays([pa.array([self.reached], pa.int64()), own])
            self.places = pc.cumulative_max(reached).slice(1)
            if len(self.places):
                self.reached = self.places[-1].as_py()
        return True

    @property
    def until(self) -> tuple[int, int]:
        """The sort key of the last waiting row, and the number of the row's source."""
        assert self.places is not None
        return self.places[-1].as_py(), self.number

    def take(self, until: int, inclusive: bool) -> tuple[pa.Table, pa.Array, tuple[RejectedRecord, ...]]:
        """Remove and return the waiting rows with sort keys less than ``until``. If ``inclusive`` is True, also remove
        the rows with the sort key ``until``.
        """
        assert self.rows is not None and self.places is not None
        before = pc.less_equal(self.places, until) if inclusive else pc.less(self.places, until)
        count = pc.sum(before).as_py() or 0
        taken = self.rows.slice(0, count), self.places.slice(0, count), self.origins[:count]
        self.rows, self.places, self.origins = self.rows.slice(count), self.places.slice(count), self.origins[count:]
        return taken

    def take_counts(self) -> tuple[tuple[RejectedRecord, ...], int]:
        counts = self.rejected, self.read
        self.rejected, self.read = (), 0
        return counts


def merged(sources: Sequence[Timed], empty: pa.Table) -> Iterator[Batch]:
    """Yield the rows of all sources in the order of their event times, with new row numbers.

    ``empty`` is an Arrow table with the columns of a batch and no rows.
    """
    later = sorted(enumerate(sources), key=lambda each: each[1].begins, reverse=True)
    reading: list[_Source] = []
    first = 0
    while later or reading:
        reading = [each for each in reading if each.fill() or each.read]
        alive = [each for each in reading if each.rows is not None]
        end = min((each.until for each in alive), default=None)
        if later and (end is None or later[-1][1].begins <= end[0]):
            number, source = later.pop()
            reading.append(_Source(source.batches(), number))
            continue
        in_order = sorted(alive, key=lambda each: each.number)
        taken = [] if end is None else [each.take(end[0], each.number <= end[1]) for each in in_order]
        batch = _together(taken, [each.take_counts() for each in reading], empty, first)
        first += batch.rows.num_rows
        if batch.read or batch.rows.num_rows:
            yield batch


def _together(
    taken: Sequence[tuple[pa.Table, pa.Array, tuple[RejectedRecord, ...]]],
    counts: Sequence[tuple[tuple[RejectedRecord, ...], int]],
    empty: pa.Table,
    first: int,
) -> Batch:
    rejected, read = tuple(one for each, _ in counts for one in each), sum(count for _, count in counts)
    if not taken:
        return Batch(empty, rejected, read)
    rows = pa.concat_tables([each for each, _, _ in taken])
    places = pa.concat_arrays([each for _, each, _ in taken])
    origins = [origin for _, _, each in taken for origin in each]
    keys = pa.table({"place": places, "row": pa.array(range(len(places)), pa.int64())})
    order = pc.sort_indices(keys, [("place", "ascending"), ("row", "ascending")])
    rows = _numbered(rows.take(order), first)
    return Batch(rows, rejected, read, tuple(origins[n] for n in order.to_pylist()) if origins else ())


def in_turn(sources: Sequence[Callable[[], Iterator[Batch]]]) -> Iterator[Batch]:
    """Yield the batches of one source after another, with consecutive row numbers."""
    first = 0
    for batches in sources:
        for batch in batches():
            yield replace(batch, rows=_numbered(batch.rows, first))
            first += batch.rows.num_rows


def _numbered(rows: pa.Table, first: int) -> pa.Table:
    seq = pa.array(range(first, first + rows.num_rows), pa.int64())
    return rows.set_column(rows.column_names.index(SEQ), rows.schema.field(SEQ), seq)
