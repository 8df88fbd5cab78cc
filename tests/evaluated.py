"""Evaluate predicates and scalars on times in plain Python, with Spark's meaning in the time zone UTC."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from weft.algebra.relation import And, NowBefore, NowFrom, Or, Plain, Predicate, Turns
from weft.algebra.scalar import Call, Case, Cast, ColumnRef, Literal, Now, Scalar
from weft.algebra.schema import DATE, MONTHS, TIMESTAMP

EPOCH = dt.datetime(1970, 1, 1)
DAY = dt.timedelta(days=1)
_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")


def micros(moment: dt.datetime) -> int:
    """Return the microseconds from 1970 to a moment of a clock."""
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def moment(instant: int) -> dt.datetime:
    """Return the moment that is ``instant`` microseconds after 1970."""
    return EPOCH + dt.timedelta(microseconds=instant)


def months_later(when: dt.datetime, months: int) -> dt.datetime:
    """Return ``when`` plus months; in a shorter month, its last day."""
    year, month = divmod(when.year * 12 + when.month - 1 + months, 12)
    return when.replace(year=year, month=month + 1, day=min(when.day, calendar.monthrange(year, month + 1)[1]))


def shown(instant: dt.datetime, zone: str) -> dt.datetime:
    """Return what the clock of a zone shows at an instant."""
    return instant.replace(tzinfo=dt.timezone.utc).astimezone(_zone(zone)).replace(tzinfo=None)


def instant_of(clock: dt.datetime, zone: str) -> dt.datetime:
    """Return the first instant at which the clock shows a time.

    A time that the clock skips is moved by the length of time that it skips.
    """
    return clock.replace(tzinfo=_zone(zone), fold=0).astimezone(dt.timezone.utc).replace(tzinfo=None)


@lru_cache
def _zone(name: str) -> dt.tzinfo:
    if name[0] not in "+-":
        return ZoneInfo(name)
    hours, minutes = int(name[1:3]), int(name[4:])
    return dt.timezone((-1 if name[0] == "-" else 1) * dt.timedelta(hours=hours, minutes=minutes))


def truncated(unit: str, when: dt.datetime) -> dt.datetime:
    """Return the start of the unit that contains ``when``."""
    if unit == "WEEK":
        return truncated("DAY", when) - when.weekday() * DAY
    month = {"YEAR": 1, "QUARTER": when.month - (when.month - 1) % 3}.get(unit, when.month)
    shorter = _UNITS[_UNITS.index("MONTH" if unit == "QUARTER" else unit) :][1:]
    least = {"MONTH": 1, "DAY": 1, "HOUR": 0, "MINUTE": 0, "SECOND": 0}
    return when.replace(microsecond=0, **{each.lower(): least[each] for each in shorter}).replace(month=month)  # type: ignore[arg-type]


def value(scalar: Scalar, row: Mapping[str, Any]) -> Any:
    """Return the value of a scalar.

    ``row`` maps columns to values: datetimes, dates, timedeltas and others, and NOW to an instant.
    """
    match scalar:
        case ColumnRef(column=column):
            return row[column]
        case Now():
            return row["NOW"]
        case Literal(value=int(raw), type=type) if type.name in ("TIMESTAMP", "INTERVAL", "DATE", "MONTHS"):
            return (
                raw
                if type == MONTHS
                else moment(raw)
                if type == TIMESTAMP
                else (EPOCH.date() + raw * DAY if type == DATE else dt.timedelta(microseconds=raw))
            )
        case Literal(value=raw):
            return raw
        case Case(branches=branches, default=default):
            chosen = next((then for test, then in branches if value(test, row) is True), default)
            return None if chosen is None else value(chosen, row)
        case Cast(arg=arg, type=type):
            return _cast(value(arg, row), type.name)
        case Call(name=name, args=args):
            return _called(name, [value(arg, row) for arg in args])
        case _:
            raise NotImplementedError(scalar)


def _cast(found: Any, type: str) -> Any:
    if found is None or type == "INT":
        return found
    if type == "DATE":
        return found.date() if isinstance(found, dt.datetime) else found
    assert type == "TIMESTAMP"
    return found if isinstance(found, dt.datetime) else dt.datetime(found.year, found.month, found.day)


def _called(name: str, args: list[Any]) -> Any:
    if name in ("is null", "is not null"):
        return (args[0] is None) == (name == "is null")
    if name in ("and", "or"):
        absorbing = name == "or"
        return absorbing if absorbing in args else None if None in args else not absorbing
    if name in ("least", "greatest"):
        known = [arg for arg in args if arg is not None]
        return (min if name == "least" else max)(known) if known else None
    if name in ("coalesce", "ifnull", "nvl"):
        return next((arg for arg in args if arg is not None), None)
    if name == "in":
        found = [_called("=", [args[0], item]) for item in args[1:]]
        return _called("or", found)
    if name == "<=>":
        return args[0] == args[1]
    return None if None in args else _strict(name, args)


def _strict(name: str, args: list[Any]) -> Any:
    a, b = (*args, None)[:2]
    if name in ("+", "-") and isinstance(a, dt.datetime) and isinstance(b, int):
        return months_later(a, b if name == "+" else -b)
    rules: dict[str, Any] = {
        "=": lambda: a == b, "<>": lambda: a != b, "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b,
        ">=": lambda: a >= b, "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "not": lambda: not a,
        "%": lambda: abs(a) % b * (1 if a >= 0 else -1), "year": lambda: a.year, "unix_micros": lambda: micros(a),
        "timestamp_micros": lambda: moment(a),
        "date_trunc": lambda: truncated(a, b), "make_date": lambda: dt.date(*args),
        "from_utc_timestamp": lambda: shown(a, b), "to_utc_timestamp": lambda: instant_of(a, b),
    }  # fmt: skip
    return rules[name]()


def judged(predicate: Predicate, row: Mapping[str, Any]) -> Callable[[dt.datetime], bool]:
    """Return the function that says whether a predicate without subqueries is true at an instant."""
    match predicate:
        case Plain(condition=condition):
            truth = value(condition, row) is True
            return lambda now: truth
        case And(items=items):
            parts = [judged(item, row) for item in items]
            return lambda now: all(part(now) for part in parts)
        case Or(items=items) | Turns(items=items):
            parts = [judged(item, row) for item in items]
            return lambda now: any(part(now) for part in parts)
        case NowFrom(threshold=threshold):
            start = value(threshold, row)
            return lambda now: start is not None and now >= start
        case NowBefore(threshold=threshold):
            end = value(threshold, row)
            return lambda now: end is not None and now < end
        case _:
            raise NotImplementedError(predicate)
