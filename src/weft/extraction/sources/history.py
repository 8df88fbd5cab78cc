"""Load the known past of a source from a file of dated states or dated changes.

The file must be loaded before the first poll and the first tick. Afterwards, the history accepts only later changes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import STRING, TIMESTAMP
from weft.catalog.records import TableRecord
from weft.catalog.sources import renamed_columns
from weft.errors import Refused
from weft.execution.append_rows import OWN_TIME
from weft.execution.current_rows_cache import current_rows
from weft.execution.home import OpenHome
from weft.extraction.batches import Progress, printable
from weft.extraction.files.columns import TS
from weft.extraction.files.options import FileOptions
from weft.extraction.files.source import digest, open_file
from weft.extraction.sources.apply_changes import record_changes
from weft.extraction.sources.snapshot import Renamed, file_path, pieces_of
from weft.extraction.sources.source_lease import polling, settle_polls, source_schema
from weft.printable import Brief, counted
from weft.storage.changes import DELETE, OP, ORDER, OWN, change_schema, state_changes
from weft.storage.columns import INSTANT, arrow_type
from weft.storage.periods import repeated_keys


@dataclass(frozen=True, repr=False)
class PastLoaded(Brief):
    """The result of loading a file into the history of the source ``name``.

    ``began`` and ``ended`` are the numbers of periods that began and ended. ``first`` and ``last`` are the times of the
    first and the last change in µs UTC, or None. ``already`` is True if the same file was loaded before.
    """

    name: str
    began: int
    ended: int
    first: int | None = None
    last: int | None = None
    already: bool = False

    def _brief(self) -> str:
        return f"{self.name}: {self.began:,} began, {self.ended:,} ended" + (
            "; the file was loaded before" if self.already else ""
        )


def load_history(
    home: OpenHome,
    name: str,
    path: str | os.PathLike[str],
    ts_from: str,
    *,
    op: str | None = None,
    progress: Progress | None = None,
) -> PastLoaded:
    """Load dated states of a source. The rows of a state have the same time in the column ``ts_from``.

    If ``op`` is set, load dated changes instead. The column ``op`` contains D or DELETE for a row that ended. The file
    is CSV, JSON lines or Parquet, and may have other columns.

    Raises NotFound, and ExtractionError for an unreadable file. Raises Refused if a state contains a key twice, or if a
    row is too early to be recorded at its event time.
    """
    settle_polls(home)
    source = home.catalog.sources.named(name)
    table = home.catalog.tables.by_id(source.table_id)
    _refuse_untracked(table)
    sha256 = digest(path)
    if home.catalog.loads.loaded(table.table_id, sha256):
        return PastLoaded(source.name, 0, 0, already=True)
    rows = _rows(table, path, ts_from, op, renamed_columns(source.options), progress)
    if op is None:
        _refuse_empty(rows, path)
        _refuse_repeated(rows, table, path)
    with polling(home, source) as (writer, table):
        clock = home.clock() if home.catalog.home().clock == "wall" else _latest(rows)
        if clock < _latest(rows):
            raise Refused("the file has rows dated in the future, and this home uses the wall clock", where=str(path))
        changes = rows
        if op is None:
            changes = state_changes(rows.drop_columns([OP]), current_rows(writer, table), table.keys)
        done, _ = record_changes(
            writer, home, table, printable(str(path)), changes, clock, late_refused=True, digest=sha256
        )
        open_rows = source.open_rows + done.began - done.ended
        writer.sources.polled(table.table_id, home.clock(), open_rows, source.seen)
    return PastLoaded(source.name, done.began, done.ended, done.first, done.last)


def _refuse_untracked(table: TableRecord) -> None:
    if table.attached:
        raise Refused(
            f"{table.name} is an attached table, and only the program that writes its Delta table adds rows",
            hint="Load the file into another table.",
        )
    if not table.tracked:
        raise Refused(
            f"{table.name} is a mail table, which has no history of states",
            hint=f"Load an archive: `weft ingest mail PATH --table {table.name}`.",
        )


def _latest(rows: pa.Table) -> int:
    latest: int | None = pc.max(rows.column(OWN)).as_py()
    return 0 if latest is None else latest


def _rows(
    table: TableRecord,
    path: str | os.PathLike[str],
    ts_from: str,
    op: str | None,
    rename: Renamed,
    progress: Progress | None,
) -> pa.Table:
    wanted = [(column.name, column.type) for column in source_schema(table).columns]
    names = {name.lower() for name, _ in wanted}
    own = [(each, kind) for each, kind in ((ts_from, TIMESTAMP), (op, STRING)) if each and each.lower() not in names]
    chosen, options = [*wanted, *own], FileOptions(rename=tuple(rename))
    own_time = ts_from if ts_from.lower() == TS else None  # a table cannot have a column of that name
    source = open_file(file_path(str(path)), None, ts_from=own_time, chosen=chosen, options=options)
    pieces = list(pieces_of(source.batches(), source.name, progress))
    schema = change_schema(pa.schema([pa.field(name, arrow_type(kind)) for name, kind in wanted]))
    if not pieces:
        return schema.empty_table()
    rows = pa.concat_tables(pieces)
    by_name = {each.lower(): each for each in rows.column_names}
    dates = rows.column(by_name[ts_from.lower()]) if own_time is None else rows.column(OWN_TIME).cast(INSTANT)
    _check_dates(dates, ts_from, source.name)
    ops = pa.repeat(pa.scalar("U"), rows.num_rows) if op is None else _ops(rows.column(by_name[op.lower()]))
    values = [rows.column(by_name[name.lower()]) for name, _ in wanted]
    order = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
    changes = pa.table([*values, ops, dates.cast(pa.int64()), order], schema=schema)
    in_time = changes.sort_by([(OWN, "ascending"), (ORDER, "ascending")])
    return in_time.set_column(in_time.column_names.index(ORDER), ORDER, order)


def _check_dates(dates: pa.ChunkedArray, name: str, where: str) -> None:
    if not pa.types.is_timestamp(dates.type):
        raise Refused(f"{name!r} is not a column of instants", where=where, hint="Use ISO 8601.")
    if dates.null_count:
        empty = counted(dates.null_count, "row")
        raise Refused(f"{name} is empty in {empty}", where=where, hint="Give every row a date.")


def _ops(ops: pa.ChunkedArray) -> pa.ChunkedArray:
    gone = pc.is_in(pc.utf8_upper(ops), value_set=pa.array([DELETE, "DELETE"]))
    return pc.if_else(pc.fill_null(gone, False), DELETE, "U")


def _refuse_empty(rows: pa.Table, path: str | os.PathLike[str]) -> None:
    """Refuse a file without rows, because such a file would end all open rows at an unknown date."""
    if not rows.num_rows:
        raise Refused("the file has no rows", where=str(path), hint="Nothing was changed. Name a file with rows.")


def _refuse_repeated(rows: pa.Table, table: TableRecord, path: str | os.PathLike[str]) -> None:
    repeated = repeated_keys(rows, [*table.keys, OWN], most=1)
    if repeated:
        (values, count), *_ = repeated
        raise Refused(
            f"one state has {count:,} rows with the key {', '.join(map(str, values[:-1]))}",
            where=str(path),
            hint="Choose a key that identifies one row. For a file of changes, use --op.",
        )
