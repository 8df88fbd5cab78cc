"""The open rows of a tracked table, kept beside it: what a poll reads does not grow with the history.

A Parquet file a table, behind its checksum, on the driver's local disk; derived from the log, and may be deleted at any
time.  It names the log that it was made of by what the catalog counts of it (rows are only ever added, and their
instants rise), so one that is of another state, damaged or not there is made again from the log.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.access import follow_folder, make_folder
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.catalog import Writer, layout
from weft.catalog.records import TableRecord
from weft.execution.history_log import log_of
from weft.storage.columns import conformed, stored_schema
from weft.storage.periods import TS, open_periods

FEWEST: Final = 20_000
"""Log rows from which on the file is worth its while."""
_MARK: Final = b"weft.log"
_CHECKSUM: Final = 4
"""Bytes of the CRC-32 that the file begins with."""


def open_now(writer: Writer, table: TableRecord) -> pa.Table:
    """The open periods of the table, without ``valid_to``; raises StorageError for a damaged log."""
    kept = open_if_kept(writer.path, table)
    return open_periods(log_of(writer, table)) if kept is None else kept


def open_if_kept(home: Path, table: TableRecord) -> pa.Table | None:
    """The same, None where no file has them; for a home's folder."""
    return _kept(layout.present_folder(home) / f"{table.table_id}.parquet", table)


def keep(writer: Writer, table_id: int, before: pa.Table, added: pa.Table | None) -> None:
    """Keeps the open periods: those ``before`` log rows were added, and these (None: none were).

    What cannot be written is told by the log the next time.
    """
    table = writer.tables.by_id(table_id)
    if table.rows < FEWEST or added is None:
        return
    begins = before.append_column(VALID_TO, pa.nulls(before.num_rows, added.schema.field(VALID_TO).type))
    begins = conformed(begins.append_column(TS, before.column(VALID_FROM)), added.schema)
    found = open_periods(pa.concat_tables([begins, added]))
    file = _file(writer, table)
    new = file.with_suffix(".new")
    with suppress(OSError):
        make_folder(file.parent)
        marked = found.replace_schema_metadata({_MARK: _mark(table)})
        written = pa.BufferOutputStream()
        pq.write_table(marked, written, compression="zstd", compression_level=1)
        content = written.getvalue().to_pybytes()
        new.write_bytes(zlib.crc32(content).to_bytes(_CHECKSUM, "big") + content)
        follow_folder(new)
        new.replace(file)


def _file(writer: Writer, table: TableRecord) -> Path:
    return layout.present_folder(writer.path) / f"{table.table_id}.parquet"


def _mark(table: TableRecord) -> bytes:
    return f"{table.rows} {table.last_ts} {' '.join(str(column.id) for column in table.stored.columns)}".encode()


def _kept(file: Path, table: TableRecord) -> pa.Table | None:
    """What is kept of exactly this log; None where nothing is, or it is damaged."""
    if table.rows < FEWEST or not file.exists():
        return None
    try:
        content = file.read_bytes()
    except OSError:
        return None
    # A power cut may leave a file of no bytes, or of zeros, whose checksum would be right.
    checked = content[_CHECKSUM:]
    if not checked or zlib.crc32(checked) != int.from_bytes(content[:_CHECKSUM], "big"):
        return None
    found = pq.read_table(pa.BufferReader(content[_CHECKSUM:]))
    if (found.schema.metadata or {}).get(_MARK) != _mark(table):
        return None
    schema = stored_schema(table.stored)
    return conformed(
        found.replace_schema_metadata(None), pa.schema([f for f in schema if f.name not in (VALID_TO, TS)])
    )
