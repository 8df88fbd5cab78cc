"""What a value may be for a column of each type, where it comes from Python or Arrow, and how a wrong one is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.algebra.schema import DataType
from weft.errors import Refused

Columns = Sequence[tuple[str, DataType]]

BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
"""Of the types for whole numbers."""

_TAKES: Final = {
    "STRING": "a str",
    "BOOLEAN": "a bool",
    "FLOAT": "a float or an int",
    "DOUBLE": "a float or an int",
    "DATE": "a date",
    "TIMESTAMP": "a datetime, which is UTC where it has no zone",
    "BINARY": "bytes",
}


def taken_by(kind: DataType) -> str:
    """What a column of the type takes, in words.

    >>> taken_by(DataType("TINYINT")), taken_by(DataType("DATE"))
    ('an int from -128 to 127', 'a date')
    """
    if kind.shape is not None:
        return f"dicts and lists, or JSON, of that type: {kind.declared}"
    if kind.name in BITS:
        most = 2 ** (BITS[kind.name] - 1)
        return f"an int from {-most} to {most - 1}"
    if kind.name == "DECIMAL":
        whole, scale = (kind.precision or 0) - (kind.scale or 0), kind.scale
        return f"a number with at most {whole} digits before the point and {scale} after it"
    return _TAKES.get(kind.name, f"what fits {kind}")


def listed(columns: Columns) -> str:
    """A table's columns, in words."""
    return f"The columns are {', '.join(f'{each} {kind.declared}' for each, kind in columns)}."


def no_column(name: object, columns: Columns, where: str) -> Refused:
    """What to say of a column that the table does not have."""
    way = ""
    if name == "ts":
        way = (
            "ts is the instant at which a row came to be known: ts_from='ts', or --ts-from ts, takes it from the rows. "
        )
    return Refused(f"there is no column {name!r}", where=where, hint=f"{way}{listed(columns)}")


def wrong_value(name: str, kind: DataType, value: str, where: str, hint: str | None = None) -> Refused:
    """What to say of a value that is none of its column's type; ``value`` as it is to be shown.

    ``hint`` None: what the column takes.
    """
    cut = value if len(value) <= 60 else f"{value[:60]}…"
    return Refused(
        f"{name} is {cut}, which is no {kind.declared}", where=where, hint=hint or f"{name} takes {taken_by(kind)}."
    )


def shown(value: object) -> str:
    """A value as Python writes it; where Python does not, what it is.

    >>> shown("a"), shown(10**5000)
    ("'a'", 'an int of 16610 bits')
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):  # too many digits, or too deep
        return f"an int of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
