"""The aggregates of temporal views and their result types, which are the same on every engine.

    COUNT(*), COUNT(x)   BIGINT
    SUM(x)               BIGINT for TINYINT to BIGINT (NULL on overflow), DECIMAL(min(p + 10, 38), s) for
                         DECIMAL(p, s), DOUBLE for FLOAT and DOUBLE
    AVG(x)               DOUBLE
    MIN(x), MAX(x)       the type of x

Aggregates ignore NULLs.  Without any value, COUNT is 0 and the others are NULL.
"""

from __future__ import annotations

from typing import Final
from typing import Literal as OneOf

from weft.algebra.schema import BIGINT, DOUBLE, INTEGRAL, INTERVAL, MONTHS, MOST_DIGITS, NULL, SUM_DIGITS, DataType

Aggregate = OneOf["count", "sum", "avg", "min", "max"]
MEASURES: Final[dict[str, Aggregate]] = {"count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max"}
DISTINCT: Final = "distinct"
"""A call around the argument of COUNT(DISTINCT x).  Standing queries bind it only to offer an equivalent formula."""
WINDOW: Final = "moving_window"
"""The function that, as an item of GROUP BY, gives the length of the moving window."""


def aggregate_type(function: Aggregate, argument: DataType | None) -> DataType:
    """Return the type of an aggregate over values of a type (None: ``COUNT(*)``); raise TypeError if it has none."""
    if function == "count":
        return BIGINT
    if argument in (None, NULL, INTERVAL, MONTHS):
        raise TypeError(f"{argument or 'rows'}")
    assert argument is not None
    if function in ("min", "max"):
        return argument
    if not argument.numeric:
        raise TypeError(str(argument))
    if function == "avg" or argument.name in ("FLOAT", "DOUBLE"):
        return DOUBLE
    if argument.name in INTEGRAL:
        return BIGINT
    return DataType("DECIMAL", min((argument.precision or 10) + SUM_DIGITS, MOST_DIGITS), argument.scale or 0)
