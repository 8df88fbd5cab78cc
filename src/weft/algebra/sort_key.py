"""Define the ORDER BY keys over the columns of an answer.  Keys compare values as Spark does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Key:
    """A sort key: a column number (from 0), a direction, and a flag that sorts NULLs first.

    ``nulls_first`` has the same meaning in both directions.
    """

    column: int
    descending: bool = False
    nulls_first: bool = True


def compared(keys: Sequence[Key], left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return a negative number if ``left`` sorts first, a positive number if ``right`` sorts first, and 0 for a tie.

    >>> compared([Key(0, descending=True, nulls_first=False)], ["a"], [None])
    -1
    >>> compared([Key(0)], [float("nan")], [1.0])
    1
    """
    for key in keys:
        one, other = left[key.column], right[key.column]
        if one is None or other is None:
            if one is not other:
                return -1 if (one is None) == key.nulls_first else 1
            continue
        one, other = _ranked(one), _ranked(other)
        if one != other:
            return -1 if (one < other) != key.descending else 1
    return 0


def _ranked(value: Any) -> tuple[bool, Any]:
    """Return a sortable form of ``value``.  NaN equals itself and is greater than every other number."""
    undefined = isinstance(value, float) and math.isnan(value)
    return undefined, 0.0 if undefined else value
