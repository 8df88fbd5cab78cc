"""Load mail, files and logs into tables.  Manage tables, loads and the quarantine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from weft.api.acting import acting_user, quarantine_ids, require_upload
from weft.api.arguments import file_options, length, own_user, timing, typed_columns
from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog.records import RESULTS, QuarantineRecord, QueryRecord, TableRecord
from weft.errors import NotAllowed
from weft.interruption import Stopped
from weft.printable import Brief
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.catalog.loads import LoadSummary
    from weft.execution.undoing import Undone
    from weft.extraction.batches import Late, Progress, TsOrder
    from weft.extraction.files.given_files import Given
    from weft.extraction.previewing import FilePreview
    from weft.extraction.retrying import Retried
    from weft.extraction.storing import Summary
    from weft.extraction.typed_rows import CsvRows, TextRow
    from weft.storage.ledger import ResultRow

AnyPath = str | os.PathLike[str]

Rows: TypeAlias = (
    "Mapping[str, object] | Iterable[Mapping[str, object]] | Iterable[bytes] | Iterable[str]"
    " | TextRow | CsvRows | Tabular"
)
"""The types of rows that ``append`` accepts."""


class Tabular(Protocol):
    """An object that can export its rows as an Arrow stream, such as a pandas DataFrame or a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


class Loading(WeftMethods):
    """The methods of ``Weft`` that load rows."""

    @requires(Right.ADMIN)
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
        """Load mailboxes, directories of articles, and archives of both, into ``table``.  Return a summary.

        ``ts_from``, ``ts_order``, ``late`` and ``hold`` determine the column ``ts``: see
        ``extraction.batches.Timing``.  ``future`` is text such as ``1d``, or microseconds.  See
        ``extraction.ingest.ingest_mail`` for the other parameters and for the errors.
        """
        from weft.extraction.ingest import ingest_mail

        several = [paths] if isinstance(paths, str | os.PathLike) else paths
        times = timing(ts_from, ts_order, late, future, hold)
        done = ingest_mail(self.opened, several, table, newsgroup=newsgroup, timing=times, progress=progress)
        return self._with_arrangements(done)

    @requires(Right.LOAD)
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
        """Load CSV, JSON lines and Parquet as one load.  Return a summary.

        ``paths`` are files, folders, patterns or byte streams.  ``types`` and ``rename`` are mappings, or text as on
        the command line.  See ``extraction.ingest.ingest_file``, ``extraction.files.options.FileOptions`` and
        ``ingest_mail`` for the other parameters and for the errors.
        """
        from weft.extraction.ingest import ingest_file

        seen = self.opened.seen()
        if not seen.rights.may(Right.ADMIN):
            require_upload(seen, paths, table, evolve=evolve)
        times = timing(ts_from, ts_order, late, future, hold)
        how = file_options(types, rename, encoding, ts_format)
        done = ingest_file(
            self.opened, paths, table, keys=keys, evolve=evolve, options=how, timing=times, progress=progress
        )
        return self._with_arrangements(done)

    def _with_arrangements(self, done: Summary) -> Summary:
        """Build arrangements after a large load, because the next tick would wait for them, and return ``done``.

        The load is stored already.  An interrupt stops only the building.
        """
        from weft.execution.driver_reader import BOUNDS

        if done.stored > BOUNDS.filtered:
            from weft.execution.maintenance import build_ahead

            with suppress(KeyboardInterrupt, Stopped):
                build_ahead(self.opened, done.table)
        return done

    @requires(Right.LOAD, table="table", logged=False)
    def require_load(self, table: str | None = None) -> None:
        """Raise the error of a load into ``table`` if the right to load is missing, by default for every table.

        A server calls this before it receives rows.  Raises NotFound or NotAllowed.
        """
        rights = self.opened.seen().rights
        if not (rights.reaches_all(Right.LOAD) or rights.ids(Right.LOAD, "table")):
            raise NotAllowed(f"{rights.principal.name} may load rows into no table", hint="Ask an administrator.")

    @requires(Right.LOAD, logged=False)
    def preview_file(
        self,
        paths: Given | Sequence[Given],
        table: str,
        *,
        evolve: bool = False,
        types: str | Mapping[str, str] | None = None,
        rename: str | Mapping[str, str] | None = None,
        encoding: str | None = None,
        ts_from: str | None = None,
        ts_format: str | None = None,
        rows: int = 10,
    ) -> FilePreview:
        """Return the columns, types and first ``rows`` that ``ingest_file`` would store.  Store nothing.

        The parameters and errors are those of ``ingest_file``.
        """
        from weft.extraction.previewing import preview_file

        seen = self.opened.seen()
        if not seen.rights.may(Right.ADMIN):
            require_upload(seen, paths, table, evolve=evolve)
        several = [paths] if isinstance(paths, str | os.PathLike) or not isinstance(paths, Sequence) else paths
        how = file_options(types, rename, encoding, ts_format)
        times = timing(ts_from, "own", "stamp", "1d", False)
        return preview_file(self.opened, several, table, evolve=evolve, options=how, timing=times, rows=rows)

    @requires(Right.ADMIN)
    def make_table(self, name: str, columns: str | Mapping[str, str], *, keys: Sequence[str] = ()) -> TableRecord:
        """Create an empty table for ``append``, and return its record.

        ``columns`` is text such as ``id INT, day DATE``, or a mapping from column to type.  Weft adds the column
        ``_by``.  Raises Refused.  Raises Conflict if the name is in use.
        """
        from weft.extraction.appending import make_table

        return make_table(self.opened, name, typed_columns(columns, "the columns"), keys)

    @requires(Right.LOAD, table="table")
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
        """Append rows to a table, and return a summary.  After an error, the table contains none of the rows.

        ``rows`` is a dict, an iterable of dicts, or lines of JSON (such as an open file).  ``rows`` can also be a
        pyarrow Table, RecordBatch or RecordBatchReader, or a DataFrame of pandas, polars or Spark.  A missing value is
        NULL.  In pandas, NaN, NaT and None are also NULL.  Each value must have the type of its column.  An instant
        without a time zone is in UTC.

        ``user`` is the value of the column ``_by``, if the table has that column.  The default of ``user`` is the user
        who runs this process.  Without ``ts_from``, the ``ts`` of all rows is the time of the call.  With ``ts_from``,
        the column with this name gives the ``ts`` of each row.  The column ``ts_from`` is a TIMESTAMP or DATE column of
        the table, or an additional column ``ts`` of the rows.  The values in this column must not be NULL.  ``late``
        and ``future`` have the same meaning as in ``ingest_file``.

        Raises Refused for an invalid value.  The error names the row (from 1), the column and the value.  Raises
        ExecutionError if Spark cannot compute a DataFrame.  Also raises the same errors as
        ``extraction.appending.append_rows``.
        """
        from weft.execution.tabular import spark_rows
        from weft.extraction.appending import append_rows
        from weft.extraction.given_rows import reader_of

        home = self.opened
        read, source = reader_of(rows, lambda frame: spark_rows(frame, home.catalog.data, home.clock()))
        times = timing(ts_from, "own", late, future, False)
        return append_rows(home, table, read, acting_user(home, user) or own_user(), source, times)

    @requires(Right.ADMIN)
    def ingest_log(self, log: AnyPath, signature: AnyPath, progress: Progress | None = None) -> tuple[Summary, ...]:
        """Load a log in MonPoly's format into one table for each predicate.  See ``extraction.logs.ingest_log``."""
        from weft.extraction.logs import ingest_log

        return ingest_log(self.opened, Path(log), Path(signature), progress=progress)

    @requires(Right.READ, table="table")
    def loads(
        self, table: str | None = None, limit: int | None = None, *, before: int | None = None
    ) -> tuple[LoadSummary, ...]:
        """Return at most ``limit`` loads into one table or into all tables, the newest first.  Raise NotFound.

        With ``before``, return only loads with lower IDs.  Only administrators see the folders of their sources.
        """
        catalog, seen = self.opened.catalog, self.opened.seen()
        if table is not None or seen.rights.reaches_all(Right.READ):
            table_id = None if table is None else catalog.tables.named(table).table_id
            return tuple(map(seen.load_as_shown, catalog.load_history.latest(table_id, limit, before)))
        own = (each for each in catalog.load_history.latest(before=before) if seen.has_table(each.load.table_id))
        return tuple(map(seen.load_as_shown, islice(own, limit)))

    @requires(Right.ANY)
    def lies_ahead(self, load: Summary) -> bool:
        """Return whether the home has the wall clock, and the load stored rows whose ``ts`` is in the future."""
        wall = self.opened.catalog.home().clock == "wall"
        return wall and load.last_ts is not None and load.last_ts > self.opened.clock()

    @requires(Right.LOAD)
    def undo_load(self, load_id: int) -> Undone:
        """Remove the rows of a load if no answer depends on them.  See ``execution.undoing``.

        Raises NotFound, LeaseBusy or StorageError.  Raises Conflict if the load cannot be undone.
        """
        from weft.execution.undoing import undo_load

        seen = self.opened.seen()
        undone = undo_load(self.opened, seen.load(load_id, Right.LOAD).load.load_id)
        again = tuple(map(seen.load_as_shown, undone.again))
        return replace(undone, load=seen.load_as_shown(undone.load), again=again)

    @requires(Right.LOAD, logged=False)
    def quarantined(self) -> tuple[QuarantineRecord, ...]:
        """Return the unresolved records in quarantine of the tables that the principal may load, the oldest first.

        Only administrators see the folders of their sources.  Raises NotAllowed if she may load rows into no table.
        """
        self.require_load()
        seen = self.opened.seen()
        every = self.opened.catalog.quarantine.all()
        return tuple(seen.record_as_shown(each) for each in every if seen.has_table(each.table_id, Right.LOAD))

    @requires(Right.LOAD)
    def retry_quarantine(
        self, ids: Collection[int] | None = None, *, late: Late | None = None, future: str | int | None = None
    ) -> Retried:
        """Read quarantined records again: those with these ``ids``, or all by default.  See
        ``extraction.retrying.retry``.

        ``late`` and ``future`` replace the options of the original load.  Raises NotFound, StorageError or LeaseBusy.
        """
        from weft.extraction.retrying import retry

        seen = self.opened.seen()
        if not seen.rights.reaches_all(Right.LOAD):
            ids = quarantine_ids(seen, ids)
        return retry(self.opened, ids, late=late, future_us=None if future is None else length(future))


@dataclass(frozen=True, repr=False)
class Description(Brief):
    """A table with a few rows of its newest files.  The values of a row are in the order of the table's columns."""

    table: TableRecord
    samples: tuple[tuple[object, ...], ...]

    def _brief(self) -> str:
        return self.table._brief()


@dataclass(frozen=True, repr=False)
class ResultsDescription(Brief):
    """A query with its latest answers.  ``first`` is the answer with ordinal 1, or None."""

    query: QueryRecord
    first: ResultRow | None
    samples: tuple[ResultRow, ...]

    def _brief(self) -> str:
        return f"results of {self.query._brief()}"


class Tabling(WeftMethods):
    """The methods of ``Weft`` that manage tables."""

    @requires(Right.READ)
    def tables(self) -> tuple[TableRecord, ...]:
        """Return the tables and views that the principal may read or load, in the order of their creation."""
        return self.opened.seen().tables()

    @requires(Right.READ)
    def discarded_tables(self) -> Collection[int]:
        """Return the IDs of the tables whose rows Weft deletes after its synopses have processed them."""
        from weft.catalog.discarded import discarded_tables

        return frozenset(discarded_tables(self.opened.catalog))

    @requires(Right.ADMIN)
    def attach_table(
        self,
        name: str,
        place: AnyPath,
        *,
        ts_from: str | None = None,
        late: Late = "stamp",
        future: str | int = "1d",
    ) -> TableRecord:
        """Attach the Delta table at ``place`` as the table ``name`` without copying its rows, and return its record.

        Another program may append to the Delta table and rewrite its files.  ``place`` is a path or an ``s3://`` URI.
        ``ts_from``, ``late`` and ``future`` have the same meaning as in ``append``.  Without ``ts_from``, the ``ts`` of
        a row is the time of the version that adds the row.  See ``extraction.sources.attaching`` for the errors.
        """
        from weft.extraction.sources.attaching import attach_table

        attach_table(self.opened, name, os.fspath(place), timing(ts_from, "own", late, future, False))
        return self.opened.catalog.tables.named(name)

    @requires(Right.ADMIN)
    def drop_table(self, name: str) -> TableRecord:
        """Drop a table with its rows, its loads and its quarantined records.  Return its record.

        Raises NotFound or LeaseBusy.  Raises Conflict if a standing query, a view or a source uses the table.
        """
        from weft.execution.undoing import drop_table

        return drop_table(self.opened, name)

    @requires(Right.ADMIN, logging=("old", "new"))
    def rename_table(self, old: str, new: str) -> TableRecord:
        """Rename a table.  Raise the same errors as ``drop_table``.  Raise Refused for an invalid name."""
        from weft.execution.undoing import rename_table

        return rename_table(self.opened, old, new)

    @requires(Right.READ, relation="table")
    def describe(self, table: str, samples: int = 3) -> Description | ResultsDescription:
        """Return a description of a table with at most ``samples`` rows of its newest files.

        For the table ``results.NAME``, return a description of the query ``NAME`` and its latest answers.  The method
        does not start Spark.  Raises NotFound or StorageError.
        """
        catalog = self.opened.catalog
        scheme, dot, name = table.partition(".")
        if dot and scheme.lower() == RESULTS:
            return self._describe_results(self.opened.seen().query(name), samples)
        from weft.storage.samples import sample_rows

        record = catalog.tables.named(table)
        return Description(record, tuple(sample_rows(catalog.data, record, samples)))

    def _describe_results(self, query: QueryRecord, samples: int) -> ResultsDescription:
        from weft.storage.ledger import read_rows

        catalog = self.opened.catalog
        with catalog.queries.purge_reported(query.query_id):
            first = next(read_rows(catalog.data, query, 0, 1), None)
            latest = read_rows(catalog.data, query, query.rows - samples, samples)
            return ResultsDescription(query, first, tuple(latest))
