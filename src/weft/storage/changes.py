"""Convert changes of a source into rows for the history log of its tracked table.

Changes are an Arrow table with the columns of the source and three more columns. ``_op`` is the operation. The
operation ``D`` ends the row with the key, and ``T`` ends all rows (see ``without_truncations``). Any other value of
``_op`` inserts or replaces the row. ``_own`` is the time of the change at the source (µs UTC, or NULL). Changes with
the same ``_own`` are one transaction. ``_order`` is the position in the feed and is unique for each key. Two NULL keys
are equal, as in ``storage.periods``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra.schema import VALID_FROM, VALID_TO, TableSchema
from weft.storage.columns import conformed, stored_schema
from weft.storage.correcting import correction_instants
from weft.storage.local_sql import columns_equal, quoted
from weft.storage.periods import TS, known_at, over, periods, values_of

OP: Final = "_op"
OWN: Final = "_own"
ORDER: Final = "_order"
CHANGE_COLUMNS: Final = (OP, OWN, ORDER)
"""The columns of a change in addition to the columns of the tracked table."""
DELETE: Final = "D"
TRUNCATE: Final = "T"
_AT: Final = "_at"


def changes_of(rows: pa.Table, ops: Sequence[str], owns: Sequence[int], places: Sequence[int]) -> pa.Table:
    """Return the rows as changes, given the operation, source time (µs UTC) and position of each row."""
    rows = rows.append_column(OP, pa.array(ops, pa.string())).append_column(OWN, pa.array(owns, pa.int64()))
    return rows.append_column(ORDER, pa.array(places, pa.int64()))


def replace_all(rows: pa.Table, own: int, place: int) -> pa.Table:
    """Return one transaction that replaces all stored rows, at the positions ``place`` and ``place + 1``."""
    gone = pa.table([pa.nulls(1, each.type) for each in rows.schema], schema=rows.schema)
    count = rows.num_rows
    ops, places = [TRUNCATE, *["U"] * count], [place, *[place + 1] * count]
    return changes_of(pa.concat_tables([gone, rows]), ops, [own] * (count + 1), places)


def log_of_keys(log: pa.Table, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the history of those keys that occur in the changes."""
    if not log.num_rows:
        return log
    with over(log=log, given=changes.select(list(keys))) as connection:
        rows = connection.sql(
            f"SELECT a.* FROM log a SEMI JOIN given b ON {columns_equal(keys, 'a', 'b')}"
        ).to_arrow_table()
    return conformed(rows, log.schema)


def without_truncations(changes: pa.Table, there: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Replace each truncation by deletions, one for each key with a row at the time of the truncation.

    The keys come from the open periods in ``there`` and from earlier changes.
    """
    if not pc.any(pc.equal(changes.column(OP), TRUNCATE)).as_py():
        return changes
    by_key = _list(keys)
    text = f"""
        WITH held AS (
            SELECT {by_key}, -1 AS place FROM there
            UNION ALL
            SELECT {by_key}, min({ORDER}) AS place FROM given WHERE {OP} <> '{TRUNCATE}' GROUP BY {by_key})
        SELECT DISTINCT {by_key}, '{DELETE}' AS {OP}, {OWN}, {ORDER}
            FROM given_truncations JOIN held ON place < {ORDER}
        UNION ALL BY NAME
        SELECT * FROM given WHERE {OP} <> '{TRUNCATE}'"""
    truncations = changes.filter(pc.equal(changes.column(OP), TRUNCATE)).select([OWN, ORDER])
    with over(given=changes, there=there, given_truncations=truncations) as connection:
        return conformed(connection.sql(f"FROM ({text}) ORDER BY {ORDER}").to_arrow_table(), changes.schema)


def fill_missing_cells(
    changes: pa.Table, lacking: pa.Table, there: pa.Table, keys: Sequence[str]
) -> tuple[pa.Table, int]:
    """Fill in missing cells of changes. Return the new changes, and the number of changes whose cells were not found.

    Each row of ``lacking`` describes the missing cells of one change. ``_order`` is the position of the change, and
    ``_columns`` are the columns of the cells. The values come from the last row with the given key before the position
    ``_before``, either in ``there`` or among the changes.
    """
    if not lacking.num_rows:
        return changes, 0
    names = [name for name in changes.column_names if name not in (OP, OWN, ORDER)]
    cells_of_rows = f"""
        WITH held AS (
            SELECT {_list(names)}, -1 AS place FROM there
            UNION ALL
            SELECT {_list(names)}, {ORDER} AS place FROM given a WHERE {OP} = 'U'
                AND NOT EXISTS (SELECT 1 FROM lacking l WHERE l.{ORDER} = a.{ORDER}))
        SELECT l.{ORDER} AS _of, l._columns, h.* FROM lacking l JOIN held h
            ON {columns_equal(keys, "l", "h")} AND h.place < l._before
            QUALIFY row_number() OVER (PARTITION BY l.{ORDER} ORDER BY h.place DESC) = 1"""
    cells = ", ".join(
        f"CASE WHEN list_contains(f._columns, {_text(name)}) THEN f.{quoted(name)} ELSE g.{quoted(name)} END "
        f"AS {quoted(name)}"
        for name in names
    )
    filled = f"SELECT {cells}, g.{OP}, g.{OWN}, g.{ORDER} FROM given g LEFT JOIN filled f ON f._of = g.{ORDER}"
    with over(given=changes, lacking=lacking, there=there) as connection:
        rows = connection.sql(cells_of_rows).to_arrow_table()
        connection.register("filled", rows)
        changed = connection.sql(f"{filled} ORDER BY g.{ORDER}").to_arrow_table()
    return conformed(changed, changes.schema), lacking.num_rows - rows.num_rows


def unknown(log: pa.Table, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the changes that the history does not contain yet, in the order of the feed.

    ``log`` is the history of the changed keys. If several changes of a key have the same source time, only the last one
    counts. A change is not new if the key already had the resulting state at the source time. The changes are also
    compared with the history before each correction. A change after the last recorded instant of the key is always new.
    Reading a feed twice therefore has no effect.
    """
    for instant in correction_instants(log):
        changes = _unknown(known_at(log, instant - 1), changes, keys)
    return _unknown(log, changes, keys)


def _unknown(log: pa.Table, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    values = [name for name in changes.column_names if name not in (OP, OWN, ORDER)]
    by_key = _list(keys)
    agrees = columns_equal(values, "c", "h")
    text = f"""
        WITH last AS (SELECT * FROM given
            QUALIFY {OWN} IS NULL OR row_number() OVER (PARTITION BY {by_key}, {OWN} ORDER BY {ORDER} DESC) = 1),
        known AS (SELECT c.{ORDER}
            FROM last c
            JOIN (SELECT {by_key}, max({TS}) AS {_AT} FROM log GROUP BY {by_key}) t ON {columns_equal(keys, "c", "t")}
            LEFT JOIN periods h ON {columns_equal(keys, "c", "h")}
                AND h.{VALID_FROM} <= make_timestamptz(c.{OWN})
                AND (h.{VALID_TO} IS NULL OR make_timestamptz(c.{OWN}) < h.{VALID_TO})
            WHERE make_timestamptz(c.{OWN}) <= t.{_AT}
                AND CASE WHEN c.{OP} = '{DELETE}' THEN h.{VALID_FROM} IS NULL
                    ELSE h.{VALID_FROM} IS NOT NULL AND {agrees} END)
        SELECT * FROM last ANTI JOIN known USING ({ORDER}) ORDER BY {ORDER}"""
    with over(given=changes, log=log, periods=periods(log)) as connection:
        return conformed(connection.sql(text).to_arrow_table(), changes.schema)


def transaction_instants(
    changes: Sequence[pa.Table], floor: int, latest: int | None, clock: int
) -> dict[int | None, int]:
    """Map the source time of each transaction to the instant of the transaction, in the order of the feed.

    ``changes`` contains the changes of all affected tables. The instant is the source time, or ``clock`` if the source
    time is None. ``latest`` is the maximum instant (None: no limit). The instants ascend, starting at ``floor``. An
    instant that is not after the previous one becomes the next microsecond.
    """
    first: dict[int | None, int] = {}
    for each in changes:
        for own, order in zip(each.column(OWN).to_pylist(), each.column(ORDER).to_pylist(), strict=True):
            first[own] = min(order, first.get(own, order))
    instants: dict[int | None, int] = {}
    before = floor - 1
    for own in sorted(first, key=first.__getitem__):
        wanted = clock if own is None else own
        if latest is not None:
            wanted = min(wanted, latest)
        before = instants[own] = max(wanted, before + 1)
    return instants


def log_rows(
    there: pa.Table, changes: pa.Table, instants: dict[int | None, int], log: TableSchema, keys: Sequence[str]
) -> pa.Table:
    """Return the rows that the changes add to the history log.

    ``there`` contains the open periods of the changed keys. Every open period starts before the first change. A change
    without an effect adds no log row.
    """
    names = values_of(log)
    row, by_key = _list(names), _list(keys)
    when = pa.table({"own": pa.array(list(instants), pa.int64()), _AT: pa.array(list(instants.values()), pa.int64())})
    text = f"""
        WITH dated AS (SELECT c.*, w.{_AT} FROM given c JOIN instants w ON c.{OWN} IS NOT DISTINCT FROM w.own),
        last AS (SELECT * FROM dated
            QUALIFY row_number() OVER (PARTITION BY {by_key}, {_AT} ORDER BY {ORDER} DESC) = 1),
        states AS (
            SELECT {row}, {OP} <> '{DELETE}' AS alive, {_AT} AS since, FALSE AS there FROM last
            UNION ALL BY NAME
            SELECT {row}, TRUE AS alive, epoch_us({VALID_FROM}) AS since, TRUE AS there FROM open_rows),
        beside AS (SELECT *, lag(alive) OVER before AS was_alive, lag(row({row})) OVER before AS was_row
            FROM states WINDOW before AS (PARTITION BY {by_key} ORDER BY since)),
        turns AS (SELECT * FROM beside WHERE CASE WHEN was_alive IS NULL THEN alive
            ELSE alive <> was_alive OR (alive AND row({row}) IS DISTINCT FROM was_row) END),
        spans AS (SELECT *, lead(since) OVER (PARTITION BY {by_key} ORDER BY since) AS until FROM turns)
        SELECT {row}, make_timestamptz(since) AS {VALID_FROM}, NULL::TIMESTAMPTZ AS {VALID_TO},
            make_timestamptz(since) AS {TS} FROM spans WHERE alive AND NOT there
        UNION ALL
        SELECT {row}, make_timestamptz(since), make_timestamptz(until), make_timestamptz(until)
            FROM spans WHERE alive AND until IS NOT NULL"""
    with over(given=changes, instants=when, open_rows=there) as connection:
        return conformed(connection.sql(text).to_arrow_table(), stored_schema(log))


def state_changes(dated: pa.Table, there: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Compute the changes between full states of a source.

    ``dated`` contains all rows of the source at each source time, with ``_own`` and ``_order``. A row ends at the first
    state that lacks the key of the row. ``there`` contains the rows that were valid before the first full state.
    """
    values = [name for name in dated.column_names if name not in (OWN, ORDER)]
    row, by_key, same = _list(values), _list(keys), columns_equal(keys, "a", "b")
    text = f"""
        WITH states AS (SELECT {OWN} AS state, lead({OWN}) OVER (ORDER BY {OWN}) AS following
            FROM (SELECT DISTINCT {OWN} FROM given)),
        held AS (SELECT {by_key}, {OWN}, lead({OWN}) OVER (PARTITION BY {by_key} ORDER BY {OWN}) AS again FROM given),
        gone AS (
            SELECT {by_key}, s.following AS {OWN} FROM held h JOIN states s ON h.{OWN} = s.state
                WHERE s.following IS NOT NULL AND again IS DISTINCT FROM s.following
            UNION ALL
            SELECT {by_key}, (SELECT min(state) FROM states) AS {OWN} FROM open_rows a
                ANTI JOIN (SELECT * FROM given WHERE {OWN} = (SELECT min(state) FROM states)) b ON {same})
        SELECT {row}, 'U' AS {OP}, {OWN} FROM given
        UNION ALL BY NAME
        SELECT {by_key}, '{DELETE}' AS {OP}, {OWN} FROM gone"""
    with over(given=dated, open_rows=there) as connection:
        ordered = connection.sql(f"SELECT *, row_number() OVER (ORDER BY {OWN}) AS {ORDER} FROM ({text})")
        return conformed(ordered.order(ORDER).to_arrow_table(), change_schema(dated.select(values).schema))


def without_own_times(changes: pa.Table) -> pa.Table:
    """Set the source time of all changes to NULL."""
    return changes.set_column(changes.column_names.index(OWN), OWN, pa.nulls(changes.num_rows, pa.int64()))


def change_schema(values: pa.Schema) -> pa.Schema:
    """Return the schema of changes for a source with the columns ``values``."""
    own = [pa.field(OP, pa.string()), pa.field(OWN, pa.int64()), pa.field(ORDER, pa.int64())]
    return pa.schema([*values, *own])


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
