"""The log of a tracked table, and the periods that it tells of.

A tracked table is stored as rows that are only ever added: the source's columns, ``valid_from``, ``valid_to`` (NULL:
open) and ``ts``, the instant of the change.  A row of the source that begins at s is (row, s, NULL, ts = s); when it
ends at e, (row, s, e, ts = e) is added.  So of each (row, ``valid_from``) the log row with the greatest ``ts`` is what
is so; one whose ``valid_to`` is its ``valid_from`` says that nothing is left of that period.  The log up to an instant
is what was known then.  No log row has a ``valid_to`` later than its ``ts``: an end is told when it has come.

Both log rows of a period have the same values in all columns but ``valid_to`` and ``ts``: whatever finds one by its
values finds the other.  So periods can be told from any part of the log that was found by other columns than these two.

Rows are Arrow tables; rows are equal as Spark's ``<=>`` has it: NULL is NULL, NaN is NaN, -0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO
from weft.storage.columns import INSTANT, conformed, stored_schema
from weft.storage.data_files import read_data_files
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import agreeing, connect, quoted

if TYPE_CHECKING:
    import duckdb

TS: Final = "ts"
_OF_LOG: Final = (VALID_FROM, VALID_TO, TS)


def values_of(log: TableSchema) -> tuple[str, ...]:
    """The columns of a tracked table that are the source's."""
    return tuple(column.name for column in log.columns if column.name not in _OF_LOG)


def periods(log: pa.Table) -> pa.Table:
    """What some rows of a log tell, all columns of them: the same columns but ``ts``, a row a period, in any order."""
    names = [name for name in log.column_names if name != TS]
    if not log.num_rows:
        return log.select(names)
    same = ", ".join(quoted(name) for name in names if name != VALID_TO)
    # An aggregate leaves out NULLs, and a period that is open ends in one.
    last = f"arg_max(struct_pack(at := {VALID_TO}), {TS}).at"
    text = f"SELECT {same}, {last} AS {VALID_TO} FROM log GROUP BY {same} HAVING {last} IS DISTINCT FROM {VALID_FROM}"
    with over(log=log) as connection:
        return conformed(connection.sql(text).to_arrow_table(), log.select(names).schema)


def known_at(log: pa.Table, instant: int) -> pa.Table:
    """The part of a log that was recorded up to an instant (microseconds UTC)."""
    return log.filter(pc.less_equal(log.column(TS), pa.scalar(instant, INSTANT)))


def read_log(files: Sequence[DataFile], log: TableSchema) -> pa.Table:
    """All of a tracked table's log; raises StorageError for a file that is missing or damaged."""
    return read_data_files(files, stored_schema(log))


def open_periods(log: pa.Table) -> pa.Table:
    """The periods that are open, without ``valid_to``."""
    found = periods(log)
    return found.filter(pc.is_null(found.column(VALID_TO))).drop_columns([VALID_TO])


def repeated_keys(rows: pa.Table, keys: Sequence[str], most: int = 3) -> list[tuple[tuple[object, ...], int]]:
    """Keys that more than one row has, at most ``most`` of them, and how many rows have each."""
    names = ", ".join(map(quoted, keys))
    text = f"SELECT {names}, count(*) FROM given GROUP BY {names} HAVING count(*) > 1 ORDER BY ALL LIMIT {most}"
    with over(given=rows) as connection:
        return [(tuple(row[:-1]), int(row[-1])) for row in connection.sql(text).fetchall()]


def difference(there: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What ended and what began: open periods whose row is not among ``rows``, and rows that no open period has.

    ``there`` has the columns of ``rows``, and ``valid_from``.
    """
    same = agreeing(rows.column_names, "a", "b")
    with over(there=there, given=rows) as connection:
        ended = connection.sql(f"SELECT a.* FROM there a ANTI JOIN given b ON {same}").to_arrow_table()
        begun = connection.sql(f"SELECT a.* FROM given a ANTI JOIN there b ON {same}").to_arrow_table()
    return conformed(ended, there.schema), conformed(begun, rows.schema)


def change_at(ended: pa.Table, begun: pa.Table, instant: int, log: TableSchema) -> pa.Table:
    """The log rows of what ended and began at one instant (microseconds UTC)."""
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
    """A DuckDB that sees these tables by name."""
    with connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        yield connection
