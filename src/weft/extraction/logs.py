"""Load a log of temporal logic: one table for each predicate, and one for all time points, including empty ones.

The column ``tp`` of a predicate's table is the number of the time point. The numbering of time points continues from
one log to the next. Time points are stored last. The rows of a time point are therefore stored before a tick reads it.

If a load dies, repeat it before loading another log. The tables identify the log by its digest. The repeated load
continues where the first load stopped.

The whole log is read before the first row is stored. A log with an error therefore changes no table. A log mixes the
rows of all predicates. To limit memory, the rows of each table are first written to a temporary Arrow file.

Formulas, signatures and logs are plain files or files compressed with gzip (``.gz``).
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final, TextIO, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import BIGINT, TIMESTAMP, DataType
from weft.catalog import Writer
from weft.catalog.naming import folded
from weft.catalog.records import TableRecord
from weft.errors import Conflict, FormulaError, NotFound, Refused
from weft.execution.append_rows import OWN_TIME, SEQ
from weft.execution.home import OpenHome
from weft.extraction.batches import MAX_BYTES, MAX_LINE, MAX_ROWS, Batch, Progress, Timing, arrow_schema, printable
from weft.extraction.byte_streams import long_line
from weft.extraction.files.probe import InputFile, unreadable
from weft.extraction.files.source import digest
from weft.extraction.ingest import existing
from weft.extraction.paths import copied, kind_of_path, opened
from weft.extraction.storing import Load, Summary, loading_lease, register_load, store_batches
from weft.formula.monpoly_log import time_points
from weft.formula.signature import Predicate, Signature, signature
from weft.instants import FIRST_INSTANT, LAST_INSTANT, SECOND_US
from weft.planning.synopsis_plan import AT, TIME_POINTS, TP

Columns: TypeAlias = "tuple[tuple[str, DataType], ...]"
_POINTS: Final[Columns] = ((TP, BIGINT), (AT, TIMESTAMP))
_KIND: Final = "monpoly"
_TIMING: Final = Timing(ts_from=AT, hold=True)
"""The ``ts`` of a row is the time of its time point. ``hold`` prevents a tick until the time points are stored."""


@dataclass(frozen=True)
class _Log:
    path: Path
    known: Signature
    rows: Mapping[str, LogRows]
    points: LogRows


@dataclass(frozen=True)
class _Begun:
    """The registered loads of a log: ``points`` for its time points, and one load for each predicate.

    ``first`` is the number of the first time point of the log.
    """

    points: Load
    predicates: dict[str, Load]
    first: int


def ingest_log(to: OpenHome, log: Path, known: Path, *, progress: Progress | None = None) -> tuple[Summary, ...]:
    """Load a log in MonPoly's format with its signature. Return one summary per table, with the time points last.

    Raises FormulaError with the line of a syntax error. Raises Refused if a table has other columns, or if a time is
    ahead of a wall clock. Raises Conflict while another log is partly loaded. Raises NotFound, ExtractionError,
    LeaseBusy or StorageError.
    """
    with in_file(known):
        predicates = signature(text_of(known))
    with _readable(log) as file:
        return _ingested(to, log, file, predicates, progress)


@contextmanager
def _readable(log: Path) -> Iterator[Path]:
    """Yield the path of a file that contains the log and can be read repeatedly."""
    try:
        kind_of_path(log)
    except OSError as error:
        raise unreadable(InputFile.of(log), error) from None
    with copied([log]) as copies:
        yield copies.get(log, log)


def _ingested(
    to: OpenHome, log: Path, file: Path, predicates: Signature, progress: Progress | None
) -> tuple[Summary, ...]:
    sha256 = digest(file)
    points = existing(to.catalog, TIME_POINTS)
    if points is not None and to.catalog.loads.loaded(points.table_id, sha256):
        return (Summary(points.name, known=_loaded(to, points, sha256), already_loaded=True),)
    with TemporaryDirectory(prefix="weft-log-") as folder:
        read = _read(to, log, file, predicates, Path(folder))
        begun = _begin(to, read, sha256)
        try:
            done = [
                store_batches(load, read.rows[name].batches(begun.first), progress)
                for name, load in begun.predicates.items()
            ]
            return (*done, store_batches(begun.points, read.points.batches(begun.first), progress))
        finally:
            for load in (*begun.predicates.values(), begun.points):
                to.catalog.loads.deactivate(load.load_id)


def _loaded(to: OpenHome, points: TableRecord, sha256: str) -> int:
    before = to.catalog.loads.of_source(points.table_id, sha256)
    return next(load.stored + load.known for load in before if load.finished_at is not None)


def _read(to: OpenHome, path: Path, file: Path, known: Signature, folder: Path) -> _Log:
    latest = to.clock() + _TIMING.future_us if to.catalog.home().clock == "wall" else LAST_INSTANT
    rows = {
        name: LogRows(folder / str(number), _columns(predicate), TP)
        for number, (name, predicate) in enumerate(known.items())
    }
    points = LogRows(folder / TIME_POINTS, _POINTS, TP)
    with opened_text(file) as stream:
        for point in time_points(stream, known, str(path)):
            if not FIRST_INSTANT <= point.at <= latest:
                far = _TIMING.too_far if latest < point.at <= LAST_INSTANT else "not within the years 1 to 9999"
                raise Refused(
                    f"time point {point.number} is at {point.at // SECOND_US} seconds since 1970, {far}",
                    hint=(
                        "Nothing was stored. Load the log into a replay home, which accepts future times: "
                        "weft init --clock replay."
                    ),
                    where=str(path),
                )
            points.add((point.number, point.at), point.at)
            for name, values_of_rows in point.rows.items():
                for values in values_of_rows:
                    rows[name].add((*values, point.number), point.at)
    for each in (*rows.values(), points):
        each.end()
    return _Log(path, known, rows, points)


def _begin(to: OpenHome, log: _Log, sha256: str) -> _Begun:
    tables = {name: _columns(predicate) for name, predicate in log.known.items()}
    _require_apart(tables)
    for name, columns in {TIME_POINTS: _POINTS, **tables}.items():
        to.catalog.tables.check(name, columns)  # before any table is created
        _require_same(existing(to.catalog, name), columns)
    source = printable(str(log.path.absolute()))
    with loading_lease(to, TIME_POINTS) as writer:
        points = _table(writer, TIME_POINTS, _POINTS)
        other = next((load for load in writer.loads.unfinished(points.table_id) if load.digest != sha256), None)
        if other is not None:
            raise Conflict(
                f"another log, {other.source}, is partly loaded, and its time points would get the same numbers",
                hint="Finish the other load first: repeat its `weft ingest monpoly`.",
            )

        def begin(table: TableRecord) -> Load:
            return register_load(writer, to, table, source, _KIND, sha256, {"kind": _KIND}, _TIMING)

        own = begin(points)
        loads: dict[str, Load] = {}
        for name, columns in tables.items():
            table = _table(writer, name, columns)
            if log.rows[name].rows and not writer.loads.loaded(table.table_id, sha256):
                loads[name] = begin(table)
        return _Begun(own, loads, points.rows - (own.already or 0))


def _table(writer: Writer, name: str, columns: Columns) -> TableRecord:
    table = existing(writer, name)
    _require_same(table, columns)
    return table or writer.tables.create(name, columns)


def _columns(predicate: Predicate) -> Columns:
    """Return the columns of a predicate's table. A column name that is taken is replaced by ``x`` and a number."""
    taken = {"ts", TP}
    columns = []
    for number, (name, type_) in enumerate(zip(predicate.columns, predicate.types, strict=True), 1):
        own = name if folded(name) not in taken else f"x{number}"
        taken.add(folded(own))
        columns.append((own, type_))
    return (*columns, (TP, BIGINT))


def _require_apart(names: Iterable[str]) -> None:
    seen = {TIME_POINTS: TIME_POINTS}
    for name in names:
        if folded(name) in seen:
            raise Refused(
                f"{name} and {seen[folded(name)]} would be the same table: the comparison of table names ignores case",
                hint="Rename one of the two predicates in the signature, the log and the formulas.",
            )
        seen[folded(name)] = name


def _require_same(table: TableRecord | None, columns: Columns) -> None:
    if table is None:
        return
    there = tuple((each.name, each.type) for each in table.schema.columns if each.name != table.schema.start)
    if there != columns or table.keys:
        shown = ", ".join(f"{name} {type_}" for name, type_ in there)
        wanted = ", ".join(f"{name} {type_}" for name, type_ in columns)
        raise Refused(
            f"the table {table.name} has the columns {shown}, but the log has {wanted}",
            hint="Nothing was stored. Load the log into another home, or rename the predicate.",
        )


@dataclass
class LogRows:
    """The rows of one table, written to the file ``path``. ``rows`` is the number of rows.

    ``number`` is the name of the column with the numbers of the time points.
    """

    path: Path
    columns: Sequence[tuple[str, DataType]]
    number: str
    rows: int = 0
    _values: list[Sequence[object]] = field(default_factory=list)
    _times: list[int] = field(default_factory=list)
    _held: int = 0
    _writer: pa.RecordBatchStreamWriter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return arrow_schema(self.columns)

    def add(self, values: Sequence[object], at: int) -> None:
        """Add a row with the time ``at``, in microseconds UTC. The first time point of the log has the number 0."""
        self._values.append(values)
        self._times.append(at)
        self._held += sum(len(each) for each in values if isinstance(each, str))
        if len(self._values) >= MAX_ROWS or self._held >= MAX_BYTES:
            self._write()

    def end(self) -> None:
        """Write the buffered rows and close the file."""
        self._write()
        if self._writer is not None:
            self._writer.close()

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the rows in order. ``first`` becomes the number of the log's first time point."""
        if not self.rows:
            return
        place = self.schema.names.index(self.number)
        with pa.ipc.open_stream(self.path) as stream:
            for each in stream:
                rows = pa.Table.from_batches([each])
                numbers = pc.add(rows.column(place), pa.scalar(first, pa.int64()))
                yield Batch(rows.set_column(place, self.schema.field(place), numbers), (), rows.num_rows)

    def _write(self) -> None:
        if not self._values:
            return
        columns = dict(zip((name for name, _ in self.columns), zip(*self._values, strict=True), strict=True))
        last = self.rows + len(self._values)
        values = {**columns, OWN_TIME: self._times, SEQ: range(self.rows, last)}
        arrays = [pa.array(values[field.name], field.type) for field in self.schema]
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self.path, self.schema)
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows, self._values, self._times, self._held = last, [], [], 0


STDIN = "-"
_MOST_TEXT = 16 << 20
"""The maximum length of a formula or a signature, in characters."""


def text_of(path: Path) -> str:
    """Return the text of a file. Raises NotFound, and Refused if the file cannot be read."""
    with opened_text(path) as stream:
        text = stream.read(_MOST_TEXT + 1)
    if len(text) > _MOST_TEXT:
        raise Refused(f"the file has more than {_MOST_TEXT >> 20} MiB of text", where=str(path))
    return text


def lines_of(stream: TextIO, where: str) -> Iterator[str]:
    """Yield the lines of a text. Raise FormulaError for a line of more than ``MAX_LINE`` characters."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise FormulaError(f"{where}: {long_line()}", where=f"line {number}")
        yield line


@contextmanager
def in_file(path: Path) -> Iterator[None]:
    """Add the path of the file to a FormulaError that is raised inside the ``with`` block."""
    try:
        yield
    except FormulaError as error:
        place = f"{path}, {error.where}" if error.where else str(path)
        raise FormulaError(error.message, hint=error.hint, where=place, excerpt=error.excerpt) from None


@contextmanager
def opened_text(path: Path) -> Iterator[TextIO]:
    """Open a file or stdin for reading. Raises NotFound, and Refused if opening or reading fails."""
    try:
        with _opened(path) as stream:
            yield stream
    except UnicodeDecodeError:
        raise Refused("the file is not UTF-8 text", where=str(path)) from None
    except gzip.BadGzipFile:
        raise Refused("the file is not compressed with gzip, although its name ends in .gz", where=str(path)) from None
    except (EOFError, zlib.error):
        raise Refused("the compressed file is damaged or truncated", where=str(path)) from None


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if str(path) == STDIN:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8", errors="strict")
        yield sys.stdin
        return
    try:
        packed = path.suffix == ".gz"
        raw = opened(path, streams=True)
        stream: TextIO = _unpacked(raw) if packed else io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")
    except FileNotFoundError:
        raise NotFound("the file does not exist", where=str(path)) from None
    except OSError as error:
        raise Refused(f"the file cannot be read: {error.strerror}", where=str(path)) from None
    with stream:
        yield stream


def _unpacked(raw: io.FileIO) -> TextIO:
    return io.TextIOWrapper(cast(BinaryIO, gzip.open(raw)), encoding="utf-8")
