"""Define which values from Python and Arrow a column of each type accepts, and the errors for other values."""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra.schema import INTEGRAL, DataType
from weft.errors import Refused
from weft.storage.columns import arrow_type
from weft.storage.type_table import TYPES, whole_numbers

Columns = Sequence[tuple[str, DataType]]


def accepted_values(kind: DataType) -> str:
    """Return a description of the values that a column of the type accepts.

    >>> accepted_values(DataType("TINYINT")), accepted_values(DataType("DATE"))
    ('an int from -128 to 127', 'a date')
    """
    if kind.shape is not None:
        return f"dicts and lists, or JSON, of the type {kind.declared}"
    if kind.name in INTEGRAL:
        limits = whole_numbers(arrow_type(kind))
        return f"an int from {limits.start} to {limits.stop - 1}"
    if kind.name == "DECIMAL":
        digits, scale = (kind.precision or 0) - (kind.scale or 0), kind.scale
        return f"a number with at most {digits} digits before the point and {scale} after it"
    return TYPES[kind.name].accepts


def listed(columns: Columns) -> str:
    """Return a sentence that lists the columns of a table."""
    return f"The columns are {', '.join(f'{each} {kind.declared}' for each, kind in columns)}."


def no_column(name: object, columns: Columns, where: str) -> Refused:
    """Return the error for a column that the table does not have."""
    way = ""
    if name == "ts":
        way = (
            "ts is the instant at which a row begins. To take that instant from the rows: ts_from='ts' or "
            "--ts-from ts. "
        )
    return Refused(f"the table has no column {name!r}", where=where, hint=f"{way}{listed(columns)}")


def wrong_value(name: str, kind: DataType, value: str, where: str, hint: str | None = None) -> Refused:
    """Return the error for a printed ``value`` that does not fit its column's type.

    If ``hint`` is None, the hint of the error describes the accepted values.
    """
    cut = value if len(value) <= 60 else f"{value[:60]}…"
    return Refused(
        f"{name} is {cut}, which is not of type {kind.declared}",
        where=where,
        hint=hint or f"{name} accepts {accepted_values(kind)}.",
    )


def shown(value: object) -> str:
    """Return the repr of a value. If repr fails, return a description.

    >>> shown("a"), shown(10**5000)
    ("'a'", 'an int of 16610 bits')
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):  # too many digits, or nested too deep
        return f"an int of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
