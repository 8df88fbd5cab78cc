"""The aggregates of temporal views, and the one type that each has on every engine.

    COUNT(*), COUNT(x)   BIGINT
    SUM(x)               BIGINT of TINYINT to BIGINT (NULL where it does not fit), DECIMAL(min(p + 10, 38), s) of
                         DECIMAL(p, s), DOUBLE of FLOAT and DOUBLE
    AVG(x)               DOUBLE
    MIN(x), MAX(x)       as x

NULLs are passed over; of no value SUM, AVG, MIN and MAX are NULL and COUNT is 0.
"""

from __future__ import annotations

from typing import Final
from typing import Literal as OneOf

from weft.algebra.schema import BIGINT, DOUBLE, INTEGRAL, INTERVAL, MONTHS, MOST_DIGITS, NULL, SUM_DIGITS, DataType

Aggregate = OneOf["count", "sum", "avg", "min", "max"]
MEASURES: Final[dict[str, Aggregate]] = {"count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max"}
DISTINCT: Final = "distinct"
"""Around the argument of COUNT(DISTINCT x), which is read in standing queries to be offered as a formula."""
WINDOW: Final = "moving_window"
"""The function that, among the items of GROUP BY, gives the length of the moving window."""


def aggregate_type(function: Aggregate, argument: DataType | None) -> DataType:
    """The type of an aggregate over values of a type (None: ``COUNT(*)``); raises TypeError where it has none."""
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
