"""The order in which answers are shown: ORDER BY keys over an answer's columns, compared as Spark compares them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Key:
    """A sort key: a column number (from 0), a direction, and whether NULLs sort first in either direction."""

    column: int
    descending: bool = False
    nulls_first: bool = True


def compared(keys: Sequence[Key], left: Sequence[Any], right: Sequence[Any]) -> int:
    """Return a negative number if ``left`` sorts first, a positive one if ``right`` does, 0 if the keys are equal.

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
    """Return a sortable value in which NaN equals itself and exceeds every other number."""
    undefined = isinstance(value, float) and math.isnan(value)
    return undefined, 0.0 if undefined else value
