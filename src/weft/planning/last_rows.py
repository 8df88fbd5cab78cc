"""Continue window functions that look a few rows back from the last rows of each partition.

If the rows of a partition are in the order of their starts, the rows that begin in a window come after all others.  A
function such as LAG(x, 2) of such a row is a value of these rows, or of the last two rows before the window.

Law: over the last rows before a window and the rows that begin in it, the functions of the latter are the same as over
all rows (``tests/unit/planning/test_last_rows.py``).
"""

from __future__ import annotations

from weft.algebra.relation import StateSchema, Windowed, WindowFunction
from weft.algebra.scalar import MICROSECOND, minus
from weft.derivation.stateful import STARTS
from weft.period_sql.notation import DUCKDB, VALID_TIME, Dialect, listed
from weft.planning.state_engine import same_in_duckdb
from weft.planning.state_sql import inputs, lag_of, order_of, state_sql
from weft.sql.rendering import render


def looks_few_back(state: StateSchema) -> bool:
    """Return whether all functions of the state read a fixed number of rows before each row, and in DuckDB, too."""
    operator = state.operator
    if not isinstance(operator, Windowed) or not same_in_duckdb(state):
        return False
    return all(_back(function) is not None for function in operator.functions)


def _back(function: WindowFunction) -> int | None:
    """Return how many rows before a row its function reads, or None if there is no fixed number."""
    if function.function == "lag":
        return lag_of(function)
    frame = function.frame
    if frame is None or frame.unit != "rows" or frame.start is None or frame.start > 0 or frame.end is None:
        return None
    return -frame.start


def new_rows_sql(state: StateSchema, deltas: str, before: str) -> str:
    """Return SQL for the rows of a state that begin in its window.

    ``deltas`` is a relation with the columns of ``state_sql.deltas_sql``, and ``before`` one with the last rows of each
    partition before the window, which have the columns of ``inputs``.
    """
    tau, names = state.window[0], _columns(state)
    start = f"CAST({render.scalar(minus(tau, MICROSECOND))} AS TIMESTAMP) AS {VALID_TIME.start}"
    earlier = listed(names, start, f"CAST(NULL AS TIMESTAMP) AS {VALID_TIME.end}")
    given = f"SELECT {earlier} FROM {before} UNION ALL SELECT {listed(names, VALID_TIME.period)} FROM {deltas}"
    text = state_sql(state, given, DUCKDB, settled=True)
    return f"SELECT * FROM ({text}) AS rows_ WHERE {STARTS} >= {render.scalar(tau)}"


def last_rows_sql(state: StateSchema, rows: str, dialect: Dialect = DUCKDB) -> str:
    """Return SQL for the last rows of each partition, as many as the functions of a later row read.

    ``rows`` is SQL for a relation with the columns of ``inputs``.
    """
    operator = state.operator
    assert isinstance(operator, Windowed)
    names, keys = _columns(state), VALID_TIME.columns(len(operator.partition))
    partition = f"PARTITION BY {listed(keys)} " if keys else ""
    places, wanted = [], []
    for number, (function, order) in enumerate(zip(operator.functions, order_of(operator), strict=True), 1):
        turned = (
            f"{name}{'' if key.descending else ' DESC'} NULLS {'LAST' if key.nulls_first else 'FIRST'}"
            for name, key in zip(order, function.order, strict=True)
        )
        places.append(f"ROW_NUMBER() OVER ({partition}ORDER BY {listed(turned)}) AS b{number}")
        wanted.append(f"b{number} <= {_back(function) or 0}")
    numbered = f"SELECT {listed(names, places)} FROM {rows} AS given"
    return f"SELECT {listed(names)} FROM ({numbered}) AS numbered WHERE {' OR '.join(wanted)}"


def _columns(state: StateSchema) -> list[str]:
    _, columns, _ = inputs(state.operator)
    return [column.name for column in columns]
