"""Parse the own time of a row if it is not ISO 8601: a number since 1970, or text in a strptime format."""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable, Mapping
from typing import Final

import duckdb

from weft.errors import Refused
from weft.instants import FIRST_INSTANT, LAST_INSTANT
from weft.storage.local_sql import connect

UNITS: Final[Mapping[str, str]] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_LEAST_SECONDS: Final = 10**8
_FACTOR: Final = 10**3
"""The ratio of each unit to the next."""
_IN_MICROSECONDS: Final = {
    "s": "CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,9)) * 1000000::DECIMAL(7,0)) AS HUGEINT)",
    "ms": "CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,6)) * 1000::DECIMAL(4,0)) AS HUGEINT)",
    "us": "CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,3))) AS HUGEINT)",
    # Truncated, as nanoseconds of Parquet are.
    "ns": "(CAST(floor(TRY_CAST(trim({0}) AS DECIMAL(28,0))) AS HUGEINT) // 1000)",
}
_SIGN: Final = re.compile(r"%[A-Za-z%-]")


def check_form(form: str) -> None:
    """Raise Refused unless the form is a unit or a strptime format."""
    if form in UNITS:
        return
    problem = None if _SIGN.search(form) else "it has no format code such as %Y"
    if problem is None:
        try:
            with connect() as connection:
                connection.execute(f"SELECT try_strptime('', {_text(form)})")
        except duckdb.Error as error:
            problem = " ".join(str(error).split())[:200]
    if problem is not None:
        raise Refused(
            f"--ts-format {form!r} is not a valid format: {problem}",
            hint="Use s, ms, us or ns for numbers since 1970, or a format like '%d.%m.%Y %H:%M:%S' (%z: the offset).",
        )


def in_microseconds(cell: str, form: str) -> str:
    """Return a DuckDB expression for the instant in a text cell, µs UTC; NULL if the cell does not match the form.

    Text without an offset is UTC.
    """
    if form in UNITS:
        instant = _IN_MICROSECONDS[form].format(cell)
    else:
        instant = f"epoch_us(try_strptime(trim({cell}), {_text(form)}))"
    return f"CASE WHEN {instant} BETWEEN {FIRST_INSTANT} AND {LAST_INSTANT} THEN CAST({instant} AS BIGINT) END"


def common_unit(values: Iterable[str | None]) -> str | None:
    """Return the unit in which all these numbers are instants from 1973 to 5138; None if no one unit fits.

    >>> common_unit(["1700000000", None, "1700000000.25"]), common_unit(["1700000000", "1700000000000"])
    ('s', None)
    """
    units = {_unit(value) for value in values if value}
    return units.pop() if len(units) == 1 else None


def _unit(value: str) -> str | None:
    try:
        number = decimal.Decimal(value.strip())
    except decimal.InvalidOperation:
        return None
    least = decimal.Decimal(_LEAST_SECONDS)
    for unit in UNITS:
        if least <= number < least * _FACTOR:
            return unit
        least *= _FACTOR
    return None


def _text(form: str) -> str:
    return "'" + form.replace("'", "''") + "'"
