"""Evaluate constant terms with MonPoly's arithmetic."""

from __future__ import annotations

import math

from weft.algebra.formula import Computed, Constant, Operation, Term
from weft.algebra.schema import BIGINT, DOUBLE, DataType


def worked_out(operation: str, arguments: tuple[Term, ...], result: DataType) -> Term:
    """Return the operation over the terms, or its value if all are constants; raise ArithmeticError if it has no
    value.
    """
    named: Operation = operation  # type: ignore[assignment]
    values = [argument.value for argument in arguments if isinstance(argument, Constant)]
    if len(values) < len(arguments):
        return Computed(named, arguments, result)
    value = _value(operation, [value for value in values if not isinstance(value, str)])
    if beyond_64_bits(value):
        raise ArithmeticError(f"{value} does not fit into an integer")
    return Constant(value, DOUBLE if isinstance(value, float) else BIGINT)


def beyond_64_bits(value: int | float | str) -> bool:
    """Return whether a value is an integer outside the range of BIGINT."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _value(operation: str, values: list[int | float]) -> int | float:
    first = values[0]
    match operation:
        case "negate":
            return -first
        case "i2f":
            return float(first)
        case "f2i":
            return int(first) if math.isfinite(first) else 0
        case _:
            return _binary(operation, first, values[1])


def _binary(operation: str, first: int | float, second: int | float) -> int | float:
    match operation:
        case "+":
            return first + second
        case "-":
            return first - second
        case "*":
            return first * second
        case _:
            return _quotient(operation, first, second)


def _quotient(operation: str, first: int | float, second: int | float) -> int | float:
    """Return ``/`` or ``MOD``; integers round towards zero, as in C."""
    if second == 0:
        raise ArithmeticError("it divides by zero")
    if isinstance(first, float) or isinstance(second, float):
        return first / second
    quotient = abs(first) // abs(second) * (1 if (first < 0) == (second < 0) else -1)
    return quotient if operation == "/" else first - second * quotient
