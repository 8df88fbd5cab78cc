"""The order in which answers are shown: the keys of ORDER BY over an answer's columns, compared as Spark does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Key:
    """A column of the answer, counted from 0; ``nulls_first``: NULLs come before all values in either direction."""

    column: int
    descending: bool = False
    nulls_first: bool = True


def compared(keys: Sequence[Key], left: Sequence[Any], right: Sequence[Any]) -> int:
    """Below 0 where ``left`` comes first, above 0 where ``right`` does, 0 where the keys are equal.

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
    """NaN is the greatest number and equal to itself."""
    undefined = isinstance(value, float) and math.isnan(value)
    return undefined, 0.0 if undefined else value
