"""Convert intervals to columns and back.

An expression has the type INTERVAL.  A column stores an interval as a whole number of microseconds, because Delta has
no such type (``schema.INTERVALS``).

    p.ts - o.ts AS delay    MICROSECONDS(p.ts - o.ts)     in a select list
    d.delay                 OF_MICROSECONDS(d.delay)      where an expression names the column

Aggregates, grouping expressions and window functions take and return columns.
"""

from __future__ import annotations

from weft.algebra.scalar import MICROSECONDS, OF_MICROSECONDS, Call, Literal, Scalar
from weft.algebra.schema import DOUBLE, INTERVAL, INTERVALS
from weft.sql.rendering.render import ROUNDED


def as_stored(value: Scalar) -> Scalar:
    """Return an interval as a column stores it.  Return any other value unchanged."""
    if value.type != INTERVAL:
        return value
    match value:
        case Call(name=name, args=(stored,)) if name == OF_MICROSECONDS:
            return stored
        case Literal(value=int(micros)):
            return Literal(micros, INTERVALS)
        case _:
            return Call(MICROSECONDS, (value,), INTERVALS)


def as_interval(column: Scalar) -> Scalar:
    """Return the interval that a column stores.  Return any other value unchanged."""
    if column.type.shape != INTERVAL:
        return column
    match column:
        case Call(name=name, args=(value,)) if name == MICROSECONDS:
            return value
        case Literal(value=int(micros)):
            return Literal(micros, INTERVAL)
        case _:
            return Call(OF_MICROSECONDS, (column,), INTERVAL)


def averaged(column: Scalar, argument: Scalar | None) -> Scalar:
    """Return the result of an aggregate over ``argument``.  The mean of intervals is rounded to a microsecond."""
    if argument is None or argument.type.shape != INTERVAL or column.type != DOUBLE:
        return as_interval(column)
    return as_interval(Call(ROUNDED, (column,), INTERVALS))


def divided(interval: Scalar, number: Scalar) -> Scalar:
    """Return an interval divided by a number, rounded to a microsecond, as in Spark."""
    return averaged(Call("/", (as_stored(interval), number), DOUBLE), as_stored(interval))
