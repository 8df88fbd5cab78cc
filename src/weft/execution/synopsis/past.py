"""Evaluate the temporal operators ▽, ◇ and since over a batch, and compute the relations to store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.algebra.formula import ALWAYS, Once, Previous, Since, Variable, free_variables
from weft.derivation.synopsis.construct import Stored, read_from, stored_of
from weft.execution.synopsis.relating import Operations, Value
from weft.period_sql.notation import POINTS, Dialect, listed
from weft.period_sql.past import (
    Window,
    anchors,
    anchors_to_store,
    at_the_end,
    lasting,
    near_enough,
    reach,
    seen,
    seen_before,
    shifted,
    since_the_last,
)
from weft.period_sql.steps import Steps, spread


@dataclass
class PastOperators:
    """Evaluates temporal operators over one batch.

    ``stored`` has the names of the relations stored before the batch. ``at`` is the instant of the last time point
    before the batch, or None for the first batch. ``keeping`` maps each relation to a query for the rows to store after
    the batch. If a relation becomes empty, the query is None.
    """

    operations: Operations
    stored: Mapping[Stored, str]
    at: int | None
    keeping: dict[Stored, str | None] = field(default_factory=dict)

    @property
    def dialect(self) -> Dialect:
        """The SQL dialect of the engine."""
        return self.operations.engine.dialect

    def previous(self, formula: Previous, value: Value) -> Value:
        """Return the value of ▽Q, given the value of Q."""
        operations, variables = self.operations, free_variables(formula)
        value = operations.ordered(value, variables)
        other = read_from(formula)
        if other is not None:
            before = self._seen_before(other, variables)
        else:
            stored = stored_of(formula, operations.semantics)
            before = self._stored(stored, variables)
            last = None if value is None else at_the_end(value, operations.extent, counted=operations.counts)
            self.keeping[stored] = last
        if value is None and before is None:
            return None
        query = shifted(value, operations.extent, before, counted=operations.counts)
        points = value is None or value.points
        result = operations.relation(query, variables, counted=operations.counts, points=points)
        if result is None or formula.interval.everything:
            return result
        return operations.where(
            result, operations.relation(near_enough(formula.interval, self.dialect), (), counted=False, points=False)
        )

    def _seen_before(self, formula: Once | Since, variables: tuple[Variable, ...]) -> Value:
        stored = stored_of(formula, self.operations.semantics)
        before = self._stored(stored, variables)
        if before is None or self.at is None or not stored.timed:
            return before
        return replace(before, source=f"({seen_before(before, formula.interval, self.at, runs=stored.runs)})")

    def once(self, formula: Once, right: Value) -> Value:
        """Return the value of ◇Q, given the value of Q."""
        return self._looked_back(formula, None, right, negated=True)

    def since(self, formula: Since, left: Value, right: Value, *, negated: bool) -> Value:
        """Return the value of the formula Q1 since Q2.

        ``left`` is the value of the first operand. If the first operand is a negation, ``negated`` is true and ``left``
        is the value of the formula below the negation.
        """
        if formula.counting != "any":
            right = self._where(right, left, negated=negated)
        return self._looked_back(formula, left, right, negated=negated)

    def _where(self, value: Value, left: Value, *, negated: bool) -> Value:
        """Return the answers in ``value`` for which Q1 holds at the same time point."""
        operations = self.operations
        left = operations.distinct(left)
        if not negated:
            return operations.where(value, left)
        return value if left is None else operations.where(value, operations.without(operations.distinct(value), left))

    def _looked_back(self, formula: Once | Since, left: Value, right: Value, *, negated: bool) -> Value:
        """Return the value of ◇ or since. Record the query that computes the relation to store."""
        operations, extent, interval = self.operations, self.operations.extent, formula.interval
        stored, variables = stored_of(formula, operations.semantics), free_variables(formula)
        before = self._stored(stored, variables)
        self.keeping[stored] = None
        if formula.counting == "second":
            return self._counted_since(stored, left, operations.distinct(right), before, negated=negated)
        counted = formula.counting == "first"
        strict = isinstance(formula, Since) and formula.strict
        window = Window(interval, each=interval.low > 0 or counted or strict, counted=counted, strict=strict)
        right = right if counted else operations.distinct(right)
        lasting_anchors = self._lasting(
            window, operations.distinct(left), operations.ordered(right, variables), before, negated=negated
        )
        if lasting_anchors is None:
            return None
        self.keeping[stored] = anchors_to_store(lasting_anchors, window, extent, operations.now, self.dialect)
        reached = (
            operations.table(reach(lasting_anchors.source, window, extent, self.dialect)) if window.timed else None
        )
        query = seen(lasting_anchors, reached, window, self.dialect)
        return operations.relation(query, variables, counted=counted, points=False)

    def _lasting(self, window: Window, left: Value, right: Value, before: Value, *, negated: bool) -> Value:
        """Return the anchors. Each anchor ends at the first later time point at which Q1 fails."""
        operations = self.operations
        one = right or before
        if one is None:
            return None
        query = anchors(right, before, window, operations.extent, self.dialect)
        result = operations.relation(query, one.variables, counted=window.counted, points=False)
        if result is None:
            return None
        query = lasting(result, left, operations.extent, self.dialect, negated=negated, window=window)
        return operations.relation(query, result.variables, counted=window.counted, points=False)

    def _counted_since(self, stored: Stored, left: Value, right: Value, before: Value, *, negated: bool) -> Value:
        operations, variables = self.operations, free_variables(stored.formula)
        right = operations.ordered(right, variables)
        window = Window(ALWAYS, each=False, counted=False)
        result = self._lasting(window, operations.distinct(left), right, before, negated=negated)
        alive = (
            None
            if result is None
            else operations.relation(seen(result, None, window, self.dialect), variables, counted=False, points=False)
        )
        if alive is None:
            return None
        each = f"SELECT {listed(POINTS.columns(len(variables)), 'tp AS from_tp', 'tp + 1 AS to_tp')} FROM "
        each += f"({spread(alive, self.dialect)}) AS alive"
        alive = operations.relation(each, variables, counted=False, points=True)
        held = alive if negated else operations.ordered(operations.joined(alive, left), variables)
        if held is None:
            return None
        query = since_the_last(held, right, before, self.dialect)
        result = operations.relation(query, variables, counted=True, points=True)
        self.keeping[stored] = None if result is None else at_the_end(result, operations.extent, counted=True)
        return result

    def _stored(self, stored: Stored, variables: tuple[Variable, ...]) -> Value:
        name = self.stored.get(stored)
        return None if name is None else Steps(name, variables, counted=stored.counted)
