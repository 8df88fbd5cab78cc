"""Read constants exactly: numbers, strings, timestamps, dates and LIKE patterns.

A timestamp without an offset is UTC.

As in Spark, an INTERVAL constant has a length in microseconds.  Some constants count whole days.  Months, quarters and
years have no fixed length, so only temporal views accept them.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from sqlglot import exp

from weft.algebra.calendar import FIXED, IN_MONTHS
from weft.algebra.scalar import Literal
from weft.algebra.schema import BIGINT, DATE, DOUBLE, INT, INTERVAL, MONTHS, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.instants import read_day, read_instant
from weft.sql.lower.refusal import place, refuse


def number(node: exp.Literal, *, negative: bool = False) -> Literal:
    """Return a number with the type that Spark infers: INT, BIGINT, DECIMAL, or DOUBLE for a number with an exponent.

    If ``negative`` is true, the number includes a minus sign.  For example, -2147483648 is an INT.
    """
    text, sign = node.name, -1 if negative else 1
    if re.fullmatch(r"\d+", text, re.ASCII):
        digits = text.lstrip("0") or "0"
        value = Decimal(f"-{digits}" if negative else digits)  # int() refuses thousands of digits
        if -(2**63) <= value < 2**63:
            return Literal(int(value), INT if -(2**31) <= value < 2**31 else BIGINT)
        return Literal(value, decimal(len(digits), 0, node))
    if re.fullmatch(r"\d*\.\d*", text, re.ASCII) and text != ".":
        exact = Decimal(text)
        parts = exact.as_tuple()
        scale = max(0, -int(parts.exponent))
        signed = exact.copy_negate() if negative else exact  # a product is rounded to 28 digits
        return Literal(signed, decimal(max(len(parts.digits), scale, 1), scale, node))
    try:
        approximate = sign * float(text)
    except ValueError:
        approximate = math.inf
    if math.isinf(approximate):
        raise SqlError(f"{text} is not a valid number", where=place(node))
    return Literal(approximate, DOUBLE)


def decimal(precision: int, scale: int, node: exp.Expr) -> DataType:
    """Return the type DECIMAL(precision, scale).  Raise SqlError if Spark has no such type."""
    if not scale <= precision <= 38 or not precision:
        message = f"DECIMAL({precision},{scale}) is not a type: a DECIMAL has at most 38 digits"
        raise SqlError(message, where=place(node), hint="Write DECIMAL(p, s) with s <= p <= 38, or use DOUBLE.")
    return DataType("DECIMAL", precision, scale)


def pattern(text: str, node: exp.Expr) -> None:
    """Raise SqlError for a LIKE pattern that Spark would reject at the first row."""
    if re.fullmatch(r"(?:[^\\]|\\[%_\\])*", text, re.DOTALL) is None:
        raise SqlError(
            f"{text!r} is not a pattern: \\ may stand only before %, _ or \\",
            where=place(node),
            hint="Write \\\\\\\\ for a literal \\.",
        )


def escaped_by_backslash(text: str, character: str, node: exp.Expr) -> str:
    r"""Replace ``character``, the escape character of a LIKE pattern, by the backslash.

    As Spark does, raise SqlError if ``character`` precedes a character other than %, _ or itself.

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
    """Return the TIMESTAMP literal of an ISO 8601 text.  A text without an offset is in UTC."""
    instant = read_instant(text)
    if instant is None:
        raise SqlError(
            f"{text!r} is not a timestamp",
            where=place(node),
            hint="Write, for example, TIMESTAMP '1993-04-05 12:00:00'.",
        )
    return Literal(instant, TIMESTAMP)


def day(text: str, node: exp.Expr) -> Literal:
    """Return the DATE literal of a text, in days since 1970-01-01.  As in Spark, the time of day is ignored."""
    days = read_day(re.sub(r"^(\s*\d{4}-\d{2}-\d{2})[ T].*$", r"\1", text, flags=re.DOTALL))
    if days is None:
        raise SqlError(f"{text!r} is not a date", where=place(node), hint="Write, for example, DATE '1993-04-05'.")
    return Literal(days, DATE)


LONGEST: Final = 3_652_059 * FIXED["DAY"]
"""The maximal length of an interval: the time from year 1 to year 9999, in microseconds.

The limit ensures that sums of instants and intervals fit in 64 bits.
"""
LONGEST_MONTHS: Final = 9_999 * 12
_FIELDS: Final = ("DAY", "HOUR", "MINUTE", "SECOND")
_AMOUNT: Final = re.compile(r"\s*([+-]?)\s*(\d{1,18})(?:\.(\d{1,9}))?\s*", re.ASCII)
_PART: Final = re.compile(r"\s*([+-]?\s*\d+(?:\.\d+)?)\s+([A-Za-z]+)(?=\s|$)", re.ASCII)
_SPAN: Final = re.compile(r"[+-]?\d{1,18}(?:[ :]\d{1,2})*(?:\.\d{1,9})?", re.ASCII)


def interval(node: exp.Interval) -> Literal:
    """Return the literal of an interval constant, in microseconds.

    Constants have one of the forms INTERVAL 4 WEEKS, INTERVAL '1 day 2 hours' and INTERVAL '1 12:00:00' DAY TO SECOND.
    Raise SqlError if Spark would refuse the interval, or if the interval is longer than the calendar.
    """
    text, unit, sign = _text(node), node.args.get("unit"), -1 if isinstance(node.this, exp.Neg) else 1
    if sign < 0 and (unit is None or text.strip().startswith(("-", "+"))):
        raise SqlError("an INTERVAL takes only one sign", where=place(node), hint="Write -INTERVAL … with one -.")
    if isinstance(unit, exp.IntervalSpan):
        return length(sign * _span(text, unit, node), node)
    if unit is None:
        return length(sum(_amount(amount, name, node) for amount, name in _parts(text, node)), node)
    return length(sign * _amount(text, unit.name, node), node)


def months(node: exp.Interval) -> Literal | None:
    """Return the literal of an interval constant in calendar months, or None if all its units have a fixed length.

    Constants have one of the forms INTERVAL 1 YEAR, INTERVAL '1 year 6 months' and INTERVAL '1-6' YEAR TO MONTH.  Raise
    SqlError if an interval mixes calendar units with units of a fixed length.
    """
    text, unit, sign = _text(node), node.args.get("unit"), -1 if isinstance(node.this, exp.Neg) else 1
    if isinstance(unit, exp.IntervalSpan):
        spanned = re.fullmatch(r"\s*([+-]?)(\d{1,5})-(\d{1,2})\s*", text, re.ASCII)
        if (unit.this.name.upper(), unit.expression.name.upper()) != ("YEAR", "MONTH"):
            return None
        if spanned is None or int(spanned[3]) > 11:
            raise SqlError(
                f"{text!r} is not an interval YEAR TO MONTH",
                where=place(node),
                hint="Write INTERVAL '1-6' YEAR TO MONTH.",
            )
        count = (-1 if spanned[1] == "-" else 1) * (12 * int(spanned[2]) + int(spanned[3]))
        return _calendar_length(sign * count, node)
    parts = [(text, unit.name)] if unit is not None else _PART.findall(re.sub(r"(?i)^\s*interval\s", "", text))
    calendar = [name.upper().removesuffix("S") in IN_MONTHS for _, name in parts]
    if not any(calendar):
        return None
    if not all(calendar):
        raise refuse(
            "an INTERVAL of months and of days",
            node,
            "Spark has no such interval",
            "Add two intervals: + INTERVAL 1 MONTH + INTERVAL 2 DAYS.",
        )
    count = 0
    for amount, name in parts:
        match = _AMOUNT.fullmatch(re.sub(r"\s", "", amount))
        if match is None or match[3] is not None:
            raise SqlError(
                f"{amount!r} is not a number of {name.upper()}", where=place(node), hint="Write INTERVAL 18 MONTHS."
            )
        count += int(f"{match[1]}{match[2]}") * IN_MONTHS[name.upper().removesuffix("S")]
    return _calendar_length(sign * count, node)


def _calendar_length(count: int, node: exp.Expr) -> Literal:
    if abs(count) > LONGEST_MONTHS:
        longest = f"an INTERVAL is at most {LONGEST_MONTHS:,} months long"
        raise SqlError(
            longest, where=place(node), hint="Write a shorter interval: the calendar has only the years 1 to 9999."
        )
    return Literal(count, MONTHS)


def counts_days(node: exp.Interval) -> bool:
    """Return whether Spark's type for the constant is INTERVAL DAY.  A DATE plus an INTERVAL DAY is a DATE."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return False
    names = [unit.name] if unit is not None else [name for _, name in _parts(_text(node), node)]
    return all(name.upper().removesuffix("S") in ("DAY", "WEEK") for name in names)


def length(micros: int, node: exp.Expr) -> Literal:
    """Return an interval literal of ``micros`` microseconds.  Raise SqlError for an interval longer than the
    calendar.
    """
    within_calendar(micros, node)
    return Literal(micros, INTERVAL)


def within_calendar(micros: float, node: exp.Expr) -> None:
    """Raise SqlError if the duration ``micros`` (microseconds) is NaN or is longer than the calendar."""
    if not abs(micros) <= LONGEST:
        longest = f"an INTERVAL is at most {LONGEST // FIXED['DAY']:,} days long"
        raise SqlError(
            longest, where=place(node), hint="Write a shorter interval: the calendar has only the years 1 to 9999."
        )


def unit_length(name: str, node: exp.Expr) -> int:
    """Return the length of a unit in microseconds.  Raise SqlError for a calendar unit, such as MONTH.

    ``name`` is singular or plural.
    """
    folded = name.upper().removesuffix("S")
    if folded in IN_MONTHS:
        raise refuse(
            f"INTERVAL … {folded}",
            node,
            "months and years have no fixed length",
            "Write days (INTERVAL 30 DAYS), or add months and days: + INTERVAL 1 MONTH + INTERVAL 2 DAYS.",
        )
    if folded not in FIXED:
        raise SqlError(
            f"{name!r} is not a unit of time", where=place(node), hint=f"Use one of the units {', '.join(FIXED)}."
        )
    return FIXED[folded]


def _text(node: exp.Interval) -> str:
    value = node.this.this if isinstance(node.this, exp.Neg) else node.this
    if not isinstance(value, exp.Literal):
        raise SqlError(
            "an INTERVAL takes a number",
            where=place(node),
            hint="Multiply instead: days * INTERVAL 1 DAY.",
        )
    return value.name


def _amount(text: str, unit: str, node: exp.Expr) -> int:
    each, match = unit_length(unit, node), _AMOUNT.fullmatch(text)
    if match is None:
        raise SqlError(f"{text!r} is not a number of {unit.upper()}", where=place(node), hint=_LIKE)
    sign, digits, fraction = match.groups()
    if fraction is not None and each != FIXED["SECOND"]:
        raise SqlError(
            f"{text} {unit.upper()}: only seconds can have a fraction",
            where=place(node),
            hint="Write a smaller unit, for example INTERVAL 36 HOURS.",
        )
    exact = Decimal(f"{sign}{digits}.{fraction or 0}") * each
    if exact != exact.to_integral_value():
        raise SqlError(f"INTERVAL {text} {unit.upper()} is finer than a microsecond", where=place(node))
    return int(exact)


def _parts(text: str, node: exp.Expr) -> list[tuple[str, str]]:
    rest = re.sub(r"^\s*interval\s", "", text, flags=re.IGNORECASE)
    if not rest.strip() or _PART.sub("", rest).strip():
        raise SqlError(f"{text!r} is not an interval", where=place(node), hint=_LIKE)
    return _PART.findall(rest)


def _span(text: str, span: exp.IntervalSpan, node: exp.Expr) -> int:
    first, last = span.this.name.upper(), span.expression.name.upper()
    if first not in _FIELDS or last not in _FIELDS or _FIELDS.index(first) >= _FIELDS.index(last):
        unit_length(first, node)
        hint = (
            None if last in _FIELDS else f"Put an instant that ends with an interval in parentheses: (… {first}) TO …"
        )
        raise SqlError(f"INTERVAL … {first} TO {last} is not supported", where=place(node), hint=hint)
    wanted = _FIELDS[_FIELDS.index(first) : _FIELDS.index(last) + 1]
    text = text.strip()
    pieces = re.split(r"[ :]", text.lstrip("+-"))
    shape = " ".join(wanted[:1]) + (" " if first == "DAY" else ":") + ":".join(wanted[1:])
    signs = [" " if unit == "DAY" else ":" for unit in wanted[:-1]]
    if _SPAN.fullmatch(text) is None or re.findall(r"[ :]", text) != signs or ("." in text and last != "SECOND"):
        raise SqlError(
            f"{text!r} is not an interval {first} TO {last}, which is written {shape}", where=place(node), hint=_LIKE
        )
    for piece, unit in zip(pieces[1:], wanted[1:], strict=True):
        most = 23 if unit == "HOUR" else 59
        if int(piece.partition(".")[0]) > most:
            raise SqlError(
                f"{text!r} has {piece} for {unit}, but the greatest allowed value is {most}", where=place(node)
            )
    sign = -1 if text.startswith("-") else 1
    return sign * sum(_amount(piece, unit, node) for piece, unit in zip(pieces, wanted, strict=True))


_LIKE: Final = "Write, for example, INTERVAL 4 WEEKS or INTERVAL '1 12:00:00' DAY TO SECOND."
