"""Render window functions over time: their values for each row, from one change of a partition to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.period_sql.notation import Axis, conjunction, listed, over, same
from weft.period_sql.sweep import Sweep

PARTITION: Final = "{partition}"
"""Stands for the keys of the partition in the SQL of a window function."""


def windowed(sweep: Sweep, rows: str, width: int, partition: Sequence[str], functions: Sequence[str]) -> str:
    """Return SQL for the first ``width`` columns of ``rows``, then ``functions``, and their periods.

    ``rows`` returns the columns of the axis, the columns ``partition``, the columns that the functions name, and
    periods.  ``functions`` is SQL over rows with the alias ``r``, in which ``PARTITION`` stands for the keys of the
    partition.  The functions are recomputed for each fragment between two bounds of a partition.  Equal rows of
    adjacent fragments are merged, and equal rows of one fragment remain as many as they are.
    """
    names = sweep.axis.columns(width + len(functions))
    fragments = sweep.dialect.sharing(
        "lived", rows, lambda lived: _recomputed(sweep, lived, width, partition, functions)
    )
    return _merged(sweep, fragments, names, partition)


def _recomputed(sweep: Sweep, rows: str, width: int, partition: Sequence[str], functions: Sequence[str]) -> str:
    """Return SQL for the rows of each fragment, with the values of the functions and the keys of the partition."""
    axis = sweep.axis
    names = axis.columns(width + len(functions))
    keys = listed([f"f.{key}" for key in partition], "f.instant")
    heads = [
        *axis.columns(width, "r"),
        *(f"{each.replace(PARTITION, keys)} AS {name}" for each, name in zip(functions, names[width:], strict=True)),
        *(f"f.{key}" for key in partition),
        *axis.spelled("f.instant", "f.next"),
    ]
    met = conjunction([*same(partition, "f", "r"), *axis.holds("r", "f.instant")])
    cuts = f"SELECT * FROM ({_cuts(sweep, rows, partition)}) AS cuts WHERE next IS NOT NULL"
    return f"SELECT {listed(heads)} FROM ({cuts}) AS f JOIN ({rows}) AS r ON {met}"


def settled(axis: Axis, rows: str, width: int, partition: Sequence[str], functions: Sequence[str]) -> str:
    """Return SQL as ``windowed`` does, for functions whose value for a row never changes while the row is valid."""
    names, keys = axis.columns(width + len(functions)), listed(f"r.{key}" for key in partition) or "NULL"
    heads = (f"{each.replace(PARTITION, keys)} AS {name}" for each, name in zip(functions, names[width:], strict=True))
    return f"SELECT {listed(axis.columns(width, 'r'), heads, axis.period)} FROM ({rows}) AS r"


def topmost(sweep: Sweep, rows: str, width: int, partition: Sequence[str], rank: str, most: str) -> str:
    """Return SQL as ``windowed`` does, for one function ``rank``, but only the rows with a rank up to ``most``.

    The fragments of a partition are the leaves of a binary tree.  A row is stored at the nodes that together cover its
    period, at most two at each level.  A node needs only its first ``most`` rows: a row with more rows before it at the
    node never has a smaller rank.  The rows of a fragment are those at the nodes above it.
    """
    share, names = sweep.dialect.sharing, sweep.axis.columns(width + 1)

    def of_rows(lived: str) -> str:
        place = f"ROW_NUMBER() {over(partition, 'instant')} - 1 AS place"
        leaves = f"SELECT *, {place} FROM ({_cuts(sweep, lived, partition)}) AS cuts"
        return share(
            "leaves", leaves, lambda numbered: _at_leaves(sweep, lived, numbered, width, partition, rank, most)
        )

    ranked = share("lived", rows, of_rows)
    return _merged(sweep, f"SELECT * FROM ({ranked}) AS ranked WHERE {names[-1]} <= {most}", names, partition)


def _at_leaves(sweep: Sweep, rows: str, leaves: str, width: int, partition: Sequence[str], rank: str, most: str) -> str:
    """Return SQL for the rows of each fragment with their rank.  ``leaves`` are the fragments of each partition."""
    axis, names = sweep.axis, sweep.axis.columns(width + 1)
    quotient = sweep.dialect.quotient
    size = "CAST(POW(2, level) AS BIGINT)"
    first = sweep.dialect.sharing(
        "spans", _spans(sweep, rows, leaves, partition), lambda spans: _at_nodes(sweep, spans, partition, rank, most)
    )
    depth = sweep.dialect.numbers.format("0", "CAST(CEIL(LOG2(GREATEST(fragments, 1))) AS INT) + 2")
    counted = f"SELECT *, COUNT(*) {over(partition)} AS fragments FROM ({leaves}) AS cuts"
    above = f"SELECT *, {depth} AS level FROM ({counted}) AS leaves WHERE next IS NOT NULL"
    met = conjunction([*same(partition, "f", "r"), "f.level = r.level", "f.node = r.node"])
    upper = f"SELECT *, place {quotient} {size} AS node FROM ({above}) AS above"
    at_leaf = rank.replace(PARTITION, listed((f"f.{key}" for key in partition), "f.instant"))
    own = (f"f.{key}" for key in partition)
    heads = [*axis.columns(width, "r"), f"{at_leaf} AS {names[-1]}", *own, *axis.spelled("f.instant", "f.next")]
    return f"SELECT {listed(heads)} FROM ({upper}) AS f JOIN ({first}) AS r ON {met}"


def _spans(sweep: Sweep, rows: str, leaves: str, partition: Sequence[str]) -> str:
    """Return SQL for the rows with the nodes of each level at which their period begins and ends."""
    axis, quotient = sweep.axis, sweep.dialect.quotient
    low, high = (
        conjunction([*same(partition, "r", each), f"{each}.instant = {bound}"])
        for each, bound in (("l", f"r.{axis.start}"), ("h", axis.closed(f"r.{axis.end}")))
    )
    spans = (
        f"SELECT r.*, l.place AS low, h.place AS high FROM ({rows}) AS r JOIN ({leaves}) AS l ON {low} "
        f"JOIN ({leaves}) AS h ON {high}"
    )
    size = "CAST(POW(2, level) AS BIGINT)"
    level = sweep.dialect.numbers.format("0", "CAST(CEIL(LOG2(GREATEST(high - low, 1))) AS INT) + 2")
    covered = f"(low + {size} - 1) {quotient} {size} AS first_node, high {quotient} {size} AS after_node"
    return f"SELECT *, {covered} FROM (SELECT *, {level} AS level FROM ({spans}) AS spans) AS leveled"


def _at_nodes(sweep: Sweep, spans: str, partition: Sequence[str], rank: str, most: str) -> str:
    """Return SQL for the first ``most`` rows of each node.  ``spans`` are the rows of ``_spans``."""
    nodes = (
        f"SELECT *, first_node AS node FROM ({spans}) AS e WHERE first_node % 2 = 1 AND first_node < after_node "
        f"UNION ALL SELECT *, after_node - 1 AS node FROM ({spans}) AS e "
        "WHERE after_node % 2 = 1 AND after_node - 1 >= first_node + first_node % 2"
    )
    at_node = rank.replace(PARTITION, listed((f"r.{key}" for key in partition), "r.level", "r.node"))
    return f"SELECT * FROM (SELECT r.*, {at_node} AS at_node FROM ({nodes}) AS r) AS r WHERE at_node <= {most}"


def _cuts(sweep: Sweep, rows: str, partition: Sequence[str]) -> str:
    """Return SQL for the bounds of each partition, with the next bound."""
    bounds = f"SELECT DISTINCT {listed(partition, 'instant')} FROM ({sweep.bounds(rows, partition, ())}) AS bounds"
    following = f"LEAD(instant) {over(partition, 'instant')} AS next"
    return f"SELECT {listed(partition, 'instant', following)} FROM ({bounds}) AS bounds"


def _merged(sweep: Sweep, fragments: str, values: Sequence[str], partition: Sequence[str]) -> str:
    """Merge equal rows of adjacent fragments of a partition.

    Equal rows of one fragment remain as many as they are.  Equal rows of two partitions are never merged.
    """
    axis = sweep.axis
    *keys, copy = axis.columns(len(values) + len(partition) + 1)[len(values) :]
    row = listed(values, partition, axis.start)
    numbered = f"ROW_NUMBER() OVER (PARTITION BY {row} ORDER BY {axis.start}) AS {copy}"
    named = (f"{own} AS {key}" for own, key in zip(partition, keys, strict=True))
    copies = f"SELECT {listed(values, named, numbered, axis.period)} FROM ({fragments}) AS fragments"
    merged = sweep.coalesced(copies, len(values) + len(partition) + 1)
    return f"SELECT {listed(values, axis.period)} FROM ({merged}) AS merged"
