"""What a caller may give in several forms: instants, lengths of time, and how a load treats times."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.instants import from_datetime, parse_instant, parse_interval

if TYPE_CHECKING:
    from weft.extraction.timing import Late, Timing, TsOrder

AnyInstant = int | str | dt.datetime
"""Microseconds since 1970-01-01 UTC, ISO 8601 text (UTC where it has no offset), or a datetime with a zone."""


def micros(instant: AnyInstant) -> int:
    """An instant as microseconds UTC; raises Refused for text that is none and a datetime without a zone."""
    if isinstance(instant, str):
        return parse_instant(instant)
    if isinstance(instant, dt.datetime):
        if instant.tzinfo is None:
            raise Refused(f"{instant} has no zone", hint="Give it one: datetime(…, tzinfo=timezone.utc).")
        return from_datetime(instant)
    return instant


def timing(ts_from: str | None, order: TsOrder, late: Late, future: str | int, hold: bool) -> Timing:
    """How a load treats times; ``future`` as ``length`` takes it."""
    from weft.extraction.timing import Timing

    return Timing(ts_from, order, late, length(future), hold)


def length(text: str | int) -> int:
    """A length of time in microseconds, given as text such as ``10m``, or as such."""
    return parse_interval(text) if isinstance(text, str) else text


def column_list(text: str) -> list[tuple[str, DataType | None]]:
    """Columns with commas between, each with its type or without (None); raises Refused for what is no type.

    >>> [(name, str(kind)) for name, kind in column_list("id bigint, name, price decimal(8, 2)")]
    [('id', 'BIGINT'), ('name', 'None'), ('price', 'DECIMAL(8,2)')]
    """
    found: list[tuple[str, DataType | None]] = []
    for each in re.split(r",(?![^(]*\))", text):
        name, _, kind = each.strip().partition(" ")
        try:
            if name:
                found.append((name, DataType.parse(kind) if kind.strip() else None))
        except ValueError as error:
            raise Refused(f"--columns: {error}", hint="Write it like: id BIGINT, name, hired DATE.") from None
    if not found:
        raise Refused("--columns names no column", hint="Write it like: id BIGINT, name, hired DATE.")
    return found
