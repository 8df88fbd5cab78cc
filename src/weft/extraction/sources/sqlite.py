"""Read a table of an SQLite database completely, in one read-only transaction, with Python's sqlite3.

SQLite assigns types to values rather than columns. The type of a column is therefore inferred from its values, as for
JSON lines. A column that contains only blobs is BINARY.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from weft.algebra.schema import BINARY, STRING, DataType, TableSchema
from weft.errors import ExtractionError, Refused
from weft.extraction.batches import Progress, printable
from weft.extraction.files.columns import check_names, chosen_of
from weft.extraction.files.csv_sniff import infer_json
from weft.extraction.files.text_records import TextRecord
from weft.extraction.sources.snapshot import Chosen, Columns, Mark, Snapshot, added_columns, rows_of
from weft.storage.local_sql import connect, quoted


def columns_of_sqlite(path: Path, table: str | None, chosen: Chosen) -> tuple[str, Columns]:
    """Return the name and the columns of the table. If ``table`` is None, the database must have only one table.

    Raises NotFound if the file does not exist, ExtractionError if it cannot be read, or Refused if the database has no
    such table or columns.
    """
    with _reading(path) as connection:
        name = _table(connection, table, path)
        return name, _columns(connection, name, chosen, path)


def read_sqlite(
    path: Path,
    table: str,
    schema: TableSchema,
    chosen: Chosen,
    *,
    evolve: bool = False,
    progress: Progress | None = None,
) -> Snapshot:
    """Read all rows of the table. ``schema`` has only the columns of the source, with their types.

    Raise ExtractionError if the table cannot be read completely, and Refused if its columns do not match ``schema``.
    """
    where = printable(str(path))
    with _reading(path) as connection:
        name = _table(connection, table, path)
        columns_there: Sequence[tuple[str, DataType]] = [(each, STRING) for each in _names(connection, name)]
        if evolve:
            columns_there = _columns(connection, name, chosen, path)
        elif chosen is not None:
            columns_there = chosen_of(columns_there, chosen, where)
        added = added_columns(columns_there, schema, evolve, where)
        columns = (*((column.name, column.type) for column in schema.columns), *added)
        rows = rows_of(_records(connection, name), columns, where, progress)
        return Snapshot(rows, columns, added, _changed_at(path), {})


def _changed_at(path: Path) -> int:
    """Return the time of the last write to the database or its write-ahead log, in microseconds UTC."""
    beside = path.with_name(path.name + "-wal")
    return max(Mark.of(each).modified_ns for each in (path, beside) if each == path or each.exists()) // 1_000


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    Mark.of(path)
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise ExtractionError(f"cannot be read: {printable(str(path))} ({error})") from None


def _table(connection: sqlite3.Connection, wanted: str | None, path: Path) -> str:
    listed = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    names = [str(name) for (name,) in connection.execute(f"{listed} ORDER BY name")]
    matches = names if wanted is None else [name for name in names if name.lower() == wanted.lower()]
    if len(matches) != 1:
        shown = ", ".join(names[:12]) or "none"
        problem = f"the database has {len(names)} tables" if wanted is None else f"the table {wanted!r} does not exist"
        raise Refused(problem, where=printable(str(path)), hint=f"Name a table with --table: {shown}.")
    return matches[0]


def _names(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(each[0]) for each in connection.execute(f"SELECT * FROM {quoted(table)} LIMIT 0").description]


def _columns(connection: sqlite3.Connection, table: str, chosen: Chosen, path: Path) -> Columns:
    names, where = _names(connection, table), printable(str(path))
    check_names(names, where)
    columns = []
    with connect() as local:
        types = infer_json(_records(connection, table), where, local)
    for name in names:
        of_values = f"SELECT DISTINCT typeof({quoted(name)}) FROM {quoted(table)} WHERE {quoted(name)} IS NOT NULL"
        blobs = [kind for (kind,) in connection.execute(of_values)] == ["blob"]
        columns.append((name, BINARY if blobs else types.get(name, STRING)))
    return tuple(columns if chosen is None else chosen_of(columns, chosen, where))


def _records(connection: sqlite3.Connection, table: str) -> Iterator[TextRecord]:
    cursor = connection.execute(f"SELECT * FROM {quoted(table)}")
    names = [str(each[0]) for each in cursor.description]
    for number, row in enumerate(cursor, 1):
        cells = [_cell(value) for value in row]
        kinds: Mapping[str, str] = {n: kind for n, (_, kind) in zip(names, cells, strict=True) if kind is not None}
        yield TextRecord(number, b"", {n: text for n, (text, _) in zip(names, cells, strict=True)}, None, dict(kinds))


def _cell(value: object) -> tuple[str | None, str | None]:
    if value is None:
        return None, None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii"), "string"
    return (value, "string") if isinstance(value, str) else (repr(value), "number")
