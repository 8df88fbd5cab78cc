"""Loading: mail, files and logs into tables, and what of them could not be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from weft.api.arguments import file_options, length, own_user, timing, typed_columns
from weft.api.weft_methods import WeftMethods
from weft.catalog.records import QuarantineRecord, TableRecord

if TYPE_CHECKING:
    from weft.catalog.load_history import LoadSummary
    from weft.execution.undoing import Undone
    from weft.extraction.batches import Progress
    from weft.extraction.files.given_files import Given
    from weft.extraction.retrying import Retried
    from weft.extraction.storing import Summary
    from weft.extraction.timing import Late, TsOrder
    from weft.extraction.typed_rows import TextRow

AnyPath = str | os.PathLike[str]

Rows: TypeAlias = (
    "Mapping[str, object] | Iterable[Mapping[str, object]] | Iterable[bytes] | Iterable[str] | TextRow | Tabular"
)
"""What ``append`` takes."""


class Tabular(Protocol):
    """What has rows as Arrow: tables of pyarrow, DataFrames of pandas and polars, relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Loading(WeftMethods):
    """The methods of a home that load into it; it has what is ``opened``."""

    def ingest_mail(
        self,
        paths: AnyPath | Sequence[AnyPath],
        *,
        table: str = "msgs",
        newsgroup: str | None = None,
        ts_from: str | None = None,
        ts_order: TsOrder = "own",
        late: Late = "stamp",
        future: str | int = "1d",
        hold: bool = False,
        progress: Progress | None = None,
    ) -> Summary:
        """Loads mailboxes, directories of articles and archives of them; see ``extraction.ingest.ingest_mail``.

        What ts the rows get: see ``extraction.timing.Timing``; ``future`` is text such as ``1d``, or microseconds.
        """
        from weft.extraction.ingest import ingest_mail

        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        times = timing(ts_from, ts_order, late, future, hold)
        return ingest_mail(self.opened, given, table, newsgroup=newsgroup, timing=times, progress=progress)

    def ingest_file(
        self,
        paths: Given | Sequence[Given],
        table: str,
        *,
        keys: Sequence[str] | None = None,
        evolve: bool = False,
        types: str | Mapping[str, str] | None = None,
        rename: str | Mapping[str, str] | None = None,
        encoding: str | None = None,
        ts_from: str | None = None,
        ts_format: str | None = None,
        ts_order: TsOrder = "own",
        late: Late = "stamp",
        future: str | int = "1d",
        hold: bool = False,
        progress: Progress | None = None,
    ) -> Summary:
        """Loads CSV, JSON lines and Parquet: files, folders, patterns or streams of bytes, as one load.

        ``types`` and ``rename`` are mappings, or text as of the command.  See ``extraction.ingest.ingest_file``,
        ``extraction.files.options.FileOptions``, and ``ingest_mail``.
        """
        from weft.extraction.ingest import ingest_file

        times = timing(ts_from, ts_order, late, future, hold)
        how = file_options(types, rename, encoding, ts_format)
        return ingest_file(
            self.opened, paths, table, keys=keys, evolve=evolve, options=how, timing=times, progress=progress
        )

    def make_table(self, name: str, columns: str | Mapping[str, str], *, keys: Sequence[str] = ()) -> TableRecord:
        """Makes a table to append to, its columns as text, ``id INT, day DATE``, or a mapping; ``_by`` is added.

        Raises Conflict for a name that is taken, Refused.
        """
        from weft.extraction.appending import make_table

        return make_table(self.opened, name, typed_columns(columns, "the columns"), keys)

    def append(
        self,
        table: str,
        rows: Rows,
        *,
        user: str | None = None,
        ts_from: str | None = None,
        late: Late = "stamp",
        future: str | int = "1d",
    ) -> Summary:
        """Appends rows to a table, all or none of them, as arrived now or with times of their own.

        ``rows`` are dicts by column, one dict, lines of JSON (an open file, for example), a Table, RecordBatch or
        RecordBatchReader of pyarrow, or a DataFrame of pandas, polars or Spark.  What a row leaves out is NULL, as are
        NaN, NaT and None of pandas.  Types are taken strictly; an instant without a zone is UTC.  ``user`` is who
        appends, by default whoever runs this process: the column ``_by``, where the table has it.  ``ts_from`` is
        ``ts``, which the rows then have beside the table's columns, or a column of the table, TIMESTAMP or DATE: each
        row has to have a value there, and gets it as its ``ts``; ``late`` and ``future`` as for ``ingest_file``.
        Raises Refused with the row (from 1), the column and the value where one does not fit, and as
        ``extraction.appending.append_rows``;
        ExecutionError where Spark cannot compute a DataFrame.
        """
        from weft.execution.written_frames import spark_rows
        from weft.extraction.appending import append_rows
        from weft.extraction.given_rows import reader_of

        home = self.opened
        read, source = reader_of(rows, lambda frame: spark_rows(frame, home.catalog.data, home.clock()))
        times = timing(ts_from, "own", late, future, False)
        return append_rows(home, table, read, user or own_user(), source, times)

    def ingest_log(self, log: AnyPath, signature: AnyPath, progress: Progress | None = None) -> tuple[Summary, ...]:
        """Loads a log of temporal logic, in MonPoly's format; see ``extraction.logs.ingest_log``."""
        from weft.extraction.logs import ingest_log

        return ingest_log(self.opened, Path(log), Path(signature), progress=progress)

    def loads(self, table: str | None = None, limit: int | None = None) -> tuple[LoadSummary, ...]:
        """The latest loads, into one table or all, at most ``limit``, the newest first; raises NotFound."""
        catalog = self.opened.catalog
        return catalog.load_history.latest(None if table is None else catalog.tables.named(table).table_id, limit)

    def undo_load(self, load_id: int) -> Undone:
        """Takes out what a load has stored, while nothing has been answered from it; see ``execution.undoing``.

        Raises NotFound, Conflict with the reason, LeaseBusy, StorageError.
        """
        from weft.execution.undoing import undo_load

        return undo_load(self.opened, load_id)

    def quarantined(self) -> tuple[QuarantineRecord, ...]:
        """The records that could not be read, the oldest first."""
        return self.opened.catalog.quarantine.all()

    def retry_quarantine(
        self, ids: Collection[int] | None = None, *, late: Late | None = None, future: str | int | None = None
    ) -> Retried:
        """Reads quarantined records again, all or those named; see ``extraction.retrying.retry``.

        Raises NotFound, StorageError, LeaseBusy.
        """
        from weft.extraction.retrying import retry

        return retry(self.opened, ids, late=late, future_us=None if future is None else length(future))
