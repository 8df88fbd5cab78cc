"""Translate time functions with units or formats, and functions that another expression replaces.

    CURRENT_DATE                      CAST(NOW() AS DATE)
    DATEADD(HOUR, n, t)               t + n * INTERVAL 1 HOUR
    DATEDIFF(DAY, a, b)               TIMESTAMPDIFF(DAY, a, b), whole days of 24 hours
    TO_DATE(text)                     CAST(text AS DATE)

Units and formats must be valid constants, because Spark would otherwise return NULL or fail at run time.

A format such as ``yyyy-MM-dd HH:mm`` consists of groups of letters, quoted text, and other characters.  Spark refuses
some letters, and some lengths of groups.  Formats for reading have more restrictions than formats for writing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from sqlglot import exp

from weft.algebra.calendar import FIXED, IN_MONTHS, dated, truncated
from weft.algebra.scalar import MICROSECOND, Call, Cast, Literal, Now, Scalar, minus
from weft.algebra.schema import BIGINT, DATE, INTEGRAL, INTERVAL, MONTHS, STRING, TIMESTAMP
from weft.errors import SqlError
from weft.sql.functions import FUNCTIONS, fits
from weft.sql.lower import literals
from weft.sql.lower.advice import advice
from weft.sql.lower.conversion import as_time, converted
from weft.sql.lower.refusal import place, refuse
from weft.sql.lower.zones import UTC, zone_name

Lower: TypeAlias = "Callable[[exp.Expr], Scalar]"
"""A function that translates an argument."""

_TRUNCATED: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    "QUARTER": "QUARTER",
    **dict.fromkeys(("MONTH", "MM", "MON"), "MONTH"),
    "DD": "DAY",
    **{unit: unit for unit in FIXED},
}
_UNITS: Final = tuple(reversed((*FIXED, *IN_MONTHS)))
DAY_NAMES: Final = ("current_date", "curdate")


def today() -> Scalar:
    """Return CURRENT_DATE as a scalar: the day of NOW in UTC."""
    return Cast(Now(), DATE)


def lower_time_form(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    """Translate a call of a function of ``FORMS``.

    Raise SqlError if Spark would refuse the arguments, or fail at some row.
    """
    function, arguments = FUNCTIONS[name], node.expressions
    if not function.least <= len(arguments) <= function.most:
        wanted = f"{function.least}" if function.least == function.most else f"{function.least} to {function.most}"
        raise SqlError(
            f"{name.upper()} takes {wanted} argument{'s' * (function.most > 1)}, not {len(arguments)}",
            where=place(node),
            hint=advice(name),
        )
    return FORMS[name](name, node, lower)


def _today(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    return today()


def _truncation(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    unit = node.expressions[0]
    if not isinstance(unit, exp.Literal) or not unit.is_string or unit.name.upper() not in _TRUNCATED:
        raise SqlError(
            f"{unit.sql('spark')} is not a valid first argument of DATE_TRUNC",
            where=place(node),
            hint=f"Write a unit in quotes, as in DATE_TRUNC('DAY', ts); the units are {', '.join(_UNITS)}.",
        )
    return truncated(_TRUNCATED[unit.name.upper()], converted(_time(name, node.expressions[1], lower), TIMESTAMP))


def _formatted(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    value = _time(name, node.expressions[0], lower)
    return Call(name, (converted(value, TIMESTAMP), _format(name, node, read=False)), STRING)


def _format(name: str, node: exp.Anonymous, *, read: bool) -> Literal:
    format = node.expressions[1]
    if not isinstance(format, exp.Literal) or not format.is_string:
        raise SqlError(
            f"{name.upper()} takes a constant format", where=place(node), hint="Write a format such as 'yyyy-MM-dd'."
        )
    check_format(format.name, node, read=read)
    return Literal(format.name, STRING, fixed=True)


def _written(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    type = FUNCTIONS[name].result(())
    value = lower(node.expressions[0])
    if len(node.expressions) == 2:
        if not fits(value.type, "STRING"):
            raise SqlError(f"{name.upper()} with a format requires a STRING, not {value.type}", where=place(node))
        return Call(name, (value, _format(name, node, read=True)), type)
    if type == BIGINT:
        if value.type == STRING:
            raise SqlError(
                "UNIX_TIMESTAMP of a text needs its format",
                where=place(node),
                hint="Write UNIX_TIMESTAMP(text, 'yyyy-MM-dd HH:mm:ss'), or UNIX_TIMESTAMP(CAST(text AS TIMESTAMP)).",
            )
        return Call(name, (converted(_time(name, node.expressions[0], lower), TIMESTAMP),), type)
    if not fits(value.type, "WRITTEN"):
        raise SqlError(f"{name.upper()} takes a time or a STRING, not {value.type}", where=place(node))
    return as_time(value, type, node) if value.type == STRING else Cast(value, type)


def _moved(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    if len(node.expressions) == 3:
        return _moved_by_unit(name, node, lower)
    time, count = node.expressions
    if isinstance(count, exp.Interval):
        sign = "-" if name == "date_sub" else "+"
        raise refuse(
            f"{name.upper()} with an INTERVAL",
            node,
            "it takes a number of days",
            f"Write {time.sql('spark')} {sign} {count.sql('spark')}.",
        )
    value, days = _time(name, time, lower), lower(count)
    if days.type.name not in ("TINYINT", "SMALLINT", "INT", "NULL"):
        hint = "Write CAST(… AS INT)." if days.type.numeric else "Write, for example, DATE_ADD(day, 7)."
        raise SqlError(f"{name.upper()} takes days as an INT, not {days.type}", where=place(node), hint=hint)
    if isinstance(days, Literal) and isinstance(days.value, int):
        literals.length(days.value * FIXED["DAY"], node)
    kind = "date_sub" if name == "date_sub" else "date_add"
    return Call(kind, (value if value.type == DATE else Cast(value, DATE), days), DATE)


def _moved_by_unit(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    unit = _unit(name, node.expressions[0], node)
    count, value = lower(node.expressions[1]), _time(name, node.expressions[2], lower)
    if count.type.name not in INTEGRAL:
        raise SqlError(f"{name.upper()} takes a whole number of units, not {count.type}", where=place(node))
    constant = count.value if isinstance(count, Literal) and isinstance(count.value, int) else None
    span: Scalar
    if unit in IN_MONTHS:
        if constant is None or abs(constant) > literals.LONGEST_MONTHS // 12:
            raise SqlError(f"{name.upper()}({unit}, …) takes a constant number of units", where=place(node))
        span = Literal(constant * IN_MONTHS[unit], MONTHS, fixed=True)
    elif constant is not None:
        span = literals.length(constant * FIXED[unit], node)
    else:
        span = Call("*", (Literal(FIXED[unit], INTERVAL), count), INTERVAL)
    return Call("+", (converted(value, TIMESTAMP), span), TIMESTAMP)


def _unit(name: str, unit: exp.Expr, node: exp.Expr) -> str:
    word = unit.name.upper() if isinstance(unit, (exp.Column, exp.Var)) else ""
    if word not in _UNITS:
        example = f"{name.upper()}(DAY, {'1, ts' if name.endswith('add') else 'start, end'})"
        raise SqlError(
            f"{name.upper()} with three arguments takes a unit first, not {unit.sql('spark')}",
            where=place(node),
            hint=f"Write, for example, {example}; the units are {', '.join(_UNITS)}.",
        )
    return word


def _difference(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    """Translate DATEDIFF(end, start) in calendar days, or DATEDIFF(unit, start, end) in whole units."""
    if len(node.expressions) == 2:
        end, start = (_time(name, part, lower) for part in node.expressions)
        return Call("datediff", (end, start), FUNCTIONS["datediff"].result(()))
    unit = _unit(name, node.expressions[0], node)
    start, end = (converted(_time(name, part, lower), TIMESTAMP) for part in node.expressions[1:])
    if unit == "MICROSECOND":  # Spark's function fails if the difference exceeds 64 bits
        micros = [Call("unix_micros", (each,), BIGINT) for each in (end, start)]
        return Call("-", tuple(micros), BIGINT)
    return Call("timestampdiff", (Literal(unit, STRING, fixed=True), start, end), BIGINT)


def _months(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    if name == "months_between":
        both = tuple(dated(converted(_time(name, part, lower), TIMESTAMP)) for part in node.expressions)
        return Call(name, both, FUNCTIONS[name].result(()))
    value, count = _time(name, node.expressions[0], lower), lower(node.expressions[1])
    months = count.value if isinstance(count, Literal) else None
    if not isinstance(months, int) or abs(months) > literals.LONGEST_MONTHS:
        raise SqlError("ADD_MONTHS takes a constant number of months", where=place(node))
    day = value if value.type == DATE else Cast(value, DATE)
    return Call(name, (day, Literal(months, count.type, fixed=True)), DATE)


def _in_zone(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    time, zone = node.expressions
    return _converted(name, _time(name, time, lower), zone_name(zone, name))


def _between_zones(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    """Translate CONVERT_TIMEZONE([from,] to, time).  The session's zone is UTC."""
    *zones, time = node.expressions
    names = [zone_name(zone, name) for zone in zones]
    value = _time(name, time, lower)
    return _converted("from_utc_timestamp", _converted("to_utc_timestamp", value, *names[:-1]), names[-1])


def _converted(name: str, time: Scalar, zone: str = UTC) -> Scalar:
    time = converted(time, TIMESTAMP)
    return time if zone == UTC else Call(name, (dated(time), Literal(zone, STRING, fixed=True)), TIMESTAMP)


def _window_time(name: str, node: exp.Anonymous, lower: Lower) -> Scalar:
    """Translate WINDOW_TIME(window), the last instant of a window."""
    match lower(node.expressions[0]):
        case Call(name="named_struct", args=(_, _, _, end)):
            return minus(end, MICROSECOND)
        case other:
            message = f"WINDOW_TIME takes a window, not {other.type}"
            raise SqlError(message, where=place(node), hint="Write WINDOW_TIME(WINDOW(ts, '10 minutes')).")


def _time(name: str, argument: exp.Expr, lower: Lower) -> Scalar:
    value = lower(argument)
    if not fits(value.type, "TIME"):
        hint = "Write CAST(… AS TIMESTAMP)." if value.type == STRING else None
        raise SqlError(f"{name.upper()} takes a time, not {value.type}", where=place(argument), hint=hint)
    return Cast(value, TIMESTAMP) if value.type not in (DATE, TIMESTAMP) else value


FORMS: Final[dict[str, Callable[[str, exp.Anonymous, Lower], Scalar]]] = {
    **dict.fromkeys(DAY_NAMES, _today),
    "date_trunc": _truncation,
    "date_format": _formatted,
    **dict.fromkeys(("date", "to_date", "to_timestamp", "unix_timestamp"), _written),
    **dict.fromkeys(("date_add", "date_sub", "dateadd"), _moved),
    "timestampadd": _moved_by_unit,
    **dict.fromkeys(("datediff", "date_diff", "timestampdiff"), _difference),
    **dict.fromkeys(("add_months", "months_between"), _months),
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), _in_zone),
    "convert_timezone": _between_zones,
    "window_time": _window_time,
}
"""A mapping from functions with units, formats or other special arguments to the translations of calls."""


_GROUPS: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']")
_MOST: Final = {
    "y": 6, "M": 4, "L": 4, "d": 2, "H": 2, "h": 2, "K": 2, "k": 2, "m": 2, "s": 2, "S": 9, "a": 1, "X": 3, "x": 3,
}  # fmt: skip
"""The maximal number of repetitions of each letter in a format, for reading and for writing."""
_WRITTEN_ONLY: Final = {"E": 4, "D": 3, "Q": 2, "G": 4}
_MEANT: Final = {
    "Y": "yyyy for the year",
    "D": "dd for the day of the month",
    "T": "'T' in quotes",
    "Z": "XXX for the zone",
}
LETTERS: Final = "yyyy, MM, MMM, dd, HH, hh, a, mm, ss, SSS, XXX"


def check_format(text: str, node: exp.Expr, *, read: bool) -> None:
    """Raise SqlError if Spark would refuse the format, or fail at some row.

    ``read`` is True for a format that reads texts, and False for a format that writes texts.

    >>> check_format("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", exp.null(), read=True)
    >>> check_format("YYYY-MM-DD", exp.null(), read=False)
    Traceback (most recent call last):
    ...
    weft.errors.SqlError: the format 'YYYY-MM-DD' has 'YYYY', which Weft does not support here
      Write yyyy for the year; the letters are yyyy, MM, MMM, dd, HH, hh, a, mm, ss, SSS, XXX.
    """
    begin = 0
    while begin < len(text):
        match = _GROUPS.match(text, begin)
        if match is None:
            raise SqlError(f"the format {text!r} has a quote that is not closed", where=place(node))
        letter, group = match[1], match[0]
        known = _MOST if read else {**_MOST, **_WRITTEN_ONLY}
        if (letter and len(group) > known.get(letter, 0)) or group in "[]{}#":
            raise SqlError(
                f"the format {text!r} has {group!r}, which Weft does not support here",
                where=place(node),
                hint=_hint(group),
            )
        begin = match.end()


def _hint(group: str) -> str:
    known = _MEANT.get(group[0])
    return f"Write {known}; the letters are {LETTERS}." if known else f"The letters are {LETTERS}."
