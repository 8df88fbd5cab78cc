"""Merge and subtract periods by fast SQL for DuckDB.  The module ``sweeping`` contains the portable SQL.

Window functions dominate the cost.  Most rows have only one period, or equal no row of the other relation, and
therefore bypass the window functions.

The window functions read the remaining rows in one sorted sequence instead of one partition per row.  The counts at the
bounds of each row sum to 0.  The running count is therefore 0 at the start of the next row.  An open period ends at
``FOREVER``.
"""

from __future__ import annotations

from weft.sql.sweeping import BOTH_BOUNDS, FOREVER, Sweeps, columns_of, listed

_INSTANT = f"CASE WHEN side = 0 THEN valid_from ELSE COALESCE(valid_to, {FOREVER}) END AS instant"


def coalesced_locally(query: str, width: int) -> str:
    """Return SQL that merges overlapping or adjacent periods of equal rows into maximal periods."""
    keys = columns_of(width)
    rows = listed(keys, "valid_from", "valid_to")
    once = (
        f"SELECT {listed(keys)}, MIN(valid_from) AS valid_from, MIN(valid_to) AS valid_to, COUNT(*) AS periods "
        f"FROM given GROUP BY {listed(keys)}"
    )
    several = _met(
        f"SELECT {listed(columns_of(width, 'g'))}, g.valid_from, g.valid_to FROM given AS g", "several", keys
    )
    # At one instant, starts precede ends, so that adjacent periods merge.
    bounds = (
        f"SELECT {listed(keys)}, {_INSTANT}, CASE WHEN side = 0 THEN 1 ELSE -1 END AS d "
        f"FROM ({several}) AS given {BOTH_BOUNDS}"
    )
    order = f"ORDER BY {listed(keys, 'instant')}, d DESC"
    counted = f"SELECT {listed(keys)}, instant, d, SUM(d) OVER ({order} ROWS UNBOUNDED PRECEDING) AS n FROM ({bounds})"
    paired = (
        f"SELECT {listed(keys)}, instant AS valid_from, LEAD(instant) OVER ({order}) AS valid_to, n FROM ({counted}) "
        f"WHERE n = 0 OR (n = 1 AND d = 1)"
    )
    return (
        f"WITH given AS MATERIALIZED ({query}), once AS MATERIALIZED ({once}), "
        f"several AS (SELECT * FROM once WHERE periods > 1) "
        f"SELECT {rows} FROM once WHERE periods = 1 UNION ALL "
        f"SELECT {listed(keys)}, valid_from, NULLIF(valid_to, {FOREVER}) AS valid_to FROM ({paired}) WHERE n > 0"
    )


def without_locally(left: str, right: str, width: int) -> str:
    """Return SQL for the rows of ``left`` without the instants at which ``right`` contains an equal row.

    ``left`` and ``right`` are names of relations with maximal periods.
    """
    keys = columns_of(width)
    heads = listed(columns_of(width, "g"), "g.valid_from", "g.valid_to")
    alone = _met(f"SELECT {heads} FROM {left} AS g", right, keys, "ANTI")
    met = _met(f"SELECT {heads} FROM {left} AS g", right, keys)
    bounds = " UNION ALL ".join(
        f"SELECT {listed(keys)}, {_INSTANT}, CASE WHEN side = 0 THEN {one} ELSE -{one} END AS l, "
        f"CASE WHEN side = 0 THEN {other} ELSE -{other} END AS r FROM {source} {BOTH_BOUNDS}"
        for source, one, other in ((f"({met}) AS met", 1, 0), (right, 0, 1))
    )
    summed = (
        f"SELECT {listed(keys)}, instant, SUM(l) AS l, SUM(r) AS r FROM ({bounds}) GROUP BY {listed(keys, 'instant')}"
    )
    swept = (
        f"SELECT {listed(keys)}, instant AS valid_from, LEAD(instant) OVER running AS valid_to, "
        f"SUM(l) OVER running AS l, SUM(r) OVER running AS r FROM ({summed}) "
        f"WINDOW running AS (ORDER BY {listed(keys, 'instant')})"
    )
    return (
        f"{alone} UNION ALL SELECT {listed(keys)}, valid_from, NULLIF(valid_to, {FOREVER}) AS valid_to "
        f"FROM ({swept}) WHERE l > 0 AND r = 0"
    )


def _met(query: str, others: str, keys: list[str], kind: str = "SEMI") -> str:
    """Return SQL for the SEMI JOIN or ANTI JOIN of ``query`` with ``others`` on the columns ``keys``."""
    same = " AND ".join(f"g.{key} IS NOT DISTINCT FROM o.{key}" for key in keys)
    return f"{query} {kind} JOIN {others} AS o ON {same}"


LOCAL = Sweeps(coalesced_locally, without_locally)
"""The functions that generate SQL for DuckDB only."""
