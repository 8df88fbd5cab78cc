"""Binary search for many values at once, and the rows of the matches, without Python loops over rows."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

HAS_SEARCH_SORTED: Final = hasattr(pc, "search_sorted")
"""Arrow has search_sorted since 26.0, which does not support Python 3.10."""


def insertion_points(values: pa.Array, wanted: pa.Array, side: str) -> pa.Array:
    """Return for each wanted value (UINT64, no NULL) how many of the ascending ``values`` lie before it: UINT64.

    ``side`` is ``left``, or ``right`` to count equal values as well.
    """
    if HAS_SEARCH_SORTED:
        return pc.search_sorted(values, wanted, side=side)
    return halving(values, wanted, side)


def halving(values: pa.Array, wanted: pa.Array, side: str) -> pa.Array:
    """Do the same without search_sorted: all searches take each halving step together."""
    low = pa.repeat(pa.scalar(0, pa.uint64()), len(wanted))
    high = pa.repeat(pa.scalar(len(values), pa.uint64()), len(wanted))
    lies_before = pc.less if side == "left" else pc.less_equal
    for _ in range(len(values).bit_length()):
        middle = pc.shift_right(pc.add(low, high), pa.scalar(1, pa.uint64()))
        is_open = pc.less(low, high)
        probed = values.take(pc.min_element_wise(middle, pa.scalar(len(values) - 1, pa.uint64())))
        before = lies_before(probed, wanted)
        low = pc.if_else(pc.and_(is_open, before), pc.add(middle, pa.scalar(1, pa.uint64())), low)
        high = pc.if_else(pc.and_not(is_open, before), middle, high)
    return low


def matches(values: pa.Array, wanted: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the positions in ``values`` that equal a wanted value (UINT64), and for each the index of that value
    (INT64).

    Both arguments are ascending, and the wanted values are distinct.
    """
    starts = insertion_points(values, wanted, "left")
    counts = pc.subtract(insertion_points(values, wanted, "right"), starts).cast(pa.int64())
    parents = pc.indices_nonzero(counts).cast(pa.int64())
    starts, counts = starts.take(parents), counts.take(parents)
    if not len(parents) or pc.max(counts).as_py() == 1:
        return starts, parents
    ends = pc.cumulative_sum(counts)
    total = ends[-1].as_py()
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    groups = pc.list_parent_indices(pa.LargeListArray.from_arrays(offsets, pa.nulls(total)))
    each = pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), total)), 1)
    within = pc.subtract(each, offsets.take(groups)).cast(pa.uint64())
    return pc.add(starts.take(groups), within), parents.take(groups)
