"""Derive the maintenance plan of a view: its deltas for a refresh and for each set of tables that change together.

To bring a view from its last refresh t to t_now, a runtime takes the following steps (algorithm of section 4):

1. Compute ``refresh`` over the recorded tables as of t, with ``:refreshed`` = t and NOW = t_now.  Apply the result:
   V − ∇V ∪ ΔV.
2. For a change with the date t_now, compute ``change(tables)`` over the tables before the change, with NOW = t_now.
   The runtime supplies ∇R and ΔR (∇R − R = ∅, ΔR ∩ R = ∅), and ``:changed_from``, their first instant.  Apply the
   result.
3. Apply ∇R and ΔR to the tables themselves.

``stored`` has pairs (expression, table), and the table replaces the expression.  An expression is the view itself, or
an aggregate in the view (``states``).  In a refresh, the table has the state at t.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from weft.algebra.schema import TableSchema
from weft.algebra.temporal import (
    Aggregation,
    Base,
    Selection,
    Semijoin,
    Temporal,
    attributes,
    each,
    inputs,
    over,
)
from weft.derivation.temporal.delta import Delta
from weft.derivation.temporal.delta_propagation import BOTH, Kind, change_delta, refresh_delta
from weft.derivation.temporal.judging import state_at_refresh
from weft.derivation.temporal.measures import maintainable_form
from weft.derivation.temporal.refresh_terms import is_window
from weft.derivation.temporal.rules import DerivationStep, DerivationTrace, Dropped
from weft.derivation.temporal.semijoin_reduction import reduce_by_semijoins
from weft.derivation.temporal.timeslice_pushdown import push_timeslices
from weft.errors import DerivationError

Kept = tuple[tuple[Temporal, Base], ...]
"""Pairs of an expression in ``maintainable_form`` and the table that stores the rows of the expression."""


@dataclass(frozen=True)
class Derived:
    """A derived delta ∇V and ΔV, with its equations in order and its dropped terms.

    If ``deleted`` or ``inserted`` is None, that part is empty for all data.  ``literal`` is the delta that the paper's
    equations give, before the restriction to touched keys.
    """

    deleted: Temporal | None
    inserted: Temporal | None
    literal: Delta
    trace: tuple[DerivationStep, ...]
    dropped: tuple[Dropped, ...]

    @property
    def empty(self) -> bool:
        """Whether the delta is known to be empty for all data."""
        return self.deleted is None and self.inserted is None

    @property
    def reads(self) -> tuple[Base, ...]:
        """The recorded relations that the expressions read, each once.  ∇R and ΔR are not recorded relations."""
        return tuple(dict.fromkeys(chain.from_iterable(map(_read, self._parts))))

    @property
    def reads_whole(self) -> tuple[Base, ...]:
        """The recorded relations that an expression reads without a look-up of keys and without a window of instants.

        The operator FR may limit the read to rows that hold at the beginning of the change or later.
        """
        return tuple(dict.fromkeys(chain.from_iterable(map(_read_whole, self._parts))))

    @property
    def _parts(self) -> tuple[Temporal, ...]:
        return tuple(part for part in (self.deleted, self.inserted) if part is not None)


@dataclass(frozen=True)
class Maintenance:
    """The maintenance of one view, where ``view`` is the view's expression in ``maintainable_form``."""

    view: Temporal
    stored: Kept = ()

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables that the view reads."""
        return tuple(dict.fromkeys(part.table for part in each(self.view) if isinstance(part, Base)))

    def change(self, tables: Iterable[TableSchema], kinds: Collection[Kind] = BOTH) -> Derived:
        """Return ∇V and ΔV for a change of these tables at one instant.

        ``kinds`` limits the change to deletions or to insertions.  Raise DerivationError for an operator without a
        rule.
        """
        return _changed(self, frozenset(tables) & frozenset(self.tables), frozenset(kinds))

    @cached_property
    def refresh(self) -> Derived:
        """The delta ∇V and ΔV for the passing of time from ``:refreshed`` to t_now.

        Raise DerivationError for an operator without a rule.
        """
        trace = DerivationTrace()
        delta = refresh_delta(self.view, trace)
        return _derived(delta, trace, {state_at_refresh(expression): base for expression, base in self.stored})

    @property
    def needs_refresh(self) -> bool:
        """Whether the passing of time can change the view, apart from the extension of open periods."""
        return not self.refresh.empty


@lru_cache(maxsize=1_000)
def maintenance(expression: Temporal, stored: Kept = ()) -> Maintenance:
    """Return the maintenance of a view.  ``stored`` has pairs (expression, table).

    Raise DerivationError if a stored table lacks the columns or the range variable of its expression.
    """
    for part, base in stored:
        if attributes(part) != attributes(base):
            raise DerivationError(
                f"{base.table.name} cannot store the expression: the table has the columns {_named(base)}, "
                f"but the expression has {_named(part)}",
                hint="Store the expression under one range variable, with a column for each of its attributes.",
            )
    return Maintenance(maintainable_form(expression), stored)


def states(expression: Temporal) -> tuple[Aggregation, ...]:
    """Return the aggregates of a view in ``maintainable_form``, outer aggregates first.

    If the aggregates are stored, their maintenance after a change reads no base relation.  Only floating-point sums,
    and MIN and MAX under deletion, read a base relation for the touched groups.
    """
    aggregates = (part for part in each(maintainable_form(expression)) if isinstance(part, Aggregation))
    return tuple(dict.fromkeys(aggregates))


@lru_cache(maxsize=1_000)
def _changed(plan: Maintenance, tables: frozenset[TableSchema], kinds: frozenset[Kind]) -> Derived:
    trace = DerivationTrace()
    delta = change_delta(plan.view, tables, trace, kinds)
    return _derived(delta, trace, dict(plan.stored))


def _derived(delta: Delta, trace: DerivationTrace, stored: dict[Temporal, Base]) -> Derived:
    seen: dict[Temporal, Temporal] = {}
    gone, came = (
        None if part is None else push_timeslices(reduce_by_semijoins(_standing(part, stored, seen)))
        for part in (delta.deleted, delta.inserted)
    )
    return Derived(gone, came, delta, tuple(trace.steps), tuple(trace.dropped))


def _standing(relation: Temporal, stored: dict[Temporal, Base], seen: dict[Temporal, Temporal]) -> Temporal:
    if relation in stored:
        return stored[relation]
    if relation not in seen:
        parts = tuple(_standing(part, stored, seen) for part in inputs(relation))
        seen[relation] = over(relation, parts)
    return seen[relation]


def _read(relation: Temporal) -> frozenset[Base]:
    return frozenset(part for part in _parts(relation) if isinstance(part, Base))


def _read_whole(relation: Temporal) -> frozenset[Base]:
    """Return the base relations that are neither on the left of ⋉ nor under a window of first or last instants."""
    whole = {relation}
    for part in _parts(relation):
        match part:
            case Semijoin(right=right):
                whole.add(right)
            case Selection(predicate=predicate) if is_window(predicate):
                pass
            case _:
                whole.update(inputs(part))
    return frozenset(part for part in whole if isinstance(part, Base))


def _parts(relation: Temporal) -> tuple[Temporal, ...]:
    expressions: dict[Temporal, None] = {}
    waiting = [relation]
    while waiting:
        part = waiting.pop()
        if part not in expressions:
            expressions[part] = None
            waiting.extend(inputs(part))
    return tuple(expressions)


def _named(relation: Temporal) -> str:
    return ", ".join(f"{ref.scan}.{ref.column} {ref.type}" for ref in attributes(relation))
