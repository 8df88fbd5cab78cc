"""Rewrite expressions of views and of synopsis events so that every engine computes the same values.

The result of an overflow or of a division by 0 is NULL.  Without the rewriting, DuckDB would raise an error at every
refresh, and the view would stop for ever.  In Spark, integers would wrap around.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.scalar import Call, Case, Cast, Literal, Scalar, children, with_children
from weft.algebra.schema import BOOLEAN, DOUBLE, INT, INTEGRAL, STRING, DataType
from weft.sql.functions import as_decimal
from weft.sql.rendering.render import ESCAPED_LIKE

_TRIED: Final = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}
_BLANKS: Final = r"[\x00-\x20\x7f]*"
_WHOLE: Final = rf"^{_BLANKS}([+-]?[0-9]+)(?:\.[0-9]*)?{_BLANKS}$"
_BELOW_ONE: Final = rf"^{_BLANKS}[+-]?(\.)[0-9]*{_BLANKS}$"
_NARROW: Final = 18
_EXACT: Final = (*INTEGRAL, "DECIMAL")


def all_within_range(scalar: Scalar) -> Scalar:
    """Apply ``within_range`` to the expression and to all of its subexpressions."""
    return within_range(with_children(scalar, tuple(map(all_within_range, children(scalar)))))


def within_range(scalar: Scalar) -> Scalar:
    """Return an expression that is NULL if an integer or decimal overflows its type, and otherwise equals ``scalar``.

    >>> from weft.algebra.schema import BIGINT
    >>> within_range(Call("+", (Literal(1, BIGINT), Literal(2, BIGINT)), BIGINT)).name
    'try_add'
    """
    match scalar:
        case Call(name="*", args=args, type=type) if type.name == "DECIMAL":
            return Call("try_multiply", _wide(args), type)
        case Call(name=name, args=args, type=type) if name in _TRIED and type.name in _EXACT:
            return Call(_TRIED[name], args, type)
        case Call(name="negative", args=(arg,), type=type) if type.name in INTEGRAL and not isinstance(arg, Literal):
            return Call("try_subtract", (Cast(Literal(0, INT), type), arg), type)
        case Cast(arg=arg, type=type) if type.name in _EXACT and arg.type.name in _EXACT:
            return Call("try_cast", (arg,), type)
        case Cast(arg=arg, type=type) if type.name in INTEGRAL and arg.type == STRING:
            return _integer_of(arg, type)
        case Call(name="/", args=args, type=type) if type == DOUBLE:
            return Call("try_divide", args, type)
        case Call(name="%" | "mod", args=(number, by), type=type) if type.name in INTEGRAL:
            return Call("mod", (number, _not_zero(by)), type)
        case Call(name="abs" | "floor" | "ceil" | "ceiling" | "round", args=(arg, *_)) if arg.type.name in INTEGRAL:
            return _of_integer(scalar, arg)
        case Call(name="like", args=(_, pattern), type=type) if not isinstance(pattern, Literal):
            return Call(ESCAPED_LIKE, scalar.args, type)
        case _:
            return scalar


def _not_zero(by: Scalar) -> Scalar:
    """Return a divisor that is NULL instead of 0. Spark raises an error for 0 if it is strict."""
    if isinstance(by, Literal) and by.value:
        return by
    zero = Call("=", (by, Literal(0, INT)), BOOLEAN)
    return Case(((zero, Literal(None, by.type)),), by, by.type)


def _integer_of(text: Scalar, type: DataType) -> Scalar:
    """Convert a text to an integer as Spark does.  Spark ignores surrounding blanks and digits after the point."""
    digits, point = (
        Call("regexp_extract", (text, Literal(pattern, STRING), Literal(1, INT)), STRING)
        for pattern in (_WHOLE, _BELOW_ONE)
    )
    below = Call("=", (point, Literal(".", STRING)), BOOLEAN)
    return Case(((below, Cast(Literal(0, INT), type)),), Call("try_cast", (digits,), type), type)


def _of_integer(call: Call, arg: Scalar) -> Scalar:
    """Rounding does not change an integer.  ABS of the least value of a type overflows."""
    if call.name != "abs":
        return arg if call.type == arg.type else Cast(arg, call.type)
    zero = Cast(Literal(0, INT), call.type)
    below = Call("<", (arg, zero), BOOLEAN)
    return Case(((below, Call("try_subtract", (zero, arg), call.type)),), arg, call.type)


def _wide(factors: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """Widen one factor of a decimal product, because DuckDB would otherwise limit the product to 18 digits."""
    if any(as_decimal(each.type)[0] > _NARROW for each in factors):
        return factors
    place = next(at for at, each in enumerate(factors) if each.type.name == "DECIMAL")
    wider = DataType("DECIMAL", _NARROW + 1, factors[place].type.scale)
    return (*factors[:place], Call("try_cast", (factors[place],), wider), *factors[place + 1 :])
