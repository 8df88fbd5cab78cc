"""Create tables to which people append rows, such as annotations (Tapestry, section 8).

The column ``_by`` records who appended each row.

An append collects its rows in one Arrow table. One commit then stores all rows or none. If the rows exceed a memory
limit, they are written to a file and memory-mapped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TIMESTAMP, DataType
from weft.catalog.records import BY, TableRecord
from weft.errors import Refused, StorageError
from weft.execution.append_rows import OWN_TIME, SEQ
from weft.execution.home import OpenHome
from weft.extraction.batches import DEFAULT_TIMING, Batch, RejectedRecord, Timing, arrow_schema
from weft.extraction.files.columns import TS
from weft.extraction.files.rows import rows_as_json
from weft.extraction.given_rows import Pieces, Reader
from weft.extraction.ingest import untracked
from weft.extraction.row_values import Columns, listed
from weft.extraction.storing import Summary, check_row_times, loading_lease, register_load, store_batches
from weft.instants import format_instant
from weft.printable import require_text
from weft.storage.columns import INSTANT
from weft.storage.local_sql import connect


def make_table(
    to: OpenHome, name: str, columns: Sequence[tuple[str, DataType]], keys: Sequence[str] = ()
) -> TableRecord:
    """Create a table with the given columns, ``ts`` and ``_by``.

    Raises Conflict if the name is taken, and Refused for invalid columns or keys.
    """
    with loading_lease(to, name) as writer:
        return writer.tables.create(name, columns, keys, authored=True)


def append_rows(
    to: OpenHome, name: str, read: Reader, user: str, source: str, timing: Timing = DEFAULT_TIMING
) -> Summary:
    """Append rows to a table. ``read`` returns the rows, and ``user`` is their author.

    ``timing.ts_from`` names the column with the event times: a column of the table, or an additional column ``ts``. On
    a wall-clock home, a row too far ahead of the clock is quarantined.

    Raises NotFound, LeaseBusy or StorageError. Raises Refused for an invalid row, a row without an event time, or a
    table that tracks a source. Raises ClockError on a replay home whose clock is not set.
    """
    require_text(user, "the user's name")
    table = untracked(to.catalog.tables.named(name))
    columns = [(c.name, c.type) for c in table.schema.columns if c.name != table.schema.start]
    row_columns = _with_own_time([each for each in columns if each[0] != BY], timing.ts_from)
    if timing.ts_from is None:
        check_row_times(to, table.name, table.keys, lambda: (), timing)
    schema = arrow_schema(columns)
    with spooled(_numbered(read(row_columns), schema, user, timing.ts_from, source), schema) as rows:
        batch = _batch(to, rows, timing, source)
        while True:
            watermark = check_row_times(to, table.name, table.keys, lambda: [batch], timing)
            with loading_lease(to, table.name) as writer:
                if watermark is not None and watermark != writer.reservations.effective_watermark():
                    continue  # a tick has run in the meantime
                record, options = writer.tables.named(name), _options(schema, timing)
                load = register_load(writer, to, record, source, "append", None, options, timing)
            return store_batches(load, [batch] if batch.read else [])


def _with_own_time(columns: Columns, ts_from: str | None) -> Columns:
    if ts_from is None:
        return columns
    kind = next((kind for name, kind in columns if name == ts_from), None)
    if kind is None and ts_from == TS:
        return [*columns, (TS, TIMESTAMP)]
    if kind is None or kind.name not in ("TIMESTAMP", "DATE"):
        raise Refused(
            f"the table has no column {ts_from!r} from which ts could be taken"
            if kind is None
            else f"{ts_from!r} is of type {kind} and has no instants",
            hint=(
                f"Use --ts-from with a TIMESTAMP or DATE column of the table, or with {TS}. If you use {TS}, give each "
                f"row a value {TS}; {TS} need not be a column of the table. {listed(columns)}"
            ),
        )
    return columns


def _numbered(pieces: Pieces, schema: pa.Schema, user: str, ts_from: str | None, source: str) -> Iterator[pa.Table]:
    before = 0
    for piece in pieces:
        count = piece.num_rows
        columns = {name: piece.column(name) for name in piece.column_names} | {
            BY: pa.repeat(pa.scalar(user), count),
            OWN_TIME: pa.nulls(count, pa.int64()) if ts_from is None else _own_times(piece, ts_from, source, before),
            SEQ: pa.array(range(before, before + count), pa.int64()),
        }
        yield pa.table([columns[name] for name in schema.names], schema=schema)
        before += count


def _own_times(piece: pa.Table, ts_from: str, source: str, before: int) -> pa.ChunkedArray:
    """Return the event time of each row, in microseconds UTC."""
    own = piece.column(ts_from)
    if own.null_count:
        row = before + pc.index(pc.is_null(own), True).as_py() + 1
        raise Refused(
            f"{ts_from} is empty: the row has no time of its own",
            where=f"{source}, row {row}",
            hint="Nothing was stored. Give every row a time, or append the rows without a time separately.",
        )
    return (own.cast(pa.timestamp("us")) if pa.types.is_date(own.type) else own).cast(pa.int64())


def _batch(to: OpenHome, rows: pa.Table, timing: Timing, source: str) -> Batch:
    """Return the rows as one batch. Rows too far ahead of a wall clock are rejected.

    The source name of a rejected record contains the time of the append. A repeated append adds new records.
    """
    if timing.ts_from is None:
        return Batch(rows, (), rows.num_rows)
    now = to.clock()
    ahead = pc.greater(rows.column(OWN_TIME), now + timing.future_us)
    if to.catalog.home().clock != "wall" or not pc.any(ahead).as_py():
        ahead = None
    named = f"{source}, appended {format_instant(now)}"
    reason = f"{timing.ts_from} is {timing.too_far}"
    rejected = () if ahead is None else _records(rows.filter(ahead), named, reason)
    good = rows if ahead is None else rows.filter(pc.invert(ahead))
    return Batch(good, rejected, rows.num_rows, _records(good, named, "") if timing.late == "quarantine" else ())


def _records(rows: pa.Table, source: str, reason: str) -> tuple[RejectedRecord, ...]:
    own = rows.column(OWN_TIME).cast(INSTANT)
    cells = rows.drop_columns([OWN_TIME, SEQ]).append_column(OWN_TIME, own)
    with connect() as connection:
        records = rows_as_json(cells, range(rows.num_rows), connection)
    places = rows.column(SEQ).to_pylist()
    return tuple(
        RejectedRecord(source, f"row {place + 1}", reason, raw) for place, raw in zip(places, records, strict=True)
    )


def _options(schema: pa.Schema, timing: Timing) -> dict[str, object]:
    """Return the options for a retry. Rejected records are stored as JSON."""
    names = [name for name in schema.names if name != SEQ]
    own = {"own_time": None if timing.ts_from is None else OWN_TIME, "form": None}
    return {"kind": "file", "format": "parquet", "names": names, "dialect": [",", '"', None], **own, **timing.options()}


IN_MEMORY: Final = 64 << 20
"""The maximum size of the rows in memory, in bytes."""


@contextmanager
def spooled(pieces: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of all pieces as one table, which is valid only inside the ``with`` block.

    Raise StorageError if the folder for temporary files is full.
    """
    held: list[pa.Table] = []
    size = 0
    rest = iter(pieces)
    for piece in rest:
        held.append(piece)
        size += piece.nbytes
        if size > IN_MEMORY:
            break
    if size <= IN_MEMORY:
        yield pa.concat_tables([schema.empty_table(), *held])
        return
    with tempfile.NamedTemporaryFile(prefix="weft-rows-", suffix=".arrow") as file:
        _write_all(file.name, chain(_drained(held), rest), schema)
        with pa.memory_map(file.name) as mapped:
            yield pa.ipc.open_file(mapped).read_all()


def _drained(held: list[pa.Table]) -> Iterator[pa.Table]:
    while held:
        yield held.pop(0)


def _write_all(name: str, pieces: Iterable[pa.Table], schema: pa.Schema) -> None:
    with _storage_errors(name):
        sink = pa.OSFile(name, "wb")
        writer = pa.ipc.new_file(sink, schema)
    for piece in pieces:
        with _storage_errors(name):
            _write(writer, piece)
    with _storage_errors(name):
        writer.close()
        sink.close()


def _write(writer: pa.RecordBatchFileWriter, piece: pa.Table) -> None:
    writer.write_table(piece)


@contextmanager
def _storage_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows cannot be written to a temporary file: {error.strerror or error}",
            where=name,
            hint="Nothing was stored. Free some space in that folder, or set TMPDIR to another folder.",
        ) from error
