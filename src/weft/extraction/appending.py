"""Tables that people make and append to, annotations for example (Tapestry, section 8): rows, all or none of them.

Who appended is recorded with each row, in the column ``_by`` of a table that was made to be appended to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TIMESTAMP, DataType
from weft.catalog.records import BY, TableRecord
from weft.errors import Refused
from weft.execution.append_rows import OWN_TIME, SEQ
from weft.execution.home import Home
from weft.extraction.batches import Batch, Rejected, arrow_schema
from weft.extraction.files.columns import TS
from weft.extraction.files.rows import rows_as_json
from weft.extraction.given_rows import Pieces, Reader
from weft.extraction.ingest import untracked
from weft.extraction.row_values import Columns, listed
from weft.extraction.spooling import spooled
from weft.extraction.storing import Summary, beginning, looked_through, registered, store_batches
from weft.extraction.timing import DEFAULT_TIMING, Timing
from weft.instants import format_instant
from weft.printable import require_text
from weft.storage.columns import INSTANT
from weft.storage.local_sql import connect


def make_table(to: Home, name: str, columns: Sequence[tuple[str, DataType]], keys: Sequence[str] = ()) -> TableRecord:
    """Makes a table with these columns, ``ts`` and ``_by``; raises Conflict for a name that is taken, Refused."""
    with beginning(to, name) as writer:
        return writer.tables.create(name, columns, keys, authored=True)


def append_rows(to: Home, name: str, read: Reader, user: str, source: str, timing: Timing = DEFAULT_TIMING) -> Summary:
    """Appends what ``read`` gives to the table in the name of ``user``, with the times that ``timing`` says.

    All rows are one commit: a crash at any point leaves all of them or none.  ``timing.ts_from`` is ``ts``, which the
    rows have then beside the table's columns, or a column of the table.  As in other loads, a row too far ahead of a
    wall home's clock goes to quarantine, and a late one is treated as ``timing.late`` says.  Raises NotFound, Refused
    where a row is wrong or has no time of its own, and for a table that tracks a source; ClockError on a replay home
    without a clock; LeaseBusy, StorageError.  Nothing is stored then.
    """
    require_text(user, "the user's name")
    table = untracked(to.catalog.tables.named(name))
    columns = [(c.name, c.type) for c in table.schema.columns if c.name != table.schema.start]
    given = _with_own_time([each for each in columns if each[0] != BY], timing.ts_from)
    if timing.ts_from is None:
        looked_through(to, table.name, table.keys, lambda: (), timing)
    schema = arrow_schema(columns)
    with spooled(_numbered(read(given), schema, user, timing.ts_from, source), schema) as rows:
        batch = _batch(to, rows, timing, source)
        while True:
            watermark = looked_through(to, table.name, table.keys, lambda: [batch], timing)
            with beginning(to, table.name) as writer:
                if watermark is not None and watermark != writer.reservations.effective_watermark():
                    continue  # a tick has gone on meanwhile
                found, options = writer.tables.named(name), _options(schema, timing)
                load = registered(writer, to, found, source, "append", None, options, timing)
            return store_batches(load, [batch] if batch.read else [])


def _with_own_time(columns: Columns, ts_from: str | None) -> Columns:
    """The columns that rows are read by; raises Refused for a ``ts_from`` that is no column of instants."""
    if ts_from is None:
        return columns
    kind = next((kind for name, kind in columns if name == ts_from), None)
    if kind is None and ts_from == TS:
        return [*columns, (TS, TIMESTAMP)]
    if kind is None or kind.name not in ("TIMESTAMP", "DATE"):
        raise Refused(
            f"there is no column {ts_from!r} to take ts from"
            if kind is None
            else f"{ts_from!r} is {kind}, not an instant",
            hint=f"Take it from {TS}, a value that rows have beside the table's columns, or from a column of the table "
            f"that is a TIMESTAMP or a DATE. {listed(columns)}",
        )
    return columns


def _numbered(pieces: Pieces, schema: pa.Schema, user: str, ts_from: str | None, source: str) -> Iterator[pa.Table]:
    """The pieces as a batch has its rows: in the columns of ``schema``, with who appended them, their times, and their
    places."""
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
    """The times in µs UTC; raises Refused where a row has none."""
    own = piece.column(ts_from)
    if own.null_count:
        row = before + pc.index(pc.is_null(own), True).as_py() + 1
        raise Refused(
            f"{ts_from} is empty: the row has no time of its own",
            where=f"{source}, row {row}",
            hint="Nothing was stored. Give every row its time, or append those without one by themselves.",
        )
    return (own.cast(pa.timestamp("us")) if pa.types.is_date(own.type) else own).cast(pa.int64())


def _batch(to: Home, rows: pa.Table, timing: Timing, source: str) -> Batch:
    """The rows as one batch: those too far ahead of a wall home's clock rejected, with origins where late ones may be.

    A record is kept as its JSON, and named by the instant of the append too: appending it again is another row.
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


def _records(rows: pa.Table, source: str, reason: str) -> tuple[Rejected, ...]:
    own = rows.column(OWN_TIME).cast(INSTANT)
    cells = rows.drop_columns([OWN_TIME, SEQ]).append_column(OWN_TIME, own)
    with connect() as connection:
        kept = rows_as_json(cells, range(rows.num_rows), connection)
    places = rows.column(SEQ).to_pylist()
    return tuple(Rejected(source, f"row {place + 1}", reason, raw) for place, raw in zip(places, kept, strict=True))


def _options(schema: pa.Schema, timing: Timing) -> dict[str, object]:
    """What a retry needs to read a record that was set aside, as of a Parquet file, whose records are JSON too."""
    names = [name for name in schema.names if name != SEQ]
    own = {"own_time": None if timing.ts_from is None else OWN_TIME, "form": None}
    return {"kind": "file", "format": "parquet", "names": names, "dialect": [",", '"', None], **own, **timing.options()}
