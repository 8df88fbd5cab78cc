"""Define the parts of nested columns by which rows are looked up.

A nested column is JSON text.  A part of it is a field of a STRUCT, an element of an ARRAY or a value of a MAP, at any
depth, such as ``who.at.zip`` or ``tags['a']``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar
from weft.algebra.schema import INTEGRAL, STRING, DataType
from weft.algebra.traverse import substitute

FIELD: Final = "field of"
"""The name of the function that returns a field of a STRUCT, or the field of each STRUCT in an ARRAY.  The arguments
are the value and the name of the field.
"""
ITEM: Final = "item of"
"""The name of the function that returns an element of an ARRAY by index (from 0), or a value of a MAP by key.

The result is NULL if the element or the key does not exist.
"""
Step: TypeAlias = "str | int"
"""The name of a field, a key of a MAP, or the index of an element (from 0)."""
ROW: Final = "_row"
"""The range variable of the column in ``Key.part``."""
_NAME: Final = re.compile(r'[^"\\*\x00-\x1f]+')
"""The names that need no escape in a JSON path."""


@dataclass(frozen=True)
class Key:
    """What a look-up compares: the column of a table or, if ``part`` is given, this part of the column.

    ``part`` is an expression over the range variable ``ROW``.  It has the type STRING or an integer type.
    """

    column: str
    part: Scalar | None = None

    def of(self, scan: str) -> Scalar | None:
        """Return ``part`` over the range variable ``scan``."""
        walked = None if self.part is None else _walked(self.part)
        if self.part is None or walked is None:
            return None
        ref = walked[0]
        return substitute(self.part, {ref: ColumnRef(scan, ref.column, ref.type)})

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps from the column to the part, outermost first."""
        walked = None if self.part is None else _walked(self.part)
        return () if walked is None else walked[1]

    def __str__(self) -> str:
        """Return the column, or the part as in SQL."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)
        return self.column + "".join(steps)


def key_of(value: Scalar) -> tuple[ColumnRef, Key] | None:
    """Return the column of ``value`` with the key that ``value`` is, or None if rows are not looked up by ``value``."""
    if isinstance(value, ColumnRef):
        return value, Key(value.column)
    walked = _walked(value)
    if walked is None or value.type not in (STRING, *map(DataType, INTEGRAL)):
        return None
    ref = walked[0]
    return ref, Key(ref.column, substitute(value, {ref: ColumnRef(ROW, ref.column, ref.type)}))


def _walked(value: Scalar) -> tuple[ColumnRef, tuple[Step, ...]] | None:
    """Return the nested column and the steps to its part, or None for any other expression."""
    match value:
        case Call(name="from_json", args=(ColumnRef(type=type) as ref, Literal())) if type.json is not None:
            return ref, ()
        case Call(name="field of" | "item of", args=(of, Literal(value=step, fixed=True))) if _is_step(step, of.type):
            walked = _walked(of)
            return None if walked is None else (walked[0], (*walked[1], step))  # type: ignore[arg-type]
        case _:
            return None


def _is_step(step: object, holder: DataType) -> bool:
    if holder.name == "ARRAY":  # the field of an ARRAY is an ARRAY
        return isinstance(step, int) and step >= 0
    return holder.name in ("STRUCT", "MAP") and isinstance(step, str) and _NAME.fullmatch(step) is not None
