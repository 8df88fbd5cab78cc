"""▽, ◇ and since over a batch: their values, and what has to be stored after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from weft.algebra.formula import Once, Previous, Since, Variable, free_variables
from weft.derivation.synopsis.construct import Stored, stored_of
from weft.errors import Refused
from weft.execution.synopsis.relating import Relating, Value
from weft.sql.points import Steps
from weft.sql.points_past import Window, anchors, at_the_end, kept, lasting, near_enough, reach, seen, shifted


@dataclass
class Past:
    """``stored`` are the relations before the batch; ``keeping`` what has to be stored of them after it.

    That is a query each; None: no rows.
    """

    relating: Relating
    stored: Mapping[Stored, pa.Table]
    keeping: dict[Stored, str | None] = field(default_factory=dict)

    def previous(self, formula: Previous, value: Value) -> Value:
        """▽Q, ``value`` being that of Q."""
        relating, stored = self.relating, stored_of(formula, self.relating.semantics)
        variables = free_variables(formula)
        before, value = self._stored(stored, variables), relating.ordered(value, variables)
        self.keeping[stored] = None if value is None else at_the_end(value, relating.extent, counted=relating.counts)
        if value is None and before is None:
            return None
        query = shifted(value, relating.extent, before, counted=relating.counts)
        points = value is None or value.points
        found = relating.made(query, variables, counted=relating.counts, points=points)
        if found is None or formula.interval.everything:
            return found
        return relating.joined(found, relating.made(near_enough(formula.interval), (), counted=False, points=False))

    def once(self, formula: Once, right: Value) -> Value:
        """◇Q, ``right`` being the value of Q."""
        if formula.counting != "any":
            raise Refused("ONCE with counts is not evaluated yet")
        return self._looked_back(formula, None, right, negated=True)

    def since(self, formula: Since, left: Value, right: Value, *, negated: bool) -> Value:
        """Q1 since Q2; ``left`` is the value of Q1, or where ``negated`` of what Q1 is the negation of."""
        if formula.counting != "any":
            raise Refused("SINCE with counts is not evaluated yet")
        return self._looked_back(formula, left, right, negated=negated)

    def _looked_back(self, formula: Once | Since, left: Value, right: Value, *, negated: bool) -> Value:
        """The anchors are found and outlive what they can; what they are seen by, and what is stored of them."""
        relating = self.relating
        stored, extent = stored_of(formula, relating.semantics), relating.extent
        interval = formula.interval
        window = Window(interval, each=interval.low > 0, counted=False)
        variables = free_variables(formula)
        right, left = relating.distinct(right), relating.distinct(left)
        before = self._stored(stored, variables)
        self.keeping[stored] = None
        if right is None and before is None:
            return None
        query = anchors(relating.ordered(right, variables), before, window, extent)
        at_first = relating.made(query, variables, counted=False, points=False)
        if at_first is None:
            return None
        query = lasting(at_first, left, extent, relating.engine.dialect, negated=negated, window=window)
        found = relating.made(query, variables, counted=False, points=False)
        if found is None:
            return None
        self.keeping[stored] = kept(found, window, extent, relating.now)
        reached = relating.engine.made(reach(found.source, interval, extent)) if window.timed else None
        return relating.made(seen(found, reached, window), variables, counted=False, points=False)

    def _stored(self, stored: Stored, variables: tuple[Variable, ...]) -> Value:
        """What was stored before the batch."""
        rows = self.stored.get(stored)
        if rows is None or not rows.num_rows:
            return None
        return Steps(self.relating.given(stored, rows), variables, counted=stored.counted)
