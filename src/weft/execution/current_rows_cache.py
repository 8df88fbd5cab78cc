"""Cache the open rows of a tracked table, because a poll should not read the whole history.

The cache of a table is one Parquet file with a checksum on the driver's local disk. The file may be deleted at any
time. The file records the row count and the last instant of the log. The row count and the last instant identify a
state of the log, because the log only grows and the recorded instants never decrease. If the file is missing, damaged
or outdated, the cache is built again from the log.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from weft.access import follow_folder, make_folder
from weft.algebra.schema import VALID_FROM, VALID_TO
from weft.catalog import Writer, layout
from weft.catalog.records import TableRecord
from weft.execution.history_log import log_of
from weft.storage.columns import conformed, stored_schema
from weft.storage.periods import TS, open_periods

FEWEST: Final = 20_000
"""The least number of log rows for which a table has a cache."""
_MARK: Final = b"weft.log"
_CHECKSUM: Final = 4
"""Length of the CRC-32 at the start of the file, in bytes."""


def current_rows(writer: Writer, table: TableRecord) -> pa.Table:
    """Return the table's open periods, without ``valid_to``. Raise StorageError if the log is damaged."""
    cached = cached_open_rows(writer.path, table)
    return open_periods(log_of(writer, table)) if cached is None else cached


def cached_open_rows(home: Path, table: TableRecord) -> pa.Table | None:
    """Return the cached open periods of a table, or None. ``home`` is the home's folder."""
    return _cached(layout.present_folder(home) / f"{table.table_id}.parquet", table)


def update_cache(writer: Writer, table_id: int, before: pa.Table, added: pa.Table | None) -> None:
    """Apply the log rows in ``added`` to the open periods in ``before``, and cache the result.

    If ``added`` is None, change nothing. If the file cannot be written, later reads use the log.
    """
    table = writer.tables.by_id(table_id)
    if table.rows < FEWEST or added is None:
        return
    begins = before.append_column(VALID_TO, pa.nulls(before.num_rows, added.schema.field(VALID_TO).type))
    begins = conformed(begins.append_column(TS, before.column(VALID_FROM)), added.schema)
    rows = open_periods(pa.concat_tables([begins, added]))
    file = _file(writer, table)
    new = file.with_suffix(".new")
    with suppress(OSError):
        make_folder(file.parent)
        marked = rows.replace_schema_metadata({_MARK: _mark(table)})
        written = pa.BufferOutputStream()
        pq.write_table(marked, written, compression="zstd", compression_level=1)
        content = written.getvalue().to_pybytes()
        new.write_bytes(zlib.crc32(content).to_bytes(_CHECKSUM, "big") + content)
        follow_folder(new)
        new.replace(file)


def remove_dropped(writer: Writer) -> None:
    """Delete the caches of tables and views that no longer exist."""
    known = {_file(writer, table) for table in writer.tables.all()}
    for file in {*layout.present_folder(writer.path).glob("*.parquet")} - known:
        with suppress(OSError):
            file.unlink()


def _file(writer: Writer, table: TableRecord) -> Path:
    return layout.present_folder(writer.path) / f"{table.table_id}.parquet"


def _mark(table: TableRecord) -> bytes:
    return f"{table.rows} {table.last_ts} {' '.join(str(column.id) for column in table.stored.columns)}".encode()


def _cached(file: Path, table: TableRecord) -> pa.Table | None:
    if table.rows < FEWEST or not file.exists():
        return None
    try:
        content = file.read_bytes()
    except OSError:
        return None
    # After a power failure the file may be empty or contain only zeros. The checksum would match such content.
    checked = content[_CHECKSUM:]
    if not checked or zlib.crc32(checked) != int.from_bytes(content[:_CHECKSUM], "big"):
        return None
    rows = pq.read_table(pa.BufferReader(content[_CHECKSUM:]))
    if (rows.schema.metadata or {}).get(_MARK) != _mark(table):
        return None
    schema = stored_schema(table.stored)
    return conformed(rows.replace_schema_metadata(None), pa.schema([f for f in schema if f.name not in (VALID_TO, TS)]))
