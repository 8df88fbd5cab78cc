"""Constants of the text: numbers, strings, timestamps, dates and intervals, exactly.

Timestamps without an offset are UTC.  Intervals of months and years have no fixed length and are refused for now.
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
    """A number as Spark types it: INT, BIGINT, DECIMAL, or DOUBLE where it has an exponent.

    ``negative`` tells of a - right before it, which belongs to the number: -2147483648 is an INT.
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
        raise SqlError(f"{text} is not a number that Weft reads", where=place(node))
    return Literal(approximate, DOUBLE)


def decimal(precision: int, scale: int, node: exp.Expr) -> DataType:
    """DECIMAL(precision, scale); raises SqlError for what Spark does not have."""
    if not scale <= precision <= 38 or not precision:
        told = f"there is no DECIMAL({precision},{scale}): 38 digits at most"
        raise SqlError(told, where=place(node), hint="Write DECIMAL(p, s) with s <= p <= 38, or use DOUBLE.")
    return DataType("DECIMAL", precision, scale)


def pattern(text: str, node: exp.Expr) -> None:
    """Raises SqlError for a pattern of LIKE that Spark would refuse when a row is there."""
    if re.fullmatch(r"(?:[^\\]|\\[%_\\])*", text, re.DOTALL) is None:
        raise SqlError(
            f"{text!r} is not a pattern: \\ stands before %, _ or another \\ only",
            where=place(node),
            hint="Write \\\\\\\\ for a \\ that is meant as such.",
        )


def escaped_by_backslash(text: str, character: str, node: exp.Expr) -> str:
    r"""The pattern of LIKE whose escape character is ``character``, as one whose escape character is the backslash.

    Raises SqlError where the character stands before anything but %, _ and itself, as Spark does.

    >>> escaped_by_backslash(r"5!%_\!!", "!", exp.null())
    '5\\%_\\\\!'
    """
    found = []
    characters = iter(text)
    for each in characters:
        if each == character:
            each = next(characters, "")
            if each not in ("%", "_", character):
                raise SqlError(
                    f"{text!r} is not a pattern: {character} stands before %, _ or another {character} only",
                    where=place(node),
                    hint=f"Write {character * 2} for a {character} that is meant as such.",
                )
            found.append(f"\\{each}" if each in "%_\\" else each)
        else:
            found.append("\\\\" if each == "\\" else each)
    return "".join(found)


def timestamp(text: str, node: exp.Expr) -> Literal:
    """An ISO 8601 instant; without an offset it is UTC."""
    instant = read_instant(text)
    if instant is None:
        raise SqlError(
            f"{text!r} is not a timestamp", where=place(node), hint="Write it like TIMESTAMP '1993-04-05 12:00:00'."
        )
    return Literal(instant, TIMESTAMP)


def day(text: str, node: exp.Expr) -> Literal:
    """A calendar day, as days since 1970-01-01; a time of the day behind it is passed over, as Spark does."""
    found = read_day(re.sub(r"^(\s*\d{4}-\d{2}-\d{2})[ T].*$", r"\1", text, flags=re.DOTALL))
    if found is None:
        raise SqlError(f"{text!r} is not a date", where=place(node), hint="Write it like DATE '1993-04-05'.")
    return Literal(found, DATE)
