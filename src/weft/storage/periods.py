"""Read and write the history log of a tracked table, and compute periods from the log.

The log is append-only. The log has the columns of the source, plus ``valid_from``, ``valid_to`` (NULL: open) and
``ts``, the instant of the change. If a source row starts at s, Weft appends (row, s, NULL, ts = s). If the row ends at
e, Weft appends (row, s, e, ts = e). The current state of each (row, ``valid_from``) is its log row with the greatest
``ts``. A period is empty if its ``valid_to`` equals its ``valid_from``. The part of the log up to an instant shows what
was known at that instant. Weft records the end of a period only after the end has passed. A log row's ``valid_to`` is
therefore never later than its ``ts``.

The log rows of a period differ only in ``valid_to`` and ``ts``. If log rows are selected by other columns, the
selection contains either all log rows of a period or none. Periods can therefore be computed from the selection.

Rows are Arrow tables and are compared like Spark's ``<=>``: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.storage.columns import INSTANT, conformed, stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import columns_equal, connect, quoted

if TYPE_CHECKING:
    import duckdb

TS: Final = "ts"
_OF_LOG: Final = (VALID_FROM, VALID_TO, TS)


def values_of(log: TableSchema) -> tuple[str, ...]:
    """Return the names of the columns that come from the source."""
    return tuple(column.name for column in log.columns if column.name not in _OF_LOG)


def periods(log: pa.Table) -> pa.Table:
    """Return the periods in any part of a history log. The columns are those of the log except ``ts``."""
    names = [name for name in log.column_names if name != TS]
    if not log.num_rows:
        return log.select(names)
    same = ", ".join(quoted(name) for name in names if name != VALID_TO)
    # The end of an open period is NULL, and arg_max skips NULL. A struct with a NULL is not skipped.
    last = f"arg_max(struct_pack(at := {VALID_TO}), {TS}).at"
    text = f"SELECT {same}, {last} AS {VALID_TO} FROM log GROUP BY {same} HAVING {last} IS DISTINCT FROM {VALID_FROM}"
    with over(log=log) as connection:
        return conformed(connection.sql(text).to_arrow_table(), log.select(names).schema)


def known_at(log: pa.Table, instant: int) -> pa.Table:
    """Return the log rows that were recorded up to ``instant`` (µs UTC)."""
    return log.filter(pc.less_equal(log.column(TS), pa.scalar(instant, INSTANT)))


def read_log(files: Sequence[DataFile], log: TableSchema) -> pa.Table:
    """Read the history log of a tracked table. Raise StorageError if a file is missing or damaged."""
    return read_data_files(files, stored_schema(log))


def periods_at(files: Sequence[DataFile], log: TableSchema, at: int | None, known: int | None = None) -> pa.Table:
    """Return the periods that contain the instant ``at`` (None: the open ones), as recorded up to ``known`` (µs UTC).

    Only rows of periods that begin up to ``at`` are read: row groups without such rows are skipped. Raise StorageError.
    """
    instant = None if at is None else pa.scalar(at, INSTANT)
    limits = [] if instant is None else [pc.field(VALID_FROM) <= instant]
    limits += [] if known is None else [pc.field(TS) <= pa.scalar(known, INSTANT)]
    found = periods(read_data_files(files, stored_schema(log), reduce(and_, limits) if limits else None))
    end = found.column(VALID_TO)
    open_ = pc.is_null(end)
    return found.filter(open_ if instant is None else pc.or_kleene(open_, pc.greater(end, instant)))


def open_periods(log: pa.Table) -> pa.Table:
    """Return the open periods in a history log, without the column ``valid_to``."""
    all_periods = periods(log)
    return all_periods.filter(pc.is_null(all_periods.column(VALID_TO))).drop_columns([VALID_TO])


def repeated_keys(rows: pa.Table, keys: Sequence[str], most: int = 3) -> list[tuple[tuple[object, ...], int]]:
    """Return at most ``most`` duplicate keys, each with its number of rows."""
    names = ", ".join(map(quoted, keys))
    text = f"SELECT {names}, count(*) FROM given GROUP BY {names} HAVING count(*) > 1 ORDER BY ALL LIMIT {most}"
    with over(given=rows) as connection:
        return [(tuple(row[:-1]), int(row[-1])) for row in connection.execute(text).fetchall()]


def difference(there: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the open periods whose row is not in ``rows``, and the ``rows`` without an open period.

    ``there`` contains the open periods, with ``valid_from`` and the columns of ``rows``.
    """
    same = columns_equal(rows.column_names, "a", "b")
    with over(there=there, given=rows) as connection:
        ended = connection.sql(f"SELECT a.* FROM there a ANTI JOIN given b ON {same}").to_arrow_table()
        begun = connection.sql(f"SELECT a.* FROM given a ANTI JOIN there b ON {same}").to_arrow_table()
    return conformed(ended, there.schema), conformed(begun, rows.schema)


def change_at(ended: pa.Table, begun: pa.Table, instant: int, log: TableSchema) -> pa.Table:
    """Return the log rows that end the periods in ``ended`` and start the rows in ``begun`` at ``instant`` (µs UTC)."""
    schema = stored_schema(log)
    ends = _with_instants(ended, {VALID_TO: instant, TS: instant})
    begins = _with_instants(begun, {VALID_FROM: instant, TS: instant})
    return pa.concat_tables([conformed(ends, schema), conformed(begins, schema)])


def _with_instants(rows: pa.Table, instants: dict[str, int]) -> pa.Table:
    for name, micros in instants.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(micros, INSTANT), rows.num_rows))
    return rows


@contextmanager
def over(**tables: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB connection in which the tables are registered under their names."""
    with connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        yield connection
