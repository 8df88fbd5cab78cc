"""Types brought together: for comparing, and for reading strings as times."""

from __future__ import annotations

from sqlglot import exp

from weft.algebra.scalar import Cast, Literal, Scalar
from weft.algebra.schema import DATE, NULL, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.sql import literals
from weft.sql.functions import wider
from weft.sql.parse import place


def comparable(left: Scalar, right: Scalar, node: exp.Expr) -> tuple[Scalar, Scalar]:
    """Both sides in one type, by the conversions that lose nothing; raises SqlError where there is none."""
    if left.type == right.type or NULL in (left.type, right.type):
        return left, right
    if left.type == STRING and right.type in (TIMESTAMP, DATE):
        return as_time(left, right.type, node), right
    if right.type == STRING and left.type in (TIMESTAMP, DATE):
        return left, as_time(right, left.type, node)
    try:
        shared = wider(left.type, right.type)
    except TypeError:
        raise SqlError(
            f"{left.type} and {right.type} cannot be compared",
            where=place(node),
            hint="Convert one of them: CAST(… AS …).",
        ) from None
    if shared == TIMESTAMP:
        return converted(left, TIMESTAMP), converted(right, TIMESTAMP)
    return left, right


def as_time(value: Scalar, type: DataType, node: exp.Expr) -> Scalar:
    """A string read as a time: a constant at once, anything else when it runs (NULL where it is none)."""
    if not isinstance(value, Literal):
        return Cast(value, type)
    text = str(value.value)
    if type == DATE and len(text.strip()) <= 10:
        return literals.day(text, node)
    return literals.timestamp(text, node)


def typed(value: Scalar, type: DataType) -> Scalar:
    """``value``, a NULL that has no type of its own as one of ``type``."""
    return Cast(value, type) if value.type == NULL else value


def converted(value: Scalar, type: DataType) -> Scalar:
    """``value`` as ``type``, without a needless cast."""
    return value if value.type in (type, NULL) else Cast(value, type)
