"""Evaluate ▽, ◇ and since at one time point, and compute the anchors to store.

For a whole batch, ``period_sql.past.anchors_to_store`` computes the same anchors. Terms and tests give the same results
as the SQL of ``formula_terms``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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

Row: TypeAlias = "tuple[Any, ...]"
Rows: TypeAlias = "dict[Row, int]"
Run: TypeAlias = "tuple[int, int]"
Anchors: TypeAlias = "dict[tuple[Row, Run | None], int]"
"""The counts of anchors, by row and run.

A run is a pair: the instants of its first and its last anchor. If the operator needs no instants, the run is None.
"""
Of: TypeAlias = Callable[[Formula], Rows]
Sums: TypeAlias = Callable[[int, int], int]


@dataclass(frozen=True)
class CurrentPoint:
    """``at`` is the instant of this time point. ``earlier`` is the instant of the previous time point, or None."""

    tp: int
    at: int
    earlier: int | None


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
    for (row, at), count in _anchors(formula, of, before, now, sums).items():
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


def _anchors(formula: Once | Since, of: Of, before: Anchors, now: CurrentPoint, sums: Sums) -> Anchors:
    """Return the old anchors for which Q1 still holds, and the anchors of this time point."""
    holds = _holding(formula, of)
    anchors = {key: count for key, count in before.items() if holds(key[0])}
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
