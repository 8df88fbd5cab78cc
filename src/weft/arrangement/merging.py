"""Choose runs, and merge their rows in sorted order. The number of rows in memory is bounded.

Runs of similar size form a tier. A full tier is merged into one run of the next tier. Thus n rows form O(log n) runs,
and each row is written O(log n) times. The method is the size-tiered compaction of log-structured merge trees.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.arrangement.run import RunRecord, SortedRun, insertion_points

BATCH_ROWS: Final = 1 << 19
BATCH_BYTES: Final = 128 << 20
"""The limits of one sort in memory: the number of rows, and their approximate size in bytes."""

FANOUT: Final = 8
LEAST_TIER_ROWS: Final = 4096
MERGED_AT_ONCE: Final = 300_000
"""The maximum number of rows that a catch-up merges. The limit keeps ticks from waiting for a long merge.

Larger merges wait for a call of ``merge``, unless the arrangement has more than ``MOST_RUNS`` runs.
"""
MOST_RUNS: Final = 40

_SAMPLES_A_BATCH: Final = 8
_GREATEST_HASH: Final = (1 << 64) - 1


def full_tier(runs: Sequence[RunRecord], *, any_size: bool) -> list[RunRecord]:
    """Return the runs of the lowest full tier, or []. ``any_size`` also allows a merge that is too long for a tick."""
    tiers: dict[int, list[RunRecord]] = {}
    for run in runs:
        tiers.setdefault(_tier(run.rows), []).append(run)
    for _, tier in sorted(tiers.items()):
        if len(tier) >= FANOUT:
            allowed = any_size or len(runs) > MOST_RUNS or sum(run.rows for run in tier) <= MERGED_AT_ONCE
            return tier if allowed else []
    return []


def groups_to_merge(runs: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Return groups of runs to merge. Each run is then several times as large as all smaller runs together."""
    groups: list[list[RunRecord]] = []
    for run in sorted(runs, key=lambda each: each.rows):
        if groups and run.rows <= FANOUT * sum(each.rows for each in groups[-1]):
            groups[-1].append(run)
        else:
            groups.append([run])
    return [group for group in groups if len(group) > 1]


def in_order(runs: Sequence[SortedRun]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the runs, sorted by hash."""
    batches = [batch for run in runs for batch in run.batches]
    step = _rows_at_once([run.record for run in runs])
    bounds = _bounds(batches, step)
    ends = [insertion_points(batch.column("hash"), bounds, "left").to_pylist() for batch in batches]
    starts = [0] * len(batches)
    for at in range(len(bounds) + 1):
        parts = []
        for number, batch in enumerate(batches):
            end = ends[number][at] if at < len(bounds) else batch.num_rows
            if end > starts[number]:
                parts.append(batch.slice(starts[number], end - starts[number]))
            starts[number] = end
        yield from _sorted(parts, step)


def _sorted(parts: Sequence[pa.RecordBatch], step: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows sorted by hash, in batches of about ``step`` rows.

    If all rows have the same hash (for example, because their key is NULL), the rows need no sorting.
    """
    if not parts:
        return
    least = min(part.column("hash")[0].as_py() for part in parts)
    if least == max(part.column("hash")[-1].as_py() for part in parts):
        for part in parts:
            for start in range(0, part.num_rows, step):
                yield part.slice(start, step)
        return
    together = pa.Table.from_batches(parts).combine_chunks().to_batches()
    batch = together[0] if len(together) == 1 else pa.concat_batches(together)
    yield batch.take(pc.array_sort_indices(batch.column("hash")))


def _bounds(batches: Sequence[pa.RecordBatch], step: int) -> pa.Array:
    """Return hashes that divide the rows into ranges of about ``step`` rows."""
    stride = max(1, step // _SAMPLES_A_BATCH)
    samples: list[int] = []
    for batch in batches:
        hashes = batch.column("hash")
        samples += hashes.take(pa.array(range(0, batch.num_rows, stride), pa.int64())).to_pylist()
    samples.sort()
    chosen = samples[::_SAMPLES_A_BATCH]
    repeated = {one for one, other in itertools.pairwise(chosen) if one == other and one < _GREATEST_HASH}
    return pa.array(sorted({*chosen, *(one + 1 for one in repeated)}), pa.uint64())


def _rows_at_once(records: Sequence[RunRecord]) -> int:
    rows = sum(record.rows for record in records)
    row_bytes = max(1, sum(record.size for record in records) // max(1, rows))
    return max(1, min(BATCH_ROWS, BATCH_BYTES // row_bytes))


def _tier(rows: int) -> int:
    tier = 0
    while rows > LEAST_TIER_ROWS * FANOUT**tier:
        tier += 1
    return tier
