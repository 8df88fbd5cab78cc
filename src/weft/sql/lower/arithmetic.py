"""Translate the operators +, -, *, / and % on numbers and times, with Spark's result types."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from weft.algebra.scalar import Call, Cast, Literal, Scalar
from weft.algebra.schema import DATE, INTEGRAL, INTERVAL, MONTHS, NULL, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.sql.functions import arithmetic
from weft.sql.lower import literals
from weft.sql.lower.advice import ADVICE
from weft.sql.lower.conversion import converted
from weft.sql.lower.intervals import divided
from weft.sql.lower.refusal import place
from weft.sql.lower.rewriting import as_number

_TIMES = (TIMESTAMP, DATE)
_OF_DAYS = "weft_of_days"
"""The metadata key for a difference of two DATEs, which has the type INTERVAL DAY in Spark."""


def combined(operator: str, left: Scalar, right: Scalar, node: exp.Expr) -> Scalar:
    """Translate ``left operator right``.  Raise SqlError if the operator does not accept the types."""
    timely = _time_arithmetic(operator, left, right, node)
    if timely is not None:
        return timely
    if not (left.type.numeric or left.type == NULL) or not (right.type.numeric or right.type == NULL):
        raise SqlError(
            f"{left.type} {operator} {right.type} is not defined",
            where=place(node),
            hint=_instead(operator, left.type, right.type, node),
        )
    left, right = beside_decimal(left, right, node), beside_decimal(right, left, node)
    return Call(operator, (left, right), arithmetic(operator, left.type, right.type))


def _instead(operator: str, left: DataType, right: DataType, node: exp.Expr) -> str:
    if INTERVAL in (left, right):
        return as_number(node)
    if operator in "+-" and left in _TIMES and right == STRING:
        return ADVICE["a text beside a time"]
    if operator == "+" and STRING in (left, right):
        return ADVICE["+ of texts"]
    if operator in "+-" and left in _TIMES and right.numeric:
        return ADVICE["a number of days beside a time"]
    return "Convert one of the two values: CAST(… AS …)."


def beside_decimal(value: Scalar, other: Scalar, node: exp.Expr) -> Scalar:
    """Convert an integer constant to a DECIMAL with the same digits if the other operand is a DECIMAL.

    Without this conversion, Spark would use the precision of the integer type.  Other values remain unchanged.  Raise
    SqlError for a constant with an explicit type.
    """
    if other.type.name != "DECIMAL" or value.type.name not in INTEGRAL:
        return value
    if isinstance(value, Cast) and isinstance(
        value.arg, Literal
    ):  # the parser does not distinguish 3L from CAST(3 AS BIGINT)
        raise SqlError(
            "the precision of a constant with an explicit type is ambiguous next to a DECIMAL",
            where=place(node),
            hint="Write the number without a type, or CAST(… AS DECIMAL(p, 0)) with the digits that you need.",
        )
    if not isinstance(value, Literal) or not isinstance(value.value, int):
        return value
    return Literal(Decimal(value.value), DataType("DECIMAL", len(str(abs(value.value))), 0))


def _time_arithmetic(operator: str, left: Scalar, right: Scalar, node: exp.Expr) -> Scalar | None:
    if operator == "+" and left.type == INTERVAL and right.type in _TIMES:
        return _moved("+", right, left, node.this)
    if operator in "+-" and left.type in _TIMES and right.type == INTERVAL:
        return _moved(operator, left, right, node.expression)
    if operator == "+" and left.type == MONTHS and right.type in _TIMES:
        return _moved_by_months(operator, right, left)
    if operator in "+-" and left.type in _TIMES and right.type == MONTHS:
        return _moved_by_months(operator, left, right)
    if operator == "-" and left.type in _TIMES and right.type in _TIMES:
        node.meta[_OF_DAYS] = left.type == right.type == DATE
        return Call("-", (converted(left, TIMESTAMP), converted(right, TIMESTAMP)), INTERVAL)
    if operator in "+-" and left.type == right.type == INTERVAL:
        return Call(operator, (left, right), INTERVAL)
    if operator == "*" and INTERVAL in (left.type, right.type) and (left.type.numeric or right.type.numeric):
        number, span = (left, right) if right.type == INTERVAL else (right, left)
        if isinstance(number, Literal) and isinstance(span, Literal) and isinstance(number.value, int):
            assert isinstance(span.value, int)
            return literals.length(number.value * span.value, node)
        if isinstance(number, Literal) and isinstance(span, Literal) and isinstance(number.value, (float, Decimal)):
            assert isinstance(span.value, int)
            literals.within_calendar(float(number.value) * span.value, node)
        return Call("*", (span, number), INTERVAL)
    if operator == "/" and left.type == INTERVAL and right.type.numeric:
        return divided(left, right)
    return None


def _moved(operator: str, time: Scalar, span: Scalar, node: exp.Expr) -> Scalar:
    """Move ``time`` by the interval ``span``.  A DATE remains a DATE if the interval counts days."""
    moved = Call(operator, (converted(time, TIMESTAMP), span), TIMESTAMP)
    return Cast(moved, DATE) if time.type == DATE and _counts_days(node) else moved


def _moved_by_months(operator: str, time: Scalar, span: Scalar) -> Scalar:
    """Move ``time`` by months.  If the month is too short, the result is the last day of the month.  A DATE remains a
    DATE.
    """
    moved = Call(operator, (converted(time, TIMESTAMP), span), TIMESTAMP)
    return Cast(moved, DATE) if time.type == DATE else moved


def _counts_days(node: exp.Expr) -> bool:
    if isinstance(node, exp.Interval):
        return literals.counts_days(node)
    if isinstance(node, (exp.Paren, exp.Neg)):
        return _counts_days(node.this)
    if isinstance(node, (exp.Add, exp.Sub)):
        return bool(node.meta.get(_OF_DAYS)) or (_counts_days(node.this) and _counts_days(node.expression))
    if isinstance(node, exp.If):
        return all(_counts_days(node.args[key]) for key in ("true", "false") if node.args.get(key) is not None)
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        values = [branch.args["true"] for branch in node.args["ifs"]] + ([default] if default is not None else [])
        return all(_counts_days(value) or isinstance(value, exp.Null) for value in values)
    return False
