"""Render window functions over time: their values for each row, from one change of a partition to the next."""

from __future__ import annotations

from collections.abc import Sequence

from weft.period_sql.notation import conjunction, listed, same
from weft.period_sql.sweep import Sweep


def windowed(sweep: Sweep, rows: str, width: int, partition: Sequence[str], functions: Sequence[str]) -> str:
    """Return SQL for the first ``width`` columns of ``rows``, then ``functions``, and their periods.

    ``rows`` returns the columns of the axis, the columns ``partition``, the columns that the functions name, and
    periods.  ``functions`` is SQL over rows with the alias ``r``, in which ``{partition}`` stands for the keys of the
    partition.  The functions are computed anew for each fragment between two bounds of a partition.  Equal rows of
    adjacent fragments are merged, and equal rows of one fragment remain as many as they are.
    """
    axis = sweep.axis
    bounds = f"SELECT DISTINCT {listed(partition, 'instant')} FROM ({sweep.bounds(rows, partition, ())}) AS bounds"
    following = f"LEAD(instant) {sweep.dialect.over(partition, 'instant')} AS next"
    cuts = f"SELECT {listed(partition, 'instant', following)} FROM ({bounds}) AS bounds"
    met = conjunction([*same(partition, "f", "r"), *axis.holds("r", "f.instant")])
    keys = listed([f"f.{key}" for key in partition], "f.instant")
    names = axis.columns(width + len(functions) + 1)
    heads = [
        *axis.columns(width, "r"),
        *(f"{each.format(partition=keys)} AS {name}" for each, name in zip(functions, names[width:], strict=False)),
        *axis.spelled("f.instant", "f.next"),
    ]
    fragments = f"SELECT {listed(heads)} FROM ({cuts}) AS f JOIN ({rows}) AS r ON {met}"
    values, copy = names[:-1], names[-1]
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {listed(values, axis.start)} ORDER BY {axis.start}) AS {copy}"
    copies = f"SELECT {listed(values, numbered, axis.period)} FROM ({fragments}) AS fragments"
    merged = sweep.coalesced(copies, len(names))
    return f"SELECT {listed(values, axis.period)} FROM ({merged}) AS merged"
