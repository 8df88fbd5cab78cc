"""Evaluate ▽, ◇ and since at one time point, and compute the anchors to store.

For a whole batch, ``period_sql.past.anchors_to_store`` computes the same anchors. Terms and tests give the same results
as the SQL of ``formula_terms``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from weft.algebra.formula import (
    Aggregate,
    Comparison,
    Computed,
    Constant,
    Formula,
    Interval,
    Matches,
    Not,
    Once,
    Previous,
    Since,
    Term,
    Variable,
    free_variables,
)
from weft.algebra.schema import DOUBLE, INTEGRAL
from weft.derivation.synopsis.divisions import dividing
from weft.errors import DerivationError, ExecutionError
from weft.execution.synopsis.changing_rows import ChangingRows, Combine, Row, Rows, picked, places_of

Run: TypeAlias = "tuple[int, int]"
Anchors: TypeAlias = "dict[tuple[Row, Run | None], int]"
"""The counts of anchors, by row and run.

A run is a pair: the instants of its first and its last anchor. If the operator needs no instants, the run is None.
"""
Of: TypeAlias = Callable[[Formula], Rows]
Sums: TypeAlias = Combine
Values: TypeAlias = Callable[[Formula], ChangingRows]


@dataclass(frozen=True)
class CurrentPoint:
    """``at`` is the instant of this time point. ``earlier`` is the instant of the previous time point, or None."""

    tp: int
    at: int
    earlier: int | None


class Past(Protocol):
    """A part of a formula that refers to earlier time points: ▽, ◇ or since."""

    value: ChangingRows

    def refresh(self, now: CurrentPoint) -> None:
        """Update the value to the time point ``now``. The values of the operands are up to date, except for ▽."""

    def advance(self, now: CurrentPoint) -> None:
        """Prepare the next time point. The values of all operands are up to date."""

    def anchors(self) -> Anchors:
        """Return the anchors to store after the last time point."""


def past(formula: Previous | Once | Since, values: Values, before: Anchors, sums: Sums) -> Past:
    """Return ▽, ◇ or since. ``values`` returns the value of a subformula. ``before`` has the stored anchors."""
    value = ChangingRows(free_variables(formula))
    if formula.interval.everything and isinstance(formula, Previous):
        return _Lagging(value, formula, values, {row: count for (row, _), count in before.items()})
    if formula.interval.everything and isinstance(formula, (Once, Since)) and formula.counting == "any":
        for row, _ in before:
            value.put(row, 1)
        return _Held(value, formula, values)
    return _Again(value, formula, lambda part: values(part).rows, before, sums)


@dataclass
class _Lagging:
    """▽ without an interval. ``waiting`` has the rows that changed at the previous time point, and their counts."""

    value: ChangingRows
    formula: Previous
    values: Values
    waiting: Rows
    started: bool = False

    def refresh(self, now: CurrentPoint) -> None:
        for row, count in self.waiting.items():
            self.value.put(row, count)

    def advance(self, now: CurrentPoint) -> None:
        operand = self.values(self.formula.formula)
        changed = operand.changed if self.started else self.value.rows | operand.rows
        self.started = True
        self.waiting = {row: operand.rows.get(row, 0) for row in changed}

    def anchors(self) -> Anchors:
        return {(row, None): count for row, count in self.values(self.formula.formula).rows.items()}


@dataclass
class _Held:
    """◇ or since with sets and without an interval. The value is also the set of the anchors.

    An anchor can end only if a row of an operand has changed.
    """

    value: ChangingRows
    formula: Once | Since
    values: Values
    started: bool = False
    left: ChangingRows | None = field(init=False, default=None)
    negated: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        right = self.formula.right if isinstance(self.formula, Since) else self.formula.formula
        self.right = self.values(right)
        self.order = places_of(self.right.variables, self.value.variables)
        self.to_right = places_of(self.value.variables, self.right.variables)
        if isinstance(self.formula, Since):
            left = self.formula.left
            self.negated = isinstance(left, Not)
            self.left = self.values(left.formula if isinstance(left, Not) else left)
            self.places = places_of(self.value.variables, self.left.variables)

    def refresh(self, now: CurrentPoint) -> None:
        affected: dict[Row, None] = {} if self.started else dict.fromkeys(self.value.rows)
        self.started = True
        if self.left is not None:
            for key in self.left.changed:
                affected.update(dict.fromkeys(self.value.having(self.places, key)))
        affected.update(dict.fromkeys(picked(row, self.order) for row in self.right.changed))
        for row in affected:
            here = picked(row, self.to_right) in self.right.rows
            self.value.put(row, int(here or (row in self.value.rows and self._holds(row))))

    def _holds(self, row: Row) -> bool:
        return self.left is None or (picked(row, self.places) in self.left.rows) is not self.negated

    def advance(self, now: CurrentPoint) -> None:
        """The value has the anchors already."""

    def anchors(self) -> Anchors:
        return {(row, None): 1 for row in self.value.rows}


@dataclass
class _Again:
    """Any other operator: all its anchors are looked at in each state."""

    value: ChangingRows
    formula: Previous | Once | Since
    of: Of
    before: Anchors
    sums: Sums

    def refresh(self, now: CurrentPoint) -> None:
        self.value.replace(looked_back(self.formula, self.of, self.before, now, sums=self.sums))

    def advance(self, now: CurrentPoint) -> None:
        self.before = after(self.formula, self.of, self.before, now, sums=self.sums)

    def anchors(self) -> Anchors:
        return self.before


def looked_back(formula: Formula, of: Of, before: Anchors, now: CurrentPoint, *, sums: Sums) -> Rows:
    """Return the value of a temporal formula at a time point. ``of`` returns the value of a subformula."""
    if isinstance(formula, Previous):
        if now.earlier is None or not _within(formula.interval, now.at - now.earlier):
            return {}
        return {row: count for (row, _), count in before.items()}
    assert isinstance(formula, (Once, Since))
    if formula.counting == "second":
        return _counted_since(formula, of, before)
    rows: Rows = {}
    strict = isinstance(formula, Since) and formula.strict
    anchors = _lasting(formula, of, before) if strict else _anchors(formula, of, before, now, sums)
    for (row, at), count in anchors.items():
        if at is None or _seen(formula.interval, at, now.at):
            rows[row] = count if formula.counting == "any" else sums(rows.get(row, 0), count)
    return rows


def after(formula: Formula, of: Of, before: Anchors, now: CurrentPoint, *, sums: Sums) -> Anchors:
    """Return the anchors that a temporal formula stores after a time point. ``of`` evaluates a subformula."""
    if isinstance(formula, Previous):
        return {(row, None): count for row, count in of(formula.formula).items()}
    assert isinstance(formula, (Once, Since))
    if formula.counting == "second":
        return {(row, None): count for row, count in _counted_since(formula, of, before).items()}
    return _stored_anchors(_anchors(formula, of, before, now, sums), formula, now, sums)


def _seen(interval: Interval, run: Run, now: int) -> bool:
    first, last = run
    return interval.low <= now - first and (interval.high is None or now - last <= interval.high)


def _within(interval: Interval, distance: int) -> bool:
    return interval.low <= distance and (interval.high is None or distance <= interval.high)


def _holding(formula: Once | Since, of: Of) -> Callable[[Row], bool]:
    if isinstance(formula, Once):
        return lambda row: True
    negated = isinstance(formula.left, Not)
    left = formula.left.formula if isinstance(formula.left, Not) else formula.left
    places = _places(formula, free_variables(left))
    rows = of(left)
    return lambda row: (tuple(row[place] for place in places) in rows) is not negated


def _places(formula: Formula, wanted: tuple[Variable, ...]) -> list[int]:
    variables = free_variables(formula)
    return [variables.index(each) for each in wanted]


def _new(formula: Once | Since, of: Of) -> Rows:
    right = formula.formula if isinstance(formula, Once) else formula.right
    variables = free_variables(right)
    places = [variables.index(each) for each in free_variables(formula)]
    return {tuple(row[place] for place in places): count for row, count in of(right).items()}


def _lasting(formula: Once | Since, of: Of, before: Anchors) -> Anchors:
    """Return the old anchors for which Q1 still holds."""
    holds = _holding(formula, of)
    return {key: count for key, count in before.items() if holds(key[0])}


def _anchors(formula: Once | Since, of: Of, before: Anchors, now: CurrentPoint, sums: Sums) -> Anchors:
    """Return the old anchors for which Q1 still holds, and the anchors of this time point."""
    holds = _holding(formula, of)
    anchors = _lasting(formula, of, before)
    at = None if formula.interval.everything else (now.at, now.at)
    for row, count in _new(formula, of).items():
        if formula.counting == "any":
            anchors[row, at] = 1
        elif holds(row):
            anchors[row, at] = sums(anchors.get((row, at), 0), count)
    return anchors


def _stored_anchors(anchors: Anchors, formula: Once | Since, now: CurrentPoint, sums: Sums) -> Anchors:
    low, high = formula.interval.low, formula.interval.high
    if formula.interval.everything:
        return anchors
    if formula.counting == "any" and low > 0 and high is not None:
        return {(row, run): 1 for row, run in _runs(anchors, high - low + 1) if run[1] >= now.at - high}
    there: Anchors = {(row, at): n for (row, at), n in _timed(anchors) if high is None or at[1] >= now.at - high}
    if formula.counting == "any":
        best = min if high is None else max
        runs: dict[Row, Run] = {}
        for (row, at), _ in _timed(there):
            runs[row] = best(runs.get(row, at), at)
        return dict.fromkeys(runs.items(), 1)
    return there if high is not None else _old_ones_together(there, now.at - low, sums)


def _timed(anchors: Anchors) -> Iterator[tuple[tuple[Row, Run], int]]:
    for (row, at), count in anchors.items():
        if at is None:
            raise DerivationError("an anchor without an instant")
        yield (row, at), count


def _runs(anchors: Anchors, reach: int) -> Iterator[tuple[Row, Run]]:
    """Join two runs of a row if the second starts at most ``reach`` microseconds after the end of the first."""
    by_row: dict[Row, list[Run]] = {}
    for (row, at), _ in _timed(anchors):
        by_row.setdefault(row, []).append(at)
    for row, runs in by_row.items():
        first, last = min(runs)
        for one in sorted(runs):
            if one[0] > last + reach:
                yield row, (first, last)
                first, last = one
            last = max(last, one[1])
        yield row, (first, last)


def _old_ones_together(anchors: Anchors, since: int, sums: Sums) -> Anchors:
    """Merge the anchors of a row up to the instant ``since``. Every later time point sees all these anchors."""
    recent: Anchors = {}
    old: dict[Row, tuple[Run, int]] = {}
    for (row, at), count in _timed(anchors):
        if at[0] > since:
            recent[row, at] = count
        else:
            instant, number = old.get(row, (at, 0))
            old[row] = max(instant, at), sums(number, count)
    return {**recent, **{(row, at): count for row, (at, count) in old.items()}}


def _counted_since(formula: Once | Since, of: Of, before: Anchors) -> Rows:
    marks = _new(formula, of)
    rows: Rows = {}
    left = Not(formula) if isinstance(formula, Once) else formula.left
    counts = {} if isinstance(left, Not) else of(left)
    places = _places(formula, () if isinstance(left, Not) else free_variables(left))
    holds = _holding(formula, of)
    for row in {row for row, _ in before} | set(marks):
        if holds(row):
            once = 1 if isinstance(left, Not) else counts[tuple(row[place] for place in places)]
            rows[row] = once + (0 if row in marks else before.get((row, None), 0))
    return rows


Given = Mapping[Variable, Any]
_LARGEST = 2**63


def value(term: Term, row: Given) -> Any:
    """Return the value of a term for a row. Raise ExecutionError if an integer exceeds BIGINT.

    The caller must rule out a division by 0 with ``divided_by_0``.
    """
    match term:
        case Variable():
            return row[term]
        case Constant(value=constant):
            return constant
        case Computed(operation=operation, arguments=arguments, type=type):
            values = [value(argument, row) for argument in arguments]
            return _in_range(_computed(operation, values, exact=type != DOUBLE))


def _in_range(number: Any) -> Any:
    if isinstance(number, int) and not -_LARGEST <= number < _LARGEST:
        raise ExecutionError(f"a batch of states cannot be evaluated: {number} exceeds BIGINT")
    return one_nan(number)


def one_nan(number: Any) -> Any:
    """Return the number. For any NaN, return the same object, so that dictionaries find rows with NaN."""
    return number if number == number else math.nan


def _computed(operation: str, values: Sequence[Any], *, exact: bool) -> Any:
    match operation:
        case "negate":
            return -values[0]
        case "i2f":
            return float(values[0])
        case "f2i":
            return int(values[0]) if abs(values[0]) < 9.2e18 else 0
        case "+":
            return values[0] + values[1]
        case "-":
            return values[0] - values[1]
        case "*":
            return values[0] * values[1]
        case _:
            return _divided(operation, values[0], values[1]) if exact else _quotient(values[0], values[1])


def _divided(operation: str, a: int, b: int) -> int:
    """Divide as SQL does: a quotient is truncated toward zero, and a remainder has the sign of the dividend."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if operation == "/" else a - b * quotient


def _quotient(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def divided_by_0(test: Formula, row: Given) -> Computed | None:
    """Return the first division by 0 in a test, or None."""
    return next((each for each in dividing(test) if value(each.arguments[1], row) == 0), None)


def satisfied(test: Comparison | Matches, row: Given) -> bool:
    """Return whether a test holds for a row."""
    if isinstance(test, Matches):
        matched = groups_of(test, row)
        groups = enumerate(test.groups, 1)
        return matched is not None and all(each is None or matched[n] == value(each, row) for n, each in groups)
    one, other = value(test.left, row), value(test.right, row)
    match test.operator:
        case "substring":
            return one in other
        case "=":
            return same_value(one, other)
        case "<>":
            return not same_value(one, other)
        case "<":
            return _less(one, other)
        case "<=":
            return _less(one, other) or same_value(one, other)


def groups_of(test: Matches, row: Given) -> re.Match[str] | None:
    """Return the first match of the pattern in the text, or None. A group that took no part in the match is None.

    Raise ExecutionError if Python does not support the RE2 syntax of the pattern.
    """
    try:
        return re.search(test.pattern, value(test.text, row))
    except re.error as error:
        raise ExecutionError(
            f"the pattern {test.pattern!r} cannot be evaluated in a formula with a fixpoint: {error}",
            hint="Avoid syntax that only RE2 has, or move the pattern out of the fixpoint.",
        ) from error


def same_value(one: Any, other: Any) -> bool:
    """Return whether two values are equal. As in SQL, NaN equals NaN."""
    return bool(one == other or (one != one and other != other))


def _place(number: Any) -> tuple[bool, Any]:
    """Return a sort key that places NaN after all other numbers."""
    return number != number, number


def _less(one: Any, other: Any) -> bool:
    """Compare two numbers. NaN is greater than any other number."""
    return bool(one < other or (one == one and other != other))


def measured(formula: Aggregate, items: Sequence[Any]) -> Any:
    """Compute an aggregate in the same way as SQL. For an empty group, return the value that MonPoly defines."""
    function, type = formula.function, formula.output.type
    if not items:
        infinite = math.inf if function == "MIN" else -math.inf
        of_doubles = infinite if function in ("MIN", "MAX") else 0.0
        return of_doubles if type == DOUBLE else 0 if type.name in INTEGRAL else ""
    match function:
        case "CNT":
            result: Any = len(items)
        case "SUM":
            result = sum(sorted(items, key=_place))
        case "AVG":
            result = float(sum(sorted(items, key=_place))) / len(items)
        case "MIN":
            result = min(items, key=_place)
        case "MAX":
            result = max(items, key=_place)
        case "MED":
            result = _median(sorted(items, key=_place))
    return _in_range(int(result) if type.name in INTEGRAL else result)


def _median(items: Sequence[Any]) -> float:
    middle = len(items) // 2
    if len(items) % 2:
        return float(items[middle])
    return float(items[middle - 1]) + (float(items[middle]) - float(items[middle - 1])) / 2
