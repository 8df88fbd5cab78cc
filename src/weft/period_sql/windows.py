"""Render window functions over time: their values for each row, from one change of a partition to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
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


@dataclass(frozen=True)
class Rank:
    """ROW_NUMBER, RANK or DENSE_RANK over the columns ``order`` of rows with the alias ``r``.

    ``spelled`` is SQL for ORDER BY.  Only ranks up to ``most`` are needed.
    """

    function: str
    order: tuple[str, ...]
    spelled: str
    most: str

    def over(self, *keys: Iterable[str] | str) -> str:
        """Return SQL for the rank in the partition ``keys``."""
        return f"CAST({self.function}() {over([listed(*keys)], self.spelled)} AS INT)"

    def weighed(self, keys: Iterable[str]) -> str:
        """Return SQL for the sum of ``weight`` over the rows that come before a row with another place."""
        return (
            f"SUM(weight) {over(keys, f'{self.spelled}, weight', 'ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING')}"
        )


def topmost(sweep: Sweep, rows: str, width: int, partition: Sequence[str], rank: Rank, *, many: bool) -> str:
    """Return SQL as ``windowed`` does, for one rank, but only the rows with a rank up to ``rank.most``.

    The fragments of a partition are the leaves of a binary tree.  A row is stored at the nodes that together cover its
    period, at most two at each level.  A node needs only its first ``most`` rows: a row with more rows before it at the
    node never has a smaller rank.  The rows of a fragment are those at the nodes above it.  If there are
    ``many`` rows, an engine that computes the parts of a query once drops the rows that never have such a rank before,
    and with them most fragments.  For few rows, the longer text costs more than it saves.
    """
    share, names = sweep.dialect.sharing, sweep.axis.columns(width + 1)
    if many and sweep.dialect.materialized:
        kept = [*sweep.axis.columns(width), *partition, *rank.order, *sweep.axis.period]
        rows = share("given_rows", rows, partial(_candidates, sweep, kept, partition, rank))

    def of_rows(lived: str) -> str:
        return share(
            "leaves",
            _leaves(sweep, lived, partition),
            lambda leaves: _at_leaves(sweep, lived, leaves, width, partition, rank),
        )

    ranked = share("lived", rows, of_rows)
    return _merged(sweep, f"SELECT * FROM ({ranked}) AS ranked WHERE {names[-1]} <= {rank.most}", names, partition)


def _leaves(sweep: Sweep, rows: str, partition: Sequence[str], size: int = 1) -> str:
    """Return SQL for the bounds of each partition, with the next bound and the number of the fragment.

    The number of the last bound is a multiple of ``size``, so that a row that holds to the end fills the last block.
    """
    number = f"ROW_NUMBER() {over(partition, 'instant')} - 1"
    last = f"({number} + {size - 1}) {sweep.dialect.quotient} {size} * {size}"
    place = number if size == 1 else f"CASE WHEN next IS NULL THEN {last} ELSE {number} END"
    return f"SELECT *, {place} AS place FROM ({_cuts(sweep, rows, partition)}) AS cuts"


_BLOCK: Final = 4
"""The level of the nodes for which ``_candidates`` compares rows, each with 16 fragments."""


def _candidates(sweep: Sweep, kept: Sequence[str], partition: Sequence[str], rank: Rank, rows: str) -> str:
    """Return SQL for the columns ``kept`` of the rows that can have a needed rank.

    A row never has one within a block of fragments if ``most`` rows that hold throughout the block come before it.
    """
    share = sweep.dialect.sharing
    numbered = f"SELECT {listed(kept, f'ROW_NUMBER() {over(kept)} AS copy')} FROM ({rows}) AS given_rows"

    def of_spans(leaves: str, spans: str) -> str:
        edges = _edges(sweep, [*kept, "copy"], spans)
        through = _through(sweep, [*kept, "copy"], spans, leaves, partition, rank)
        compared = f"SELECT *, {rank.weighed([*partition, 'block'])} AS before FROM ({through} UNION ALL {edges}) AS r"
        wanted = f"through OR COALESCE(before, 0) < {rank.most}"
        once = f"SELECT DISTINCT {listed(kept, 'copy')} FROM ({compared}) AS compared WHERE {wanted}"
        return f"SELECT {listed(kept)} FROM ({once}) AS candidates"

    def of_leaves(rows: str, leaves: str) -> str:
        return share("bounded", _bounded(sweep, rows, leaves, partition), partial(of_spans, leaves))

    def of_rows(rows: str) -> str:
        return share("blocks", _leaves(sweep, rows, partition, 2**_BLOCK), partial(of_leaves, rows))

    return share("numbered", numbered, of_rows)


def _edges(sweep: Sweep, kept: Sequence[str], spans: str) -> str:
    """Return SQL for the rows in the first and in the last block of their periods."""
    size, quotient = 2**_BLOCK, sweep.dialect.quotient
    first, last = f"low {quotient} {size}", f"(high - 1) {quotient} {size}"
    block = f"CASE side WHEN 0 THEN {first} ELSE {last} END AS block"
    return (
        f"SELECT {listed(kept, block, '0 AS weight', 'FALSE AS through')} FROM ({spans}) AS spans "
        f"{sweep.dialect.both_bounds} WHERE side = 0 OR {first} < {last}"
    )


def _through(sweep: Sweep, kept: Sequence[str], spans: str, leaves: str, partition: Sequence[str], rank: Rank) -> str:
    """Return SQL for the first rows that hold throughout a block.  Of rows with one DENSE_RANK, one has a weight."""
    size, quotient = 2**_BLOCK, sweep.dialect.quotient
    at_nodes = _at_nodes(
        sweep, f"SELECT * FROM ({_levels(sweep, spans)}) AS s WHERE level >= {_BLOCK}", partition, rank
    )
    blocks = f"SELECT {listed(partition, 'next', 'fragments', f'place {quotient} {size} AS block')} FROM"
    counted = f"SELECT *, COUNT(*) {over(partition)} AS fragments FROM ({leaves}) AS cuts"
    starts = f"{blocks} ({counted}) AS counted WHERE place % {size} = 0 AND next IS NOT NULL"
    above = f"SELECT *, {sweep.dialect.numbers.format('0', _depth('fragments'))} AS above FROM ({starts}) AS starts"
    node = f"f.block {quotient} CAST(POW(2, f.above) AS BIGINT)"
    met = conjunction([*same(partition, "f", "r"), f"f.above + {_BLOCK} = r.level", f"{node} = r.node"])
    place = rank.over([f"r.{key}" for key in partition], "f.block")
    ranked = f"SELECT {listed((f'r.{key}' for key in kept), 'f.block', f'{place} AS at_block')}"
    found = f"{ranked} FROM ({above}) AS f JOIN ({at_nodes}) AS r ON {met}"
    first = f"SELECT * FROM ({found}) AS r WHERE at_block <= {rank.most}"
    weight = "1"
    if rank.function == "DENSE_RANK":
        weight = f"CAST(ROW_NUMBER() {over([*partition, 'block', 'at_block'])} = 1 AS INT)"
    return f"SELECT {listed(kept, 'block', f'{weight} AS weight', 'TRUE AS through')} FROM ({first}) AS first_rows"


def _depth(fragments: str) -> str:
    """Return SQL for a number of levels that suffices for a tree with so many leaves."""
    return f"CAST(CEIL(LOG2(GREATEST({fragments}, 1))) AS INT) + 2"


def _at_leaves(sweep: Sweep, rows: str, leaves: str, width: int, partition: Sequence[str], rank: Rank) -> str:
    """Return SQL for the rows of each fragment with their rank.  ``leaves`` are the fragments of each partition."""
    axis, names = sweep.axis, sweep.axis.columns(width + 1)
    size = "CAST(POW(2, level) AS BIGINT)"
    leveled = _levels(sweep, _bounded(sweep, rows, leaves, partition))
    first = sweep.dialect.sharing("spans", leveled, lambda spans: _at_nodes(sweep, spans, partition, rank))
    depth = sweep.dialect.numbers.format("0", _depth("fragments"))
    counted = f"SELECT *, COUNT(*) {over(partition)} AS fragments FROM ({leaves}) AS cuts"
    above = f"SELECT *, {depth} AS level FROM ({counted}) AS leaves WHERE next IS NOT NULL"
    met = conjunction([*same(partition, "f", "r"), "f.level = r.level", "f.node = r.node"])
    upper = f"SELECT *, place {sweep.dialect.quotient} {size} AS node FROM ({above}) AS above"
    own = [f"f.{key}" for key in partition]
    at_leaf = rank.over(own, "f.instant")
    heads = [*axis.columns(width, "r"), f"{at_leaf} AS {names[-1]}", *own, *axis.spelled("f.instant", "f.next")]
    return f"SELECT {listed(heads)} FROM ({upper}) AS f JOIN ({first}) AS r ON {met}"


def _bounded(sweep: Sweep, rows: str, leaves: str, partition: Sequence[str]) -> str:
    """Return SQL for the rows with the numbers of their first fragment and of the fragment after their period."""
    axis = sweep.axis
    low, high = (
        conjunction([*same(partition, "r", each), f"{each}.instant = {bound}"])
        for each, bound in (("l", f"r.{axis.start}"), ("h", axis.closed(f"r.{axis.end}")))
    )
    return (
        f"SELECT r.*, l.place AS low, h.place AS high FROM ({rows}) AS r JOIN ({leaves}) AS l ON {low} "
        f"JOIN ({leaves}) AS h ON {high}"
    )


def _levels(sweep: Sweep, bounded: str) -> str:
    """Return SQL for the rows with the nodes of each level at which their period begins and ends."""
    quotient = sweep.dialect.quotient
    size = "CAST(POW(2, level) AS BIGINT)"
    level = sweep.dialect.numbers.format("0", _depth("high - low"))
    covered = f"(low + {size} - 1) {quotient} {size} AS first_node, high {quotient} {size} AS after_node"
    return f"SELECT *, {covered} FROM (SELECT *, {level} AS level FROM ({bounded}) AS spans) AS leveled"


def _at_nodes(sweep: Sweep, spans: str, partition: Sequence[str], rank: Rank) -> str:
    """Return SQL for the first ``most`` rows of each node.  ``spans`` are the rows of ``_levels``."""
    nodes = (
        f"SELECT *, first_node AS node FROM ({spans}) AS e WHERE first_node % 2 = 1 AND first_node < after_node "
        f"UNION ALL SELECT *, after_node - 1 AS node FROM ({spans}) AS e "
        "WHERE after_node % 2 = 1 AND after_node - 1 >= first_node + first_node % 2"
    )
    at_node = rank.over([f"r.{key}" for key in partition], "r.level", "r.node")
    return f"SELECT * FROM (SELECT r.*, {at_node} AS at_node FROM ({nodes}) AS r) AS r WHERE at_node <= {rank.most}"


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
