"""Evaluate terms and tests for one row, with the same results as the SQL of ``points_terms``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from weft.algebra.formula import Aggregate, Comparison, Computed, Constant, Formula, Matches, Term, Variable
from weft.algebra.schema import DOUBLE, INTEGRAL
from weft.derivation.synopsis.divisions import dividing
from weft.errors import ExecutionError

Given = Mapping[Variable, Any]
_LARGEST = 2**63


def value(term: Term, row: Given) -> Any:
    """Return a term's value. Raise ExecutionError beyond BIGINT. The caller excludes divisors 0 (``divided_by_0``)."""
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
    """Return the value, with one object for every NaN, so that dictionaries find rows with NaN."""
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
    """Truncate toward zero; the remainder has the sign of the dividend."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if operation == "/" else a - b * quotient


def _quotient(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def divided_by_0(test: Formula, row: Given) -> Computed | None:
    """Return the first division of a test whose divisor is 0 in a row, or None."""
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
    """Return the first match of a pattern, or None. In the match, a group that took no part is None.

    Raise ExecutionError for a pattern that only RE2 understands.
    """
    try:
        return re.search(test.pattern, value(test.text, row))
    except re.error as error:
        raise ExecutionError(
            f"the pattern {test.pattern!r} cannot be evaluated beside a fixpoint: {error}",
            hint="Avoid syntax that only RE2 has, or move the pattern out of the fixpoint.",
        ) from error


def same_value(one: Any, other: Any) -> bool:
    """Return whether two values are equal; NaN equals NaN, as in SQL."""
    return bool(one == other or (one != one and other != other))


def _place(number: Any) -> tuple[bool, Any]:
    """Return a sort key; NaN comes last."""
    return number != number, number


def _less(one: Any, other: Any) -> bool:
    """Compare two values; NaN is greater than any number."""
    return bool(one < other or (one == one and other != other))


def measured(formula: Aggregate, items: Sequence[Any]) -> Any:
    """Return an aggregate of a group's items, as SQL computes it; for an empty group, as MonPoly computes it."""
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
