"""Compute exact sums of DECIMALs with many digits, in SQL for both DuckDB and Spark.

A sum of DECIMAL(p, s) has ten more digits than its values.  If p + 10 is at most 38, a DECIMAL can hold the sum of ten
billion rows.  Values with more digits are summed in two parts, x = high * U + low with U = 10^(25 - s):

- low = x % U has at most 25 digits;
- high, an integer below 10^13, is exact in a DOUBLE.

The sums of the two parts are exact.  ``total`` combines the two sums into one number, or NULL if the number has more
than 38 digits.  Spark computes the same number, but rounds the last digit of some totals.  A rounded total has 38
digits, and more than 6 digits after the point.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.schema import MOST_DIGITS, DataType, sums_fit

_LOW_DIGITS: Final = 25
_HIGH_DIGITS: Final = MOST_DIGITS - _LOW_DIGITS
_UNITS: Final = f"DECIMAL({_HIGH_DIGITS},0)"


def is_wide(type: DataType) -> bool:
    """Return whether the type is a DECIMAL that cannot have ten more digits."""
    return type.name == "DECIMAL" and not sums_fit(type)


def low_part(value: str, type: DataType) -> str:
    """Return SQL for the low part of a value: the value modulo U."""
    # If 38 digits are too few, DuckDB computes % of two decimals with different scales as DOUBLE.
    widest = _widest(type)
    return f"CAST(CAST({value} AS {widest}) % CAST({_unit(type)} AS {widest}) AS {widest})"


def high_part(value: str, type: DataType) -> str:
    """Return SQL for the high part of a value: (value - low part) / U."""
    return _units(f"{value} - {low_part(value, type)}", type)


def total(low: str, high: str, type: DataType) -> str:
    """Return SQL for the total of both sums, or NULL if the total has more than 38 digits."""
    high, low = f"({high} + {high_part(low, type)})", low_part(low, type)
    # If the two parts have opposite signs, the high part alone could overflow although the total does not.
    taken = f"(CASE WHEN {high} > 0 AND {low} < 0 THEN 1 WHEN {high} < 0 AND {low} > 0 THEN -1 ELSE 0 END)"
    units, rest = f"({high} - {taken})", f"CAST({low} + {taken} * {_unit(type)} AS {_widest(type)})"
    whole = f"CAST(CAST({units} AS {_UNITS}) * {_unit(type)} AS {_widest(type)})"
    return f"CASE WHEN ABS({units}) < 1{'0' * _HIGH_DIGITS} THEN {whole} + {rest} END"


def quotient(low: str, high: str, count: str, type: DataType) -> str:
    """Return SQL for the average as a DOUBLE, even if the sum has more than 38 digits."""
    beyond = f"CAST({high} AS DOUBLE) * CAST({_unit(type)} AS DOUBLE) + CAST({low} AS DOUBLE)"
    return f"COALESCE(CAST({total(low, high, type)} AS DOUBLE), {beyond}) / CAST({count} AS DOUBLE)"


def _units(value: str, type: DataType) -> str:
    return f"CAST(ROUND(CAST({value} AS DOUBLE) / CAST({_unit(type)} AS DOUBLE)) AS BIGINT)"


def _widest(type: DataType) -> str:
    return f"DECIMAL({MOST_DIGITS},{type.scale or 0})"


def _unit(type: DataType) -> str:
    below = (type.scale or 0) - _LOW_DIGITS
    if below <= 0:
        return f"CAST('1{'0' * -below}' AS DECIMAL({1 - below},0))"
    return f"CAST('0.{'0' * (below - 1)}1' AS DECIMAL({below + 1},{below}))"
