"""Compile a recursion: the SQL of its first rows, and the SQL of the rows that follow from a round.

If the rows of a recursion never end, a tick continues the stored rows of the last tick.  The first round then has what
new rows of tables derive, alone or with stored rows.  Each later round joins only the rows of the round before.

The state must be bound to a window and to the constants of one query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.algebra.access import Access
from weft.algebra.relation import Recursive, StateSchema
from weft.derivation.access_paths import delta_paths, keyed_paths, lives_paths
from weft.derivation.lives import Lives, lives, with_scalars
from weft.derivation.recursion import ROUND, entering, is_step, lasts, rounds
from weft.period_sql.notation import DUCKDB, Dialect
from weft.planning.state_engine import same_in_duckdb
from weft.planning.state_plan import base_scans, columns_of, scans_of, states_of, suffix
from weft.planning.state_sql import bound_life, inputs, lives_sql
from weft.sql.dialects.duckdb_dialect import with_operators


@dataclass(frozen=True)
class Derived:
    """Lives that derive rows, and the access paths of their range variables."""

    life: Lives
    paths: Mapping[str, Access]

    @property
    def rounds(self) -> frozenset[str]:
        """The range variables that read rows of the recursion."""
        return frozenset(scan.alias for scan in rounds(self.life))


@dataclass(frozen=True)
class RecursionPlan:
    """How a tick computes a recursion.

    ``first`` derives the rows of the first round, and ``steps`` the rows that follow from the last round.  If
    ``continued`` is true, ``first`` derives what follows from new rows of tables and from the stored rows, with their
    depths.  ``columns`` are those that the tables must have, and ``reads`` the states among them.
    """

    state: StateSchema
    first: tuple[Derived, ...]
    steps: tuple[Derived, ...]
    columns: Mapping[str, set[str]]
    reads: tuple[StateSchema, ...]
    continued: bool = False

    @property
    def last_round(self) -> str:
        """The name of the table with the rows of the last round."""
        return ROUND + suffix(self.state)

    @property
    def stored(self) -> str:
        """The name of the table with the stored rows, their periods in the window, and their depths."""
        return f"stored_{self.last_round}"

    @property
    def operator(self) -> Recursive:
        """The operator of the state."""
        assert isinstance(self.state.operator, Recursive), "the state must be a recursion"
        return self.state.operator

    def first_sql(self, dialect: Dialect) -> str:
        """Return SQL for the columns of the recursion and the periods of its first round, and depths if continued."""
        return self._sql(self.first, self.stored, dialect)

    def next_sql(self, dialect: Dialect) -> str:
        """Return SQL for the columns of the recursion and the periods of the rows that follow from the last round."""
        return self._sql(self.steps, self.last_round, dialect)

    def _sql(self, parts: Sequence[Derived], read: str, dialect: Dialect) -> str:
        texts = []
        for part in parts:
            views = {alias: path.view + suffix(self.state) for alias, path in part.paths.items()}
            views |= dict.fromkeys(part.rounds, read)
            life = with_scalars(part.life, with_operators) if dialect == DUCKDB else part.life
            texts.append(lives_sql([life], self.state.window, views, dialect))
        return "\nUNION ALL ".join(texts)


def tables_read(parts: Sequence[Derived]) -> tuple[Access, ...]:
    """Return the access paths of all range variables that do not read the recursion."""
    return tuple(path for part in parts for alias, path in part.paths.items() if alias not in part.rounds)


def recursion_plan(state: StateSchema) -> RecursionPlan:
    """Return how a tick computes all rows from the tables.  Raise DerivationError if the recursion is not linear."""
    rows, seeds, steps = _parted(state)
    paths = lives_paths(rows)
    first, rest = (tuple(Derived(life, _own(life, paths)) for life in part) for part in (seeds, steps))
    return RecursionPlan(state, first, rest, _columns(rows), states_of(rows))


def continued_recursion(state: StateSchema) -> RecursionPlan | None:
    """Return how a tick continues the stored rows, or None if this is impossible.

    The rows must never end: the tables are append-only, and neither a subquery nor a threshold ends a row.  DuckDB must
    compute the values as Spark does.
    """
    if not isinstance(state.operator, Recursive) or not same_in_duckdb(state):
        return None
    if not all(scan.table.append_only and scan.table.source == "table" for scan in base_scans(state)):
        return None
    rows, seeds, steps = _parted(state)
    if not all(map(lasts, rows)):
        return None
    first = [
        Derived(delta.life, delta_paths(delta))
        for life in (*seeds, *steps)
        for delta in (replace(each, life=bound_life(each.life, state.window)) for each in entering(life))
    ]
    rest = [Derived(life, keyed_paths(life, {scan.alias for scan in rounds(life)})) for life in steps]
    return RecursionPlan(state, tuple(first), tuple(rest), _columns(rows), (), continued=True)


def _parted(state: StateSchema) -> tuple[tuple[Lives, ...], list[Lives], list[Lives]]:
    """Return all lives of a recursion, those of its first rows, and those of its step."""
    inner, columns, _ = inputs(state.operator)
    rows = lives(inner, columns)
    seeds, steps = list[Lives](), list[Lives]()
    for life in rows:
        (steps if is_step(life) else seeds).append(life)
    return rows, seeds, steps


def _own(life: Lives, paths: Mapping[str, Access]) -> dict[str, Access]:
    return {scan.alias: paths[scan.alias] for scan in scans_of((life,))}


def _columns(rows: Sequence[Lives]) -> dict[str, set[str]]:
    return {table: names for table, names in columns_of(rows).items() if table != ROUND}
