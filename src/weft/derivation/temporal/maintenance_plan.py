"""Derive the maintenance plan of a view: its deltas for a refresh and for each set of tables that change together.

To bring a view from its last refresh t to t_now, a runtime takes the following steps (algorithm of section 4):

1. Compute ``refresh`` over the recorded tables as of t, with ``:refreshed`` = t and NOW = t_now.  Apply the result:
   V − ∇V ∪ ΔV.
2. For a change with the date t_now, compute ``change(tables)`` over the tables before the change, with NOW = t_now.
   The runtime supplies ∇R and ΔR (∇R − R = ∅, ΔR ∩ R = ∅), and ``:changed_from``, their first instant.  Apply the
   result.
3. Apply ∇R and ΔR to the tables themselves.

Where the rules read the value of the view before the change, such as π(R) in (c.8) and Π(R) in (c.17), the stored view
has this value, and no rows of R are read (``with_own_rows``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain

from weft.algebra.relation import Grouped, Output, Project, Scan, Select
from weft.algebra.schema import TableSchema
from weft.algebra.temporal import Semijoin, Temporal, attributes, each, inputs, over
from weft.derivation.temporal.delta import Delta, changed_table, renamed
from weft.derivation.temporal.delta_propagation import BOTH, Kind, change_delta, refresh_delta
from weft.derivation.temporal.judging import state_at_refresh
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
    own: TableSchema | None = None
    """The table of the stored view, if its rows may be read in place of the rows of tables."""

    def with_own_rows(self, own: TableSchema) -> Maintenance:
        """Return the maintenance that reads the stored view ``own`` where a rule reads the view before the change.

        A refresh reads the view as stored at t.  A change reads the view after the refresh to t_now.
        """
        return _with_own_rows(self, own)

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
        return _derived(self, refresh_delta(self.view, trace), trace, at_refresh=True)


@lru_cache(maxsize=1_000)
def maintenance(expression: Temporal) -> Maintenance:
    """Return the maintenance of a view."""
    return Maintenance(maintainable_form(expression))


@lru_cache(maxsize=1_000)
def _changed(plan: Maintenance, tables: frozenset[TableSchema], kinds: frozenset[Kind]) -> Derived:
    trace = DerivationTrace()
    return _derived(plan, change_delta(plan.view, tables, trace, kinds), trace)


@lru_cache(maxsize=1_000)
def _with_own_rows(plan: Maintenance, own: TableSchema) -> Maintenance:
    return replace(plan, own=own)


def _derived(plan: Maintenance, delta: Delta, trace: DerivationTrace, *, at_refresh: bool = False) -> Derived:
    gone, came = delta.deleted, delta.inserted
    for part, stored in () if plan.own is None else stored_parts(plan.view, plan.own):
        before = state_at_refresh(part) if at_refresh else part
        gone, came = (each and replaced(each, before, stored) for each in (gone, came))
    gone, came = (part and push_timeslices(reduce_by_semijoins(part)) for part in (gone, came))
    return Derived(gone, came, delta, tuple(trace.steps), tuple(trace.dropped))


def stored_parts(view: Temporal, own: TableSchema) -> tuple[tuple[Temporal, Temporal], ...]:
    """Return the parts of the view whose rows the table ``own`` has, each with an expression over the table.

    One part is the view itself, which the rules of π, ∪ and EX read.  If the columns of the view are all groups and
    measures of an aggregation, the other is the aggregation.  The result is empty if a column has another type.
    """
    table = Scan(own, "V")
    rows = attributes(table)
    if [ref.type for ref in rows] != [ref.type for ref in attributes(view)]:
        return ()
    whole = (view, renamed(table, view))
    if not isinstance(view, Project) or not isinstance(view.input, Grouped):
        return (whole,)
    places = dict(zip((each.value for each in view.outputs), rows, strict=True))
    if places.keys() != set(attributes(view.input)) or any(one.type != other.type for one, other in places.items()):
        return (whole,)
    outputs = tuple(Output(ref.column, places[ref]) for ref in attributes(view.input))
    return whole, (view.input, Project(table, view.input.alias, outputs))


def replaced(relation: Temporal, part: Temporal, other: Temporal) -> Temporal:
    """Replace each occurrence of ``part`` in an expression by ``other``."""
    made = {part: other}

    def change(old: Temporal) -> Temporal:
        if old not in made:
            made[old] = over(old, tuple(map(change, inputs(old))))
        return made[old]

    return change(relation)


def _read(relation: Temporal) -> frozenset[Scan]:
    return frozenset(part for part in _parts(relation) if isinstance(part, Scan))


def _read_whole(relation: Temporal) -> frozenset[Scan]:
    """Return the base relations that are neither on the left of ⋉ nor under a window of first or last instants."""
    whole: set[Scan] = set()
    waiting: dict[tuple[Temporal, bool], None] = {(relation, True): None}
    for part, directly in (pairs := [*waiting]):
        base = part if isinstance(part, Scan) else changed_table(part)
        if base is not None:
            whole |= {base} if directly else set()
            continue
        limited = isinstance(part, Select) and is_window(part.predicate)
        below = [(each, not limited) for each in inputs(part)]
        if isinstance(part, Semijoin):
            below = [(part.left, False), (part.right, True)]
        new = [each for each in below if each not in waiting]
        waiting |= dict.fromkeys(new)
        pairs += dict.fromkeys(new)
    return frozenset(whole)


def _parts(relation: Temporal) -> tuple[Temporal, ...]:
    expressions: dict[Temporal, None] = {}
    waiting = [relation]
    while waiting:
        part = waiting.pop()
        if part not in expressions:
            expressions[part] = None
            waiting.extend(inputs(part))
    return tuple(expressions)
