"""Store the running totals of groups on the local disk, so that a tick reads only new rows.

The totals of a state at an instant W include all rows whose life begins or ends before W. They are derived from the
tables, and a missing or outdated file costs only time: the tick computes the totals from the tables again. A file is
outdated if a file of a table was removed, if a file was added with a change before W, or if an instant before W was
corrected since.

The totals are stored in *parts*, as in a log-structured merge tree. A tick writes a part with the changes of the totals
of few groups. The rows of a group in all parts add up to its totals. Parts of about equal size become one part. The
cost of a write therefore follows the changes. Parts are Arrow files that are mapped into memory. The rows of a part are
in the order of a hash of the group, so that a tick finds the groups that change by binary search.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.access import make_file, make_folder
from weft.arrangement.hashing import distinct_hashes, hash_version, is_supported, key_hashes
from weft.arrangement.run import matches
from weft.failpoint import failpoint
from weft.period_sql.notation import conjunction, same
from weft.storage.columns import conformed
from weft.storage.data_files import count_rows
from weft.storage.delta_log import DataFile
from weft.storage.slices import Slice, may_hold
from weft.storage.statistics import LOST_MICROSECONDS
from weft.storage.temporal_sql import TemporalSql, temporal_sql

MOST_GROUPS: Final = 10_000_000
"""The totals of more groups are not stored, because Spark would send all of them to the driver once."""
_KEPT: Final = 2
"""The number of instants for which totals are stored. The tick before may have failed after it wrote its totals."""
MOST_BYTES: Final = 512 << 20
"""The totals of more bytes are not stored, and DuckDB returns no more for one state."""
_SMALLER: Final = 4
"""A part becomes one with the part before it, unless that is more than this many times as large."""
_FORMAT: Final = 4
"""The version of the totals."""
_READABLE: Final = (3, _FORMAT)
"""The versions that can be read. Totals of another version are computed again. The parts of version 3 have no order."""
_HASH: Final = "_hash"
"""The column of a part with the hash of the group, by which the rows are ordered."""
_FEW_ROWS: Final = 20_000
"""Over fewer rows of totals, a second thread of DuckDB costs processor time and saves none."""
_MONTH: Final = 30 * 86_400
_REFUSED: Final = "too-many"
"""The file that marks a state with too many groups."""


@dataclass(frozen=True)
class StoredFiles:
    """The files of a table, and its column with the instant of each change.

    ``table`` is the ID of a table whose past a correction may change, or None.
    """

    start: str
    files: Sequence[DataFile]
    table: int | None = None


Files = Mapping[str, StoredFiles]
"""Maps the name of each table to its files."""
Revised = Callable[[Collection[int], int], "int | None"]
"""Returns the earliest instant (µs UTC) that changes of tables recorded since an instant affect, or None if all of them
affect only later instants."""


AddedUp = Callable[[pa.Table], pa.Table]
"""Returns one row for each group of a table in which a group may have several rows."""


@dataclass(frozen=True)
class StoredTotals:
    """The totals of all groups at the instant ``at`` (µs UTC), in parts. ``manifest`` describes the parts."""

    at: int
    parts: tuple[pa.Table, ...]
    manifest: tuple[Mapping[str, Any], ...]

    @property
    def rows(self) -> pa.Table:
        """The rows of all parts. A group may have several rows, which add up to its totals."""
        return pa.concat_tables(map(_plain, self.parts))

    @property
    def largest(self) -> pa.Table:
        """The rows of the first part, in which each group has one row."""
        return _plain(self.parts[0])

    @property
    def later(self) -> pa.Table:
        """The rows of the other parts."""
        return pa.concat_tables(map(_plain, (self.parts[0].slice(0, 0), *self.parts[1:])))

    def among(self, keys: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return the rows whose columns ``names`` are equal to those of a row of ``keys``, and possibly further rows.

        NULL equals NULL.
        """
        if not all(_is_ordered(part, names) for part in self.manifest):
            return among(self.rows, keys, names)
        wanted = keys.select(names).cast(self.parts[0].select(names).schema).combine_chunks()
        if not wanted.num_rows:
            return _plain(self.parts[0].slice(0, 0))
        hashes, _, _ = distinct_hashes(*wanted.to_batches())
        batches = (batch for part in self.parts for batch in part.to_batches())
        found = [batch.take(matches(batch.column(_HASH), hashes)[0]) for batch in batches]
        return _plain(pa.Table.from_batches(found, self.parts[0].schema))


@dataclass(frozen=True)
class StateStore:
    """The totals of a home's states, in a folder for each state.

    Totals are outdated if ``revised`` says that an instant before them changed.
    """

    folder: Path
    revised: Revised = lambda _, __: None

    def totals(self, state: str, at_most: int, files: Files) -> StoredTotals | None:
        """Return the latest totals at an instant up to ``at_most``, or None if there are none that are valid."""
        for at in sorted(self._instants(state), reverse=True):
            if at > at_most:
                continue
            found = self._read(self.folder / state, at, files)
            if found is not None:
                return found
        return None

    def write(
        self,
        state: str,
        at: int,
        rows: pa.Table,
        files: Files,
        before: StoredTotals | None,
        added_up: AddedUp,
        key: Sequence[str] = (),
    ) -> None:
        """Store the totals of all groups at the instant ``at``: ``rows`` and the totals ``before``.

        ``key`` has the columns of the groups. Errors of the disk are ignored.
        """
        parts, manifest = ((), ()) if before is None else (before.parts, before.manifest)
        kept, ordered = _untouched([part.num_rows for part in parts], rows.num_rows), can_be_ordered(rows.schema, key)
        if sum(part.num_rows for part in parts) + rows.num_rows > MOST_GROUPS:
            kept = 0
        if ordered and not all(_is_ordered(part, key) for part in manifest):
            kept = 0
        if parts[kept:]:
            old = [_plain(part) for part in parts[kept:]]
            rows = added_up(pa.concat_tables([*old, rows.cast(old[0].schema)]))
        if rows.num_rows > MOST_GROUPS or sum(_plain(part).nbytes for part in parts[:kept]) + rows.nbytes > MOST_BYTES:
            self.refuse(state)
            return
        rows = _ordered(rows, key) if ordered else rows
        folder, name = self.folder / state, f"{at}.arrow"
        with suppress(OSError):
            make_folder(folder)
            draft = folder / f".{name}"
            make_file(draft)
            with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
                writer.write_table(rows)
            digest = _digest(draft)
            draft.replace(folder / name)  # a reader may have mapped the file with this name
            failpoint("state.written")
            part = {"data": name, "rows": rows.num_rows, "digest": digest, "order": _order(key) if ordered else []}
            self._record(folder, at, [*manifest[:kept], part], files)

    def advance(self, state: str, stored: StoredTotals, at: int, files: Files) -> None:
        """Record that the totals at ``stored.at`` are also those at the instant ``at``."""
        with suppress(OSError):
            self._record(self.folder / state, at, stored.manifest, files)

    def refuse(self, state: str) -> None:
        """Record that the state has more than ``MOST_GROUPS`` groups or ``MOST_BYTES`` bytes."""
        with suppress(OSError):
            make_folder(self.folder / state)
            make_file(self.folder / state / _REFUSED)

    def is_refused(self, state: str) -> bool:
        """Return whether the state once had more than ``MOST_GROUPS`` groups or ``MOST_BYTES`` bytes."""
        return (self.folder / state / _REFUSED).exists()

    def has_later(self, state: str, at: int) -> bool:
        """Return whether totals are stored for an instant after ``at``."""
        return any(instant > at for instant in self._instants(state))

    def remove_unused(self) -> None:
        """Remove the states that no tick has written for a month before the last tick."""
        written = {folder: folder.stat().st_mtime for folder in self.folder.glob("*")}
        latest = max(written.values(), default=0.0)
        for folder, at in written.items():
            if at < latest - _MONTH:
                shutil.rmtree(folder, ignore_errors=True)

    def _record(self, folder: Path, at: int, parts: Sequence[Mapping[str, Any]], files: Files) -> None:
        names = {table: sorted(file.name for file in stored.files) for table, stored in files.items()}
        draft = folder / f".{at}.json"
        make_file(draft)
        draft.write_text(json.dumps({"parts": list(parts), "format": _FORMAT, "files": names}))
        failpoint("state.noted")
        draft.replace(folder / f"{at}.json")
        failpoint("state.recorded")
        for old in sorted(self._instants(folder.name))[:-_KEPT]:
            (folder / f"{old}.json").unlink(missing_ok=True)
            failpoint("state.forgotten")
        needed = {part["data"] for path in folder.glob("[0-9-]*.json") for part in _parts_of(path)}
        for path in folder.glob("*"):
            if path.suffix in (".arrow", ".parquet") and path.name not in needed:
                path.unlink(missing_ok=True)
                failpoint("state.cleaned")

    def _instants(self, state: str) -> list[int]:
        return [int(path.stem) for path in (self.folder / state).glob("*.json") if path.stem.lstrip("-").isdigit()]

    def _read(self, folder: Path, at: int, files: Files) -> StoredTotals | None:
        try:
            manifest = json.loads((folder / f"{at}.json").read_bytes())
            if manifest["format"] not in _READABLE or not _is_valid(manifest["files"], at, files):
                return None
            tables = {each.table for each in files.values() if each.table is not None}
            if tables and (revised := self.revised(tables, at)) is not None and revised < at:
                return None
            parts = tuple(_part(folder / each["data"], each) for each in manifest["parts"])
        except (OSError, ValueError, KeyError, pa.ArrowException):
            return None
        return StoredTotals(at, parts, tuple(manifest["parts"]))


def _parts_of(manifest: Path) -> list[Mapping[str, Any]]:
    """A damaged file describes no parts."""
    found: list[Mapping[str, Any]] = []
    with suppress(ValueError):
        found = json.loads(manifest.read_bytes()).get("parts", [])
    return found


def _part(data: Path, known: Mapping[str, Any]) -> pa.Table:
    """Raise ValueError if the part is damaged."""
    if _digest(data) != known["digest"]:
        raise ValueError(f"{data} is damaged")
    rows = pa.ipc.open_file(pa.memory_map(str(data))).read_all()
    if rows.num_rows != known["rows"]:
        raise ValueError(f"{data} lacks rows")
    return rows


def _plain(part: pa.Table) -> pa.Table:
    """Return a part without the hashes."""
    return part.drop_columns([_HASH]) if _HASH in part.column_names else part


def _order(key: Sequence[str]) -> list[str]:
    """Return how the manifest describes the order of a part. DuckDB may change its hashes."""
    return [*key, hash_version()]


def _is_ordered(part: Mapping[str, Any], key: Sequence[str]) -> bool:
    """Return whether the manifest describes a part in the order of ``key``."""
    return part.get("order") == _order(key)


def can_be_ordered(schema: pa.Schema, key: Sequence[str]) -> bool:
    """Return whether rows can have the order of the columns ``key``: each has a hash."""
    kinds = [schema.field(name).type for name in key]
    return bool(kinds) and all(is_supported(kind) and not pa.types.is_list(kind) for kind in kinds)


def _ordered(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Order rows by the hashes of the columns ``key``, and add the hashes."""
    batches = rows.select(key).combine_chunks().to_batches()
    hashes = key_hashes(batches[0]) if batches else pa.array([], pa.uint64())
    return rows.append_column(_HASH, hashes).take(pc.array_sort_indices(hashes)).combine_chunks()


def _untouched(sizes: Sequence[int], new: int) -> int:
    """Return how many of the first parts stay as they are when ``new`` rows are added.

    >>> _untouched([1000, 100], 10), _untouched([1000, 100], 30), _untouched([1000, 100], 200)
    (2, 1, 0)
    """
    kept = len(sizes)
    while kept and sizes[kept - 1] <= _SMALLER * new:
        kept -= 1
        new += sizes[kept]
    return kept


def _is_valid(names: Mapping[str, Sequence[str]], at: int, files: Files) -> bool:
    if names.keys() != files.keys():
        return False
    for table, stored in files.items():
        known, there = set(names[table]), {file.name: file for file in stored.files}
        if not known <= there.keys():
            return False
        if any(_has_rows(there[name], Slice(stored.start, None, at)) for name in there.keys() - known):
            return False
    return True


def _has_rows(file: DataFile, before: Slice) -> bool:
    """Return whether a file may have rows of a slice without lower bound.

    The statistics may be too low by almost a millisecond. Late rows often begin exactly at the end of the slice, so the
    rows of the file decide in this case.
    """
    least = file.least.get(before.column)
    if least is None or before.high - least > LOST_MICROSECONDS:
        return may_hold(file, before, None)
    return least < before.high and count_rows(file, before) > 0


def _digest(data: Path) -> str:
    found = data.stat()
    return _digest_of(data, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=10_000)
def _digest_of(data: Path, _: int, __: int) -> str:
    """A process reads a file again only if it has changed."""
    with data.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return hashlib.blake2b(content).hexdigest()


def among(rows: pa.Table, keys: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the rows whose columns ``names`` are equal to those of a row of ``keys``. NULL equals NULL."""
    if not names:
        return rows
    met = conjunction(same(names, "r", "k"))
    return computed(f"SELECT r.* FROM rows_ AS r SEMI JOIN keys_ AS k ON {met}", rows.schema, rows_=rows, keys_=keys)


def computed(text: str, schema: pa.Schema, **relations: pa.Table) -> pa.Table:
    """Run SQL of Spark's dialect with DuckDB over Arrow tables, and return the rows with the columns of ``schema``."""
    few = sum(rows.num_rows for rows in relations.values()) < _FEW_ROWS
    with sql_over(relations, threads=1 if few else 2) as sql:
        return conformed(sql.rows(text), schema)


@contextmanager
def sql_over(relations: Mapping[str, pa.Table], threads: int = 2) -> Iterator[TemporalSql]:
    """Open a connection to DuckDB for the ``with`` block, with Arrow tables as views by name."""
    with temporal_sql(threads) as sql:
        for name, rows in relations.items():
            sql.given(name, rows)
        yield sql
