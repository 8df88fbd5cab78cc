"""A table with the values at which the engines are likely to differ, and the form in which results are compared."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

COLUMNS = {
    "id": "INT",
    "t": "TINYINT",
    "i": "INT",
    "b": "BIGINT",
    "d": "DECIMAL(9,3)",
    "w": "DECIMAL(18,2)",
    "f": "DOUBLE",
    "x": "STRING",
    "y": "STRING",
    "q": "BOOLEAN",
    "m": "TIMESTAMP",
    "a": "DATE",
}
MOMENTS = (
    "1970-01-01",
    "1969-12-31 23:59:59.999999",
    "2000-02-29 12:30:00.100",
    "9999-12-31",
    "0002-01-01",
    "1582-10-04",
)
DRAWN: dict[str, tuple[Any, ...]] = {
    "t": (0, 1, -1, 7, 127, -128, None),
    "i": (0, 1, -1, 3, 10, 2**31 - 1, -(2**31), 12345, None),
    "b": (0, 1, -1, 2, -7, 2**63 - 1, -(2**63), 2**53 + 1, 10**15, None),
    "d": (*map(Decimal, ("0", "0.001", "-0.5", "0.5", "1.5", "2.5", "-2.5", "999999.999", "-999999.999")), None),
    "w": (*map(Decimal, ("0.00", "0.01", "-0.05", "1e15", "9999999999999999.99", "-1.10")), None),
    "f": (0.0, -0.0, 1.5, -2.5, 0.1, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, None),
    "x": (
        *("", " ", "a", "A", "ab", "aab", " a b ", "\ta\n", "50%", "5_0", "a\\b", "\\", "it's", "äöü", "😀x"),
        *("\u00a0a", "a.b", None),
    ),
    "y": ("", "a", "b", "%", "_", "\\", " ", "ab", "ü", "😀", None),
    "q": (True, False, None),
    "m": (*map(dt.datetime.fromisoformat, MOMENTS), None),
    "a": (*map(dt.date.fromisoformat, ("1970-01-01", "2000-02-29", "9999-12-31", "0002-01-01", "1900-12-31")), None),
}


def rows() -> list[tuple[Any, ...]]:
    """Return rows that contain each value of each column."""
    chance = random.Random(8)
    shuffled = {name: [chance.sample(values, len(values)) for _ in range(40)] for name, values in DRAWN.items()}
    each = {name: [value for part in parts for value in part] for name, parts in shuffled.items()}
    return [(number, *(each[name][number] for name in list(COLUMNS)[1:])) for number in range(110)]


def shown(value: Any) -> Any:
    """Return a value for comparison: the bits of a double except for NaN and the sign of 0, and the value of a
    decimal.
    """
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value + 0.0).hex()
    if isinstance(value, Decimal):
        return value.normalize() if value else Decimal(0)
    return value
