"""Read constants exactly: numbers, strings, timestamps, dates and LIKE patterns.

A timestamp without an offset is UTC.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from sqlglot import exp

from weft.algebra.scalar import Literal
from weft.algebra.schema import BIGINT, DATE, DOUBLE, INT, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.instants import read_day, read_instant
from weft.sql.refusal import place


def number(node: exp.Literal, *, negative: bool = False) -> Literal:
    """Return a number with Spark's type: INT, BIGINT, DECIMAL, or DOUBLE if it has an exponent.

    ``negative`` includes a preceding - in the number, because -2147483648 is an INT.
    """
    text, sign = node.name, -1 if negative else 1
    if re.fullmatch(r"\d+", text, re.ASCII):
        value = sign * int(text)
        if -(2**63) <= value < 2**63:
            return Literal(value, INT if -(2**31) <= value < 2**31 else BIGINT)
        return Literal(Decimal(value), decimal(len(str(abs(value))), 0, node))
    if re.fullmatch(r"\d*\.\d*", text, re.ASCII) and text != ".":
        exact = Decimal(text)
        digits = exact.as_tuple()
        scale = max(0, -int(digits.exponent))
        return Literal(sign * exact, decimal(max(len(digits.digits), scale, 1), scale, node))
    try:
        approximate = sign * float(text)
    except ValueError:
        approximate = math.inf
    if math.isinf(approximate):
        raise SqlError(f"{text} is not a valid number", where=place(node))
    return Literal(approximate, DOUBLE)


def decimal(precision: int, scale: int, node: exp.Expr) -> DataType:
    """Return DECIMAL(precision, scale); raise SqlError if Spark does not have it."""
    if not scale <= precision <= 38 or not precision:
        message = f"DECIMAL({precision},{scale}) is not a type: a DECIMAL has at most 38 digits"
        raise SqlError(message, where=place(node), hint="Write DECIMAL(p, s) with s <= p <= 38, or use DOUBLE.")
    return DataType("DECIMAL", precision, scale)


def pattern(text: str, node: exp.Expr) -> None:
    """Raise SqlError for a LIKE pattern at which Spark would fail when it reads a row."""
    if re.fullmatch(r"(?:[^\\]|\\[%_\\])*", text, re.DOTALL) is None:
        raise SqlError(
            f"{text!r} is not a pattern: \\ may stand only before %, _ or \\",
            where=place(node),
            hint="Write \\\\\\\\ for a literal \\.",
        )


def escaped_by_backslash(text: str, character: str, node: exp.Expr) -> str:
    r"""Return a LIKE pattern whose escape character is ``character`` as one whose escape character is the backslash.

    Raise SqlError, as Spark does, if the character precedes anything but %, _ or itself.

    >>> escaped_by_backslash(r"5!%_\!!", "!", exp.null())
    '5\\%_\\\\!'
    """
    parts = []
    characters = iter(text)
    for each in characters:
        if each == character:
            each = next(characters, "")
            if each not in ("%", "_", character):
                raise SqlError(
                    f"{text!r} is not a pattern: {character} may stand only before %, _ or {character}",
                    where=place(node),
                    hint=f"Write {character * 2} for a literal {character}.",
                )
            parts.append(f"\\{each}" if each in "%_\\" else each)
        else:
            parts.append("\\\\" if each == "\\" else each)
    return "".join(parts)


def timestamp(text: str, node: exp.Expr) -> Literal:
    """Return an ISO 8601 instant; without an offset it is UTC."""
    instant = read_instant(text)
    if instant is None:
        raise SqlError(
            f"{text!r} is not a timestamp", where=place(node), hint="Write it like TIMESTAMP '1993-04-05 12:00:00'."
        )
    return Literal(instant, TIMESTAMP)


def day(text: str, node: exp.Expr) -> Literal:
    """Return a date as days since 1970-01-01; a time of day after it is ignored, as in Spark."""
    days = read_day(re.sub(r"^(\s*\d{4}-\d{2}-\d{2})[ T].*$", r"\1", text, flags=re.DOTALL))
    if days is None:
        raise SqlError(f"{text!r} is not a date", where=place(node), hint="Write it like DATE '1993-04-05'.")
    return Literal(days, DATE)
