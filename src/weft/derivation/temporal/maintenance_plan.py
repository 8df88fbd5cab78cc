"""Derive the maintenance plan of a view: its deltas for a refresh and for each set of tables that change together.

To bring a view from its last refresh t to t_now, a runtime takes the following steps (algorithm of section 4):

1. Compute ``refresh`` over the recorded tables as of t, with ``:refreshed`` = t and NOW = t_now.  Apply the result:
   V − ∇V ∪ ΔV.
2. For a change with the date t_now, compute ``change(tables)`` over the tables before the change, with NOW = t_now.
   The runtime supplies ∇R and ΔR (∇R − R = ∅, ΔR ∩ R = ∅), and ``:changed_from``, their first instant.  Apply the
   result.
3. Apply ∇R and ΔR to the tables themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from weft.algebra.relation import Scan, Select
from weft.algebra.schema import TableSchema
from weft.algebra.temporal import Semijoin, Temporal, each, inputs
from weft.derivation.temporal.delta import Delta
from weft.derivation.temporal.delta_propagation import BOTH, Kind, change_delta, refresh_delta
from weft.derivation.temporal.measures import maintainable_form
from weft.derivation.temporal.refresh_terms import is_window
from weft.derivation.temporal.rules import DerivationStep, DerivationTrace, Dropped
from weft.derivation.temporal.semijoin_reduction import reduce_by_semijoins
from weft.derivation.temporal.timeslice_pushdown import push_timeslices


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
    def reads(self) -> tuple[Scan, ...]:
        """The recorded relations that the expressions read, each once.  ∇R and ΔR are not recorded relations."""
        return tuple(dict.fromkeys(chain.from_iterable(map(_read, self._parts))))

    @property
    def reads_whole(self) -> tuple[Scan, ...]:
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

    @property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables that the view reads."""
        return tuple(dict.fromkeys(part.table for part in each(self.view) if isinstance(part, Scan)))

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
        return _derived(refresh_delta(self.view, trace), trace)


@lru_cache(maxsize=1_000)
def maintenance(expression: Temporal) -> Maintenance:
    """Return the maintenance of a view."""
    return Maintenance(maintainable_form(expression))


@lru_cache(maxsize=1_000)
def _changed(plan: Maintenance, tables: frozenset[TableSchema], kinds: frozenset[Kind]) -> Derived:
    trace = DerivationTrace()
    return _derived(change_delta(plan.view, tables, trace, kinds), trace)


def _derived(delta: Delta, trace: DerivationTrace) -> Derived:
    gone, came = (
        None if part is None else push_timeslices(reduce_by_semijoins(part)) for part in (delta.deleted, delta.inserted)
    )
    return Derived(gone, came, delta, tuple(trace.steps), tuple(trace.dropped))


def _read(relation: Temporal) -> frozenset[Scan]:
    return frozenset(part for part in _parts(relation) if isinstance(part, Scan))


def _read_whole(relation: Temporal) -> frozenset[Scan]:
    """Return the base relations that are neither on the left of ⋉ nor under a window of first or last instants."""
    whole = {relation}
    for part in _parts(relation):
        match part:
            case Semijoin(right=right):
                whole.add(right)
            case Select(predicate=predicate) if is_window(predicate):
                pass
            case _:
                whole.update(inputs(part))
    return frozenset(part for part in whole if isinstance(part, Scan))


def _parts(relation: Temporal) -> tuple[Temporal, ...]:
    expressions: dict[Temporal, None] = {}
    waiting = [relation]
    while waiting:
        part = waiting.pop()
        if part not in expressions:
            expressions[part] = None
            waiting.extend(inputs(part))
    return tuple(expressions)
