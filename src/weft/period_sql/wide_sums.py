"""Compute exact sums of DECIMALs with many digits, in SQL for both DuckDB and Spark.

A sum of DECIMAL(p, s) has ten more digits than its values.  If p + 10 is at most 38, a DECIMAL can hold the sum of ten
billion rows.  Values with more digits are summed in two parts, x = high * U + low with U = 10^(25 - s):

- low = x % U has at most 25 digits, or s digits if s is more;
- high, an integer below 10^13, is exact in a DOUBLE.

The sums of the two parts are exact.  ``total`` combines the two sums into one number, or NULL if the number has more
than 38 digits.

In Spark, a result of arithmetic has one more digit than its arguments, and an integer has ten digits before the point.
If a type would need more than 38 digits, Spark drops the last of more than 6 digits after the point.
``total`` avoids this for totals of at most 35 digits, with at most ``MOST_SCALE`` digits after the point.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.schema import MOST_DIGITS, DataType, sums_fit

_LOW_DIGITS: Final = 25
_HIGH_DIGITS: Final = MOST_DIGITS - _LOW_DIGITS
_UNITS: Final = f"DECIMAL({_HIGH_DIGITS},0)"
MOST_SCALE: Final = 15
"""The most digits after the point of values whose parts Spark adds up exactly."""
_PLAIN_DIGITS: Final = 36
"""The digits of two numbers whose sum has at most 38 digits, with one more that Spark adds."""


def is_wide(type: DataType) -> bool:
    """Return whether the type is a DECIMAL that cannot have ten more digits."""
    return type.name == "DECIMAL" and not sums_fit(type)


def low_part(value: str, type: DataType) -> str:
    """Return SQL for the low part of a value: the value modulo U."""
    # If 38 digits are too few, DuckDB computes % of two decimals with different scales as DOUBLE.
    widest = _decimal(MOST_DIGITS, type)
    return f"CAST(CAST({value} AS {widest}) % CAST({_unit(type)} AS {widest}) AS {_low(type)})"


def high_part(value: str, type: DataType) -> str:
    """Return SQL for the high part of a value: (value - low part) / U."""
    return _units(f"{value} - {low_part(value, type)}", type)


def total(low: str, high: str, type: DataType) -> str:
    """Return SQL for the total of both sums, or NULL if the total has more than 38 digits."""
    plain = f"ABS({high}) < {_power(_PLAIN_DIGITS - _LOW_DIGITS)} AND ABS({low}) < {_power(_PLAIN_DIGITS, type)}"
    short = _decimal(_PLAIN_DIGITS + 1, type)
    added = f"CAST({_times_unit(high, type)} AS {short}) + CAST({low} AS {short})"
    return f"CASE WHEN {plain} THEN {added} {_of_many_digits(low, high, type)} END"


def _of_many_digits(low: str, high: str, type: DataType) -> str:
    """Return the WHEN and THEN of a CASE for totals that may have more than 38 digits."""
    high, low, unit = f"({high} + {high_part(low, type)})", low_part(low, type), _unit(type)
    # If the two parts have opposite signs, the high part alone could overflow although the total does not.  Spark's
    # SIGN is a DOUBLE, which has every integer up to 10^13.
    most = f"1{'0' * _HIGH_DIGITS}"
    fits = f"ABS({high}) < {most} OR ABS({high}) = {most} AND SIGN({high}) = -SIGN({low})"
    whole = f"CAST({_times_unit(f'({high} - SIGN({high}))', type)} AS {_decimal(MOST_DIGITS, type)})"
    rest = f"CASE WHEN {high} > 0 THEN {low} + {unit} WHEN {high} < 0 THEN {low} - {unit} ELSE {low} END"
    return f"WHEN {fits} THEN CAST({whole} + {rest} AS {_decimal(MOST_DIGITS, type)})"


def quotient(low: str, high: str, count: str, type: DataType) -> str:
    """Return SQL for the average as a DOUBLE, even if the sum has more than 38 digits."""
    beyond = f"CAST({high} AS DOUBLE) * CAST({_unit(type)} AS DOUBLE) + CAST({low} AS DOUBLE)"
    # DuckDB rounds some numbers of many digits wrongly to a DOUBLE, but no text.
    return f"COALESCE(CAST(CAST({total(low, high, type)} AS STRING) AS DOUBLE), {beyond}) / CAST({count} AS DOUBLE)"


def _units(value: str, type: DataType) -> str:
    return f"CAST(ROUND(CAST({value} AS DOUBLE) / CAST({_unit(type)} AS DOUBLE)) AS {_UNITS})"


def _times_unit(units: str, type: DataType) -> str:
    # DuckDB gives two DECIMALs of up to 18 digits a product of 18 digits.
    return f"CAST({units} AS DECIMAL(19,0)) * {_unit(type)}"


def _low(type: DataType) -> str:
    return _decimal(_LOW_DIGITS, type)


def _decimal(digits: int, type: DataType) -> str:
    return f"DECIMAL({max(digits, type.scale or 0)},{type.scale or 0})"


def _unit(type: DataType) -> str:
    return _power(_LOW_DIGITS, type)


def _power(digits: int, type: DataType | None = None) -> str:
    """Return SQL for the least number with more than ``digits`` digits among those with the scale of the type."""
    above = digits - ((type and type.scale) or 0)
    if above >= 0:
        return f"CAST('1{'0' * above}' AS DECIMAL({above + 1},0))"
    return f"CAST('0.{'0' * (-above - 1)}1' AS DECIMAL({-above},{-above}))"
