"""Compile a recursion: the SQL of its first rows, and the SQL of the rows that follow from a round.

A tick continues the stored rows of the last tick (``derivation.recursion``).  The first round then has the rows that
follow from new rows of tables, alone or with kept rows, and the touched rows that still follow from other rows.  Each
later round joins only the rows of the round before.

The state must be bound to a window and to the constants of one query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.algebra.access import Access, DeltaScan
from weft.algebra.relation import Recursive, StateSchema
from weft.derivation.access_paths import delta_paths, lives_paths
from weft.derivation.exact import Delta
from weft.derivation.lives import Lives, lives
from weft.derivation.recursion import ROUND, again, entering, is_step, rounds, touching
from weft.period_sql.notation import Dialect
from weft.planning.state_engine import same_in_duckdb
from weft.planning.state_plan import Keys, base_scans, columns_of, restricted, scans_of, states_of, suffix
from weft.planning.state_sql import bound_life, inputs, lives_sql


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

    ``first`` derives the rows of the first round, and ``steps`` the rows that follow from the last round.  ``columns``
    are those that the tables must have, and ``reads`` the states among them.
    """

    state: StateSchema
    first: tuple[Derived, ...]
    steps: tuple[Derived, ...]
    columns: Mapping[str, set[str]]
    reads: tuple[StateSchema, ...]

    @property
    def last_round(self) -> str:
        """The name of the table with the rows of the last round."""
        return ROUND + suffix(self.state)

    @property
    def width(self) -> int:
        """The number of columns of the recursion."""
        return len(self.state.columns) - 2

    @property
    def operator(self) -> Recursive:
        """The operator of the state."""
        assert isinstance(self.state.operator, Recursive), "the state must be a recursion"
        return self.state.operator

    def first_sql(self, dialect: Dialect) -> str:
        """Return SQL for the columns of the recursion and the periods of its first round."""
        return self._sql(self.first, self.last_round, dialect)

    def next_sql(self, dialect: Dialect) -> str:
        """Return SQL for the columns of the recursion and the periods of the rows that follow from the last round."""
        return self._sql(self.steps, self.last_round, dialect)

    def _sql(self, parts: Sequence[Derived], read: str, dialect: Dialect) -> str:
        texts = []
        for part in parts:
            views = {alias: path.view + suffix(self.state) for alias, path in part.paths.items()}
            views |= dict.fromkeys(part.rounds, read)
            texts.append(lives_sql([part.life], self.state.window, views, dialect))
        return "\nUNION ALL ".join(texts)


@dataclass(frozen=True)
class ContinuedRecursion(RecursionPlan):
    """How a tick continues the stored rows of a recursion.

    ``touching`` gives the rows that a change of a table touches.  ``first`` derives the rows that follow from new rows
    of tables and from the kept rows, with their depths.
    """

    touching: tuple[Derived, ...]

    @property
    def stored(self) -> str:
        """The name of the table with the stored rows, their periods in the window, and their depths."""
        return f"stored_{self.last_round}"

    @property
    def touched(self) -> str:
        """The name of the table with the touched rows, in the form of ``stored``."""
        return f"touched_{self.last_round}"

    @property
    def kept(self) -> str:
        """The name of the table with the kept rows, in the form of ``stored``."""
        return f"kept_{self.last_round}"

    def first_sql(self, dialect: Dialect) -> str:
        """Return SQL for the rows that follow from new rows of tables: columns, periods and depths."""
        return self._sql(self.first, self.kept, dialect)

    def touching_sql(self, dialect: Dialect) -> str:
        """Return SQL whose first columns are those of the rows that ``touching`` gives."""
        return self._sql(self.touching, self.stored, dialect)

    def again_sql(self, keys: Keys, dialect: Dialect) -> str:
        """Return SQL for the rows that ``again`` derives: columns, periods and depths."""
        return self._sql(self.again(keys), self.kept, dialect)

    def again(self, keys: Keys) -> tuple[Derived, ...]:
        """Return the combinations that derive touched rows from kept rows and from rows of tables.

        The relation ``keys_view(state)`` must have the touched rows, in the columns of ``keys``.
        """
        rows, _, _ = _parted(self.state, keys)
        bound = [bound_life(again(life), self.state.window) for life in rows]
        return tuple(Derived(life, lives_paths((life,))) for life in bound)


def tables_read(parts: Sequence[Derived]) -> tuple[Access, ...]:
    """Return the access paths of range variables, without those that read all rows of the recursion or of a round."""
    every = [(alias in part.rounds, path) for part in parts for alias, path in part.paths.items()]
    return tuple(path for own, path in every if not own or isinstance(path, DeltaScan))


def recursion_plan(state: StateSchema) -> RecursionPlan:
    """Return how a tick computes all rows from the tables.  Raise DerivationError if the recursion is not linear."""
    rows, seeds, steps = _parted(state)
    paths = lives_paths(rows)
    first, rest = (tuple(Derived(life, _own(life, paths)) for life in part) for part in (seeds, steps))
    return RecursionPlan(state, first, rest, _columns(rows), states_of(rows))


def continued_recursion(state: StateSchema) -> ContinuedRecursion | None:
    """Return how a tick continues the stored rows, or None if this is impossible.

    The recursion must read stored tables.  DuckDB must compute the values as Spark does.
    """
    if not isinstance(state.operator, Recursive) or not same_in_duckdb(state):
        return None
    if not all(scan.table.source == "table" for scan in base_scans(state)):
        return None
    rows, seeds, steps = _parted(state)

    def derived(found: Callable[[Lives], Iterable[Delta]]) -> tuple[Derived, ...]:
        bound = (
            replace(delta, life=bound_life(delta.life, state.window))
            for life in (*seeds, *steps)
            for delta in found(life)
        )
        return tuple(Derived(delta.life, delta_paths(delta)) for delta in bound)

    rest = tuple(Derived(life, lives_paths((life,), {scan.alias for scan in rounds(life)})) for life in steps)
    touched = derived(lambda life: touching(life, len(state.columns) - 2))
    return ContinuedRecursion(state, derived(entering), rest, _columns(rows), states_of(rows), touched)


def _parted(state: StateSchema, keys: Keys | None = None) -> tuple[tuple[Lives, ...], list[Lives], list[Lives]]:
    """Return all lives of a recursion, those of its first rows, and those of its step."""
    inner, columns, _ = inputs(state.operator)
    rows = lives(inner, columns, None if keys is None else restricted(state, keys, columns))
    seeds, steps = list[Lives](), list[Lives]()
    for life in rows:
        (steps if is_step(life) else seeds).append(life)
    return rows, seeds, steps


def _own(life: Lives, paths: Mapping[str, Access]) -> dict[str, Access]:
    return {scan.alias: paths[scan.alias] for scan in scans_of((life,))}


def _columns(rows: Sequence[Lives]) -> dict[str, set[str]]:
    return {table: names for table, names in columns_of(rows).items() if table != ROUND}
