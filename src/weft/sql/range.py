"""Integers and decimals that go too far are NULL in the value of a view, on every engine.

Left to themselves DuckDB refuses them, so that one row of a source would stop a view for ever, and Spark begins again
at the other end.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.scalar import Call, Cast, Literal, Scalar
from weft.algebra.schema import INT, INTEGRAL

_TRIED: Final = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def within_range(scalar: Scalar) -> Scalar:
    """The same expression; NULL where it is an integer or a decimal beyond its type.

    >>> from weft.algebra.schema import BIGINT
    >>> within_range(Call("+", (Literal(1, BIGINT), Literal(2, BIGINT)), BIGINT)).name
    'try_add'
    """
    match scalar:
        case Call(name=name, args=args, type=type) if name in _TRIED and type.name in (*INTEGRAL, "DECIMAL"):
            return Call(_TRIED[name], args, type)
        case Call(name="negative", args=(arg,), type=type) if type.name in INTEGRAL and not isinstance(arg, Literal):
            return Call("try_subtract", (Cast(Literal(0, INT), type), arg), type)
        case Cast(arg=arg, type=type) if type.name in INTEGRAL and arg.type.name in (*INTEGRAL, "DECIMAL"):
            return Call("try_cast", (arg,), type)
        case _:
            return scalar
