"""Open, extend, search and merge arrangements.

``catch_up`` makes the arrangement cover exactly the given files, and ``lookup`` searches the rows of these files. If a
method raises ArrangementError, the caller must read the table instead. After ArrangementDamaged, the next ``catch_up``
builds the whole arrangement again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from weft.access import make_folder
from weft.arrangement import merging
from weft.arrangement.hashing import distinct_hashes, hash_version, is_supported, row_checksums
from weft.arrangement.manifest import (
    UNFINISHED,
    Manifest,
    StateRefused,
    columns_of,
    manifest_bytes,
    parsed,
    sizes,
    write_manifest,
)
from weft.arrangement.run import (
    RUN_SUFFIX,
    ArrangementDamaged,
    ArrangementError,
    RunRecord,
    SortedRun,
    is_cut,
    keep_open,
    open_run,
    sorted_rows,
    write_run,
)
from weft.errors import WeftError
from weft.failpoint import failpoint
from weft.storage.compaction import Compaction
from weft.storage.delta_log import DataFile

_HINT: Final = (
    "Run the command again. Nothing is lost: an arrangement is derived from its table, and its folder may be "
    "deleted at any time."
)
_ATTEMPTS: Final = 5


class Arrangement:
    """Rows of a table, sorted by a hash of their key columns and stored on the local disk.

    Only the holder of the home's lease may write an arrangement. Any number of processes may read an arrangement. An
    object of this class is not thread-safe. ``why_rebuilt`` says why the stored state was ignored, or is None.
    """

    def __init__(self, folder: Path, key: Sequence[str], schema: pa.Schema) -> None:
        """Use ``open`` instead of this constructor."""
        self.folder = folder
        self.key = tuple(key)
        self.schema = schema.remove_metadata()
        self.why_rebuilt: str | None = None
        self._positions = [self.schema.get_field_index(name) for name in self.key]
        self._manifest: Manifest | None = None
        self._raw: bytes | None = None
        self._distrusted: bytes | None = None
        self._runs: tuple[SortedRun, ...] = ()

    @classmethod
    def open(cls, folder: Path, key: Sequence[str], schema: pa.Schema) -> Arrangement:
        """Return the arrangement in ``folder`` with the columns of ``schema``, which must include the key.

        A stored state is ignored if it is damaged or incomplete, or if its key, schema, format or hash differs. Raise
        ArrangementError if the schema lacks a key column or has an unsupported type.
        """
        kinds = {field.name: field.type for field in schema}
        unfit = [field.name for field in schema if not is_supported(field.type)]
        unfit += [name for name in key if name not in kinds or pa.types.is_list(kinds[name])]
        if unfit or not key or len(kinds) < len(schema):
            raise ArrangementError(
                f"an arrangement by ({', '.join(key)}) with the columns ({', '.join(schema.names)}) cannot be created"
                + (f": {', '.join(unfit)} is missing or has an unsupported type" if unfit else ""),
                where=str(folder),
            )
        arrangement = cls(folder, key, schema)
        arrangement._load()
        return arrangement

    @property
    def rows(self) -> int:
        """The number of rows in the covered files, or 0 without a state."""
        return self._manifest.rows if self._manifest else 0

    @property
    def runs(self) -> int:
        """The number of runs that a look-up searches."""
        return len(self._runs)

    @property
    def runs_to_merge(self) -> int:
        """The number of runs that ``merge`` would read."""
        return sum(map(len, merging.groups_to_merge([run.record for run in self._runs])))

    def gone(self, files: Sequence[DataFile]) -> list[str]:
        """Return the covered files that are not among ``files``."""
        self._load()
        there = sizes(files)
        return [place for place in self._manifest.files if place not in there] if self._manifest else []

    def behind(self, files: Sequence[DataFile], moved: Sequence[Compaction] = ()) -> int | None:
        """Return the number of rows that ``catch_up`` would read. If the log lacks a row count, return None."""
        self._load()
        missing = self._manifest.missing(files, moved) if self._manifest else None
        return _rows_of(files if missing is None else missing)

    def catch_up(
        self,
        files: Sequence[DataFile],
        read: Callable[[Sequence[DataFile]], Iterable[pa.Table]],
        moved: Sequence[Compaction] = (),
    ) -> None:
        """Add the rows of new files, and forget missing files. The arrangement then covers exactly the given files.

        ``read`` yields the rows of new files as tables. The tables have at least the columns of the schema, in any
        order. ``moved`` contains the compactions that replaced covered files, in log order. If a covered file is
        missing and no compaction replaced it, the arrangement is built again. Raise ArrangementError if a write fails
        or if ``read`` returns another number of rows than the log records.
        """
        with self._writing():
            self._load()
            before = self._manifest
            missing = before.missing(files, moved) if before else None
            if before and missing == [] and before.files == sizes(files):
                return
            make_folder(self.folder)
            self._clean()
            existing: tuple[RunRecord, ...] = ()
            if before and missing is None:
                self.why_rebuilt = "covered files are no longer in the table"
            elif before:
                existing = before.runs
            new = list(files) if missing is None else missing
            records = [*existing, *self._written(new, read)]
            while tier := merging.full_tier(records, any_size=not existing):
                records = self._merged(records, tier)
            self._commit(sizes(files), records)

    def lookup(self, keys: pa.Table, *, null_safe: bool = False, most: int | None = None) -> pa.Table:
        """Return all rows whose key equals a row of ``keys``, without repetitions and with the columns of the schema.

        The columns of ``keys`` correspond to the key columns by position. NULL equals NULL only if ``null_safe`` is
        True. If a row occurs twice in ``keys``, the result may contain rows of another key with the same hash. The
        probability of equal hashes is about rows × keys / 2⁶⁴. Raise ArrangementDamaged if stored rows have changed.
        Raise ArrangementError if the arrangement has no state or if more than ``most`` rows match.
        """
        if self._manifest is None:
            raise ArrangementError("the arrangement has no state to look up in", where=str(self.folder), hint=_HINT)
        for run in self._runs:
            if is_cut(self.folder, run.record):
                raise self._damaged("the size of a run differs from what was written")
        wanted = self._key_rows(keys, null_safe)
        if wanted is None:
            return self.schema.empty_table()
        hashes, first, times = distinct_hashes(wanted)
        found: list[tuple[pa.RecordBatch, pa.Array, pa.Array]] = []
        count = 0
        for each in (each for run in self._runs for each in run.lookup(hashes)):
            found.append(each)
            count += len(each[1])
            if most is not None and count > most:
                raise ArrangementError(f"more than {most} rows have the same key", where=str(self.folder))
        if not found:
            return self.schema.empty_table()
        batches = [batch.take(positions).append_column("which", places) for batch, positions, places in found]
        checked = []
        for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
            carried = self._checked(batch)
            places = batch.column("which")
            same = _equal_rows(carried.select(self.key), wanted.take(first.take(places)))
            checked.append(carried.filter(pc.or_(same, pc.greater(times.take(places), 1))))
        return pa.Table.from_batches(checked, self.schema)

    def merge(self) -> int:
        """Merge similar runs and return the decrease in the number of runs. Raise ArrangementError if a write fails."""
        with self._writing():
            self._load()
            if self._manifest is None:
                return 0
            self._clean()
            records = list(self._manifest.runs)
            for group in merging.groups_to_merge(records):
                records = self._merged(records, group)
            gone = len(self._manifest.runs) - len(records)
            if gone:
                self._commit(self._manifest.files, records)
            return gone

    def _load(self) -> None:
        """Another process may have changed the state."""
        try:
            for _ in range(_ATTEMPTS):
                raw = manifest_bytes(self.folder)
                if raw is None or raw == self._distrusted:
                    self._take(None, None, ())
                    return
                if raw == self._raw:
                    return
                try:
                    manifest = parsed(raw, hash_version(), self.key, self.schema)
                    self._take(raw, manifest, self._opened(manifest.runs))
                    return
                except FileNotFoundError:  # another process merged in between, or the file is lost
                    continue
            raise StateRefused("a run (sorted file) of the arrangement is missing")
        except StateRefused as refused:
            self._refuse(str(refused))
        except ArrangementDamaged as damage:
            self._refuse(damage.message)

    def _opened(self, records: Sequence[RunRecord]) -> tuple[SortedRun, ...]:
        return tuple(open_run(self.folder, record, self.schema) for record in records)

    def _take(self, raw: bytes | None, manifest: Manifest | None, runs: tuple[SortedRun, ...]) -> None:
        self._raw, self._manifest, self._runs = raw, manifest, runs
        keep_open(self.folder, runs)

    def _refuse(self, why: str) -> None:
        self.why_rebuilt = why
        self._take(None, None, ())

    def _damaged(self, why: str) -> ArrangementDamaged:
        """Drop the state and prevent another load of its manifest. Return the error to raise."""
        self._distrusted = self._raw
        self._refuse(why)
        return ArrangementDamaged(f"an arrangement is damaged: {why}", where=str(self.folder), hint=_HINT)

    def _written(
        self, files: Sequence[DataFile], read: Callable[[Sequence[DataFile]], Iterable[pa.Table]]
    ) -> Iterator[RunRecord]:
        rows = 0
        for table in _chunks(self._conformed(table) for table in (read(files) if files else ())):
            rows += table.num_rows
            batches = [sorted_rows(batch, self._positions) for batch in table.combine_chunks().to_batches()]
            for batch in batches:
                yield write_run(self.folder, self.schema, [batch])
                failpoint("arrangement.written")
        expected = _rows_of(files)
        if expected is not None and rows != expected:
            raise ArrangementError(
                f"{rows} rows were read from files that have {expected} rows according to the table's log",
                where=str(self.folder),
            )

    def _conformed(self, table: pa.Table) -> pa.Table:
        return table.select(self.schema.names).cast(self.schema)

    def _merged(self, records: Sequence[RunRecord], group: Sequence[RunRecord]) -> list[RunRecord]:
        one = write_run(self.folder, self.schema, merging.in_order(self._opened(group)))
        failpoint("arrangement.merged")
        if one.rows != sum(record.rows for record in group):
            raise self._damaged("a merge returned a different number of rows than it read")
        return [*(record for record in records if record not in group), one]

    def _commit(self, files: Mapping[str, int], records: Sequence[RunRecord]) -> None:
        before = set(self._manifest.runs) if self._manifest else set()
        manifest = Manifest(hash_version(), self.key, columns_of(self.schema), files, tuple(records))
        raw = write_manifest(self.folder, manifest, [record for record in records if record not in before])
        self._take(raw, manifest, self._opened(records))
        self._clean()
        failpoint("arrangement.cleaned")

    def _clean(self) -> None:
        """Delete the files that the manifest does not name: replaced runs, and files of killed processes."""
        named = {record.name for record in self._manifest.runs} if self._manifest else set()
        for path in self.folder.iterdir():
            if path.name == UNFINISHED or (path.suffix == RUN_SUFFIX and path.name not in named):
                path.unlink(missing_ok=True)

    def _key_rows(self, keys: pa.Table, null_safe: bool) -> pa.RecordBatch | None:
        """Return the keys with the types of the key columns, or None if no key can match."""
        kinds = [self.schema.field(name).type for name in self.key]
        if keys.num_columns != len(kinds):
            raise ArrangementError(
                f"{keys.num_columns} columns do not match the key ({', '.join(self.key)})", where=str(self.folder)
            )
        columns = [column.cast(kind) for column, kind in zip(keys.columns, kinds, strict=True)]
        table = pa.table(columns, names=list(self.key))
        if not null_safe:
            table = table.drop_null()
        batches = table.combine_chunks().to_batches()
        if not batches:
            return None
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        carried = pa.RecordBatch.from_arrays(batch.columns[: len(self.schema)], schema=self.schema)
        try:
            intact = pc.all(pc.equal(row_checksums(carried), batch.column("sum"))).as_py()
        except duckdb.Error as error:
            raise self._damaged(f"the rows of a run cannot be read: {error}") from error
        if not intact:
            raise self._damaged("rows differ from what was written")
        return carried

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except WeftError:
            raise
        except (OSError, ValueError, KeyError, pa.ArrowException, duckdb.Error) as error:
            raise ArrangementError(
                f"an arrangement cannot be written: {error}", where=str(self.folder), hint=_HINT
            ) from error


def _equal_rows(rows: pa.RecordBatch, wanted: pa.RecordBatch) -> pa.Array:
    """Compare two batches row by row. NULL equals NULL, and NaN equals NaN."""
    same = None
    for one, other in zip(rows.columns, wanted.columns, strict=True):
        equal = pc.fill_null(pc.equal(one, other), False)
        equal = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other)))
        if pa.types.is_floating(one.type):
            equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
        same = equal if same is None else pc.and_(same, equal)
    return same


def _chunks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Split the tables into chunks that can be sorted in memory."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        row_bytes = max(1, table.nbytes // max(1, table.num_rows))
        step = max(1, min(merging.BATCH_ROWS, merging.BATCH_BYTES // row_bytes))
        for start in range(0, table.num_rows, step):
            part = table.slice(start, step)
            if held and (rows + part.num_rows > merging.BATCH_ROWS or size + part.nbytes > merging.BATCH_BYTES):
                yield pa.concat_tables(held)
                held, rows, size = [], 0, 0
            held.append(part)
            rows += part.num_rows
            size += part.nbytes
    if held:
        yield pa.concat_tables(held)


def _rows_of(files: Sequence[DataFile]) -> int | None:
    counts = [file.rows for file in files]
    return None if None in counts else sum(count for count in counts if count is not None)
