"""Constants of the text: numbers, strings, timestamps, dates and intervals, exactly.

Timestamps without an offset are UTC.  Intervals of months and years have no fixed length and are refused for now.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from sqlglot import exp

from weft.algebra.scalar import Literal
from weft.algebra.schema import BIGINT, DATE, DOUBLE, INT, INTERVAL, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.instants import read_day, read_instant
from weft.sql.parse import place
from weft.sql.refusal import refuse

UNITS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 7 * 86_400_000_000,
}
LONGEST: Final = 3_652_059 * UNITS["DAY"]
"""From year 1 to year 9999: sums of instants and intervals stay within 64 bits."""
_CALENDAR: Final = ("MONTH", "QUARTER", "YEAR")


def number(node: exp.Literal) -> Literal:
    """A number as Spark types it: INT, BIGINT, DECIMAL, or DOUBLE where it has an exponent."""
    text = node.name
    if re.fullmatch(r"\d+", text):
        value = int(text)
        if value >= 2**63:
            raise SqlError(f"{text} is too large for a number", where=place(node))
        return Literal(value, INT if value < 2**31 else BIGINT)
    if re.fullmatch(r"\d*\.\d*", text) and text != ".":
        exact = Decimal(text)
        digits = exact.as_tuple()
        scale = max(0, -int(digits.exponent))
        return Literal(exact, decimal(max(len(digits.digits), scale, 1), scale, node))
    try:
        return Literal(float(text), DOUBLE)
    except ValueError:
        raise SqlError(f"{text} is not a number that Weft reads", where=place(node)) from None


def decimal(precision: int, scale: int, node: exp.Expr) -> DataType:
    """DECIMAL(precision, scale); raises SqlError for what Spark does not have."""
    if not scale <= precision <= 38 or not precision:
        raise SqlError(f"there is no DECIMAL({precision},{scale}): 38 digits at most", where=place(node))
    return DataType("DECIMAL", precision, scale)


def pattern(text: str, node: exp.Expr) -> None:
    """Raises SqlError for a pattern of LIKE that Spark would refuse when a row is there."""
    if re.fullmatch(r"(?:[^\\]|\\[%_\\])*", text, re.DOTALL) is None:
        raise SqlError(
            f"{text!r} is not a pattern: \\ stands before %, _ or another \\ only",
            where=place(node),
            hint="Write \\\\\\\\ for a \\ that is meant as such.",
        )


def timestamp(text: str, node: exp.Expr) -> Literal:
    """An ISO 8601 instant; without an offset it is UTC."""
    instant = read_instant(text)
    if instant is None:
        raise SqlError(
            f"{text!r} is not a timestamp", where=place(node), hint="Write it like TIMESTAMP '1993-04-05 12:00:00'."
        )
    return Literal(instant, TIMESTAMP)


def day(text: str, node: exp.Expr) -> Literal:
    """A calendar day, as days since 1970-01-01."""
    found = read_day(text)
    if found is None:
        raise SqlError(f"{text!r} is not a date", where=place(node), hint="Write it like DATE '1993-04-05'.")
    return Literal(found, DATE)


def unit_length(name: str, node: exp.Expr) -> int:
    """Microseconds of a unit, singular or plural; calendar units are refused."""
    folded = name.upper().removesuffix("S") if name.upper() != "S" else name.upper()
    if folded in _CALENDAR:
        raise refuse(
            f"INTERVAL … {folded}",
            node,
            "months and years have no fixed length; calendar units come in a later release",
            "Write days, for example INTERVAL 30 DAYS.",
        )
    if folded not in UNITS:
        raise SqlError(f"{name!r} is not a unit of time", where=place(node), hint=f"Units: {', '.join(UNITS)}.")
    return UNITS[folded]


def interval(node: exp.Interval) -> Literal:
    """INTERVAL 4 WEEKS, INTERVAL '1 day 2 hours', INTERVAL '1 12:00:00' DAY TO SECOND: microseconds."""
    value, sign = node.this, 1
    while isinstance(value, (exp.Neg, exp.Paren)):
        sign, value = (-sign if isinstance(value, exp.Neg) else sign), value.this
    if not isinstance(value, exp.Literal):
        raise SqlError(
            "an INTERVAL takes a number",
            where=place(node),
            hint="Multiply instead: days * INTERVAL 1 DAY.",
        )
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return length(sign * _span(value.name, unit, node), node)
    if unit is None:
        return length(sign * _parts(value.name, node), node)
    try:
        exact = Decimal(value.name.strip()) * unit_length(unit.name, node)
    except ArithmeticError:
        return length(sign * _parts(f"{value.name} {unit.name}", node), node)
    if exact != exact.to_integral_value():
        raise SqlError(f"INTERVAL {value.name} {unit.name} is finer than a microsecond", where=place(node))
    return length(sign * int(exact), node)


def length(micros: int, node: exp.Expr) -> Literal:
    """An interval; raises SqlError for one that is longer than the calendar."""
    if abs(micros) > LONGEST:
        raise SqlError(f"an INTERVAL is at most {LONGEST // UNITS['DAY']:,} days long", where=place(node))
    return Literal(micros, INTERVAL)


def _parts(text: str, node: exp.Expr) -> int:
    found = re.findall(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    if not found or re.sub(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)", "", text).strip(" ,"):
        raise SqlError(f"{text!r} is not an interval", where=place(node), hint="Write it like INTERVAL 4 WEEKS.")
    return int(sum(Decimal(amount) * unit_length(unit, node) for amount, unit in found))


def _span(text: str, span: exp.IntervalSpan, node: exp.Expr) -> int:
    first, last = span.this.name.upper(), span.expression.name.upper()
    order = ["DAY", "HOUR", "MINUTE", "SECOND"]
    if first not in order or last not in order:
        unit_length(first, node)
        raise SqlError(f"INTERVAL … {first} TO {last} is not taken", where=place(node))
    wanted = order[order.index(first) : order.index(last) + 1]
    sign = -1 if text.strip().startswith("-") else 1
    pieces = re.split(r"[ :]", text.strip().lstrip("+-"))
    if len(pieces) != len(wanted):
        raise SqlError(f"{text!r} is not an interval {first} TO {last}", where=place(node))
    return sign * int(sum(Decimal(piece) * UNITS[unit] for piece, unit in zip(pieces, wanted, strict=True)))
