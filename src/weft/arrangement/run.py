"""A run: rows sorted by key hash, in one Arrow IPC file that is mapped into memory.

The columns of the arrangement are ``c0, c1, …``. The next columns are ``hash`` and ``sum`` (the checksum of the row).
The checksums do not cover the hashes, the boundaries of texts, the NULLs, or the structure of the file. The manifest
therefore has a CRC-32 of all other bytes. Each process verifies the CRC-32 first, because a wrong offset would make
Arrow read beyond the file.

A look-up searches for many values at once by binary search, without Python loops over rows.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.access import follow_folder
from weft.arrangement.hashing import key_and_row_hashes
from weft.errors import StorageError

RUN_SUFFIX: Final = ".arrow"

_checked: set[tuple[object, ...]] = set()
_MOST_FOLDERS: Final = 256
"""The most arrangements whose runs a process keeps open."""
_open: OrderedDict[str, Mapping[tuple[object, ...], SortedRun]] = OrderedDict()
"""The open runs of the arrangements that this process used last, by identity.

A run that stays open keeps the pages of its file mapped, so the next look-up causes few page faults.
"""
_open_lock: Final = Lock()


class ArrangementError(StorageError):
    """Raised if an arrangement cannot be written or used. The caller must then read the table."""


class ArrangementDamaged(ArrangementError):
    """Raised if stored data has changed. The next ``catch_up`` builds the arrangement again."""


@dataclass(frozen=True)
class RunRecord:
    """The manifest's entry for a run: its file name, row count, size in bytes, and CRC-32.

    The row checksums cover the byte ranges ``values`` (start, length). The CRC-32 covers the bytes outside ``values``.
    """

    name: str
    rows: int
    size: int
    crc: int
    values: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SortedRun:
    """An open run, which stays readable after another process deletes the file."""

    record: RunRecord
    identity: tuple[object, ...]
    batches: tuple[pa.RecordBatch, ...]
    least: pa.Array
    greatest: pa.Array

    def lookup(self, wanted: pa.Array) -> Iterator[tuple[pa.RecordBatch, pa.Array, pa.Array]]:
        """Yield batches, and the positions of the rows whose hash is in ``wanted``. A third array has the index of
        each such hash in ``wanted``.

        ``wanted`` must be ascending and distinct.
        """
        begin = insertion_points(wanted, self.least, "left").to_pylist()
        end = insertion_points(wanted, self.greatest, "right").to_pylist()
        for batch, first, last in zip(self.batches, begin, end, strict=True):
            if first < last:
                positions, places = matches(batch.column("hash"), wanted.slice(first, last - first))
                if len(positions):
                    yield batch, positions, pc.add(places, first)


def run_schema(schema: pa.Schema) -> pa.Schema:
    """Add the columns ``hash`` and ``sum`` to the schema of an arrangement."""
    fields = [pa.field(f"c{at}", field.type) for at, field in enumerate(schema)]
    return pa.schema([*fields, pa.field("hash", pa.uint64()), pa.field("sum", pa.uint64())])


def sorted_rows(batch: pa.RecordBatch, key: Sequence[int]) -> pa.RecordBatch:
    """Add the columns for hash and checksum, and sort the rows by hash."""
    hashes, sums = key_and_row_hashes(batch, key)
    names = [f"c{at}" for at in range(batch.num_columns)]
    rows = pa.RecordBatch.from_arrays([*batch.columns, hashes, sums], names=[*names, "hash", "sum"])
    return rows.take(pc.array_sort_indices(hashes))


def write_run(folder: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> RunRecord:
    """Write sorted rows to a new file. Return the manifest's entry for the run.

    The file is not forced to disk. Raise OSError or an Arrow exception if the write fails.
    """
    path = folder / f"run-{uuid.uuid4().hex}{RUN_SUFFIX}"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, run_schema(schema)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    follow_folder(path)
    with pa.memory_map(str(path)) as source:
        buffer = source.read_buffer()
    written = _batches(buffer)
    values = tuple(sorted(_value_ranges(buffer, written)))
    rows = sum(batch.num_rows for batch in written)
    record = RunRecord(path.name, rows, buffer.size, _crc_without(buffer, values), values)
    _checked.add(_identity(path, record))
    return record


def open_run(folder: Path, record: RunRecord, schema: pa.Schema) -> SortedRun:
    """Open a run. Raise ArrangementDamaged if the file has changed, or FileNotFoundError if it is missing."""
    path = folder / record.name
    try:
        identity = _identity(path, record)
        with _open_lock:
            known = _open.get(str(folder), {}).get(identity)
        if known is not None:
            return known
        if os.stat(path).st_size != record.size:
            raise ArrangementDamaged(
                "the size of a sorted file of an arrangement differs from the size that was written", where=str(path)
            )
        with pa.memory_map(str(path)) as source:
            buffer = source.read_buffer()
        if identity not in _checked and _crc_without(buffer, record.values) != record.crc:
            raise ArrangementDamaged(
                "the content of a sorted file of an arrangement differs from what was written", where=str(path)
            )
        batches = _batches(buffer)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ArrangementDamaged(f"a sorted file of an arrangement cannot be read: {error}", where=str(path)) from error
    wrong = any(batch.schema != run_schema(schema) for batch in batches)
    if wrong or sum(batch.num_rows for batch in batches) != record.rows:
        raise ArrangementDamaged(
            "the rows of a sorted file of an arrangement differ from what was written", where=str(path)
        )
    _checked.add(identity)
    bounds = [(batch.column("hash")[0].as_py(), batch.column("hash")[-1].as_py()) for batch in batches]
    least, greatest = (pa.array([bound[at] for bound in bounds], pa.uint64()) for at in (0, 1))
    return SortedRun(record, identity, batches, least, greatest)


def keep_open(folder: Path, runs: Iterable[SortedRun]) -> None:
    """Keep exactly these runs of an arrangement open.

    If more than ``_MOST_FOLDERS`` arrangements have open runs, close those of the one that was used least recently.
    """
    kept = {run.identity: run for run in runs}
    with _open_lock:
        _open.pop(str(folder), None)
        if kept:
            _open[str(folder)] = kept
        while len(_open) > _MOST_FOLDERS:
            _open.popitem(last=False)


def is_cut(folder: Path, record: RunRecord) -> bool:
    """Return whether the size of the file has changed. Reading the mapped memory would then kill the process."""
    try:
        return os.stat(folder / record.name).st_size != record.size
    except FileNotFoundError:
        return False  # merged by another process; the mapping remains valid


def _batches(buffer: pa.Buffer) -> tuple[pa.RecordBatch, ...]:
    reader = pa.ipc.open_file(buffer)
    batches = tuple(reader.get_batch(at) for at in range(reader.num_record_batches))
    for batch in batches:
        batch.validate()
    return tuple(batch for batch in batches if batch.num_rows)


def _value_ranges(buffer: pa.Buffer, batches: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges (start, length) of the column values. The last buffer of a column contains its values."""
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            last = column.buffers()[-1]
            if name != "hash" and last is not None and last.size:
                yield last.address - buffer.address, last.size


def _crc_without(buffer: pa.Buffer, values: Iterable[tuple[int, int]]) -> int:
    bytes_of = memoryview(buffer)
    crc = at = 0
    for start, length in values:
        crc = zlib.crc32(bytes_of[at:start], crc)
        at = start + length
    return zlib.crc32(bytes_of[at:], crc)


def _identity(path: Path, record: RunRecord) -> tuple[object, ...]:
    status = os.stat(path)
    return path, status.st_dev, status.st_ino, status.st_mtime_ns, record.crc


HAS_SEARCH_SORTED: Final = hasattr(pc, "search_sorted")
"""Whether this version of Arrow has search_sorted, which needs Arrow 26.0 and a Python newer than 3.10."""


def insertion_points(values: pa.Array, wanted: pa.Array, side: str) -> pa.Array:
    """Return the insertion point of each wanted value in the ascending ``values``.

    If ``side`` is "left", the insertion point is before equal values. If ``side`` is "right", the insertion point is
    after equal values. All arrays are UINT64, and ``wanted`` contains no NULL.
    """
    if HAS_SEARCH_SORTED:
        return pc.search_sorted(values, wanted, side=side)
    return halving(values, wanted, side)


def halving(values: pa.Array, wanted: pa.Array, side: str) -> pa.Array:
    """Do the same as ``insertion_points``, but without ``search_sorted``."""
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
    """Return the positions of wanted values in ``values``. A second array has the index in ``wanted`` for each
    position.

    The positions are UINT64, and the indices are INT64. Both arguments must be ascending, and ``wanted`` must be
    distinct.
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
