"""What the value of a view or the events of a synopsis are made of, in forms that mean the same on every engine.

Integers and decimals that go too far are NULL, and so is what is divided by 0.

Left to themselves DuckDB refuses them, so that one row of a source would stop a view for ever, and Spark begins again
at the other end.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.scalar import Call, Case, Cast, Literal, Scalar, children, with_children
from weft.algebra.schema import BOOLEAN, DOUBLE, INT, INTEGRAL, STRING, DataType
from weft.sql.functions import as_decimal
from weft.sql.render import ESCAPED_LIKE, NULL_SAFE

_TRIED: Final = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}
_BLANKS: Final = r"[\x00-\x20\x7f]*"
_WHOLE: Final = rf"^{_BLANKS}([+-]?[0-9]+)(?:\.[0-9]*)?{_BLANKS}$"
_BELOW_ONE: Final = rf"^{_BLANKS}[+-]?(\.)[0-9]*{_BLANKS}$"
_NARROW: Final = 18
_EXACT: Final = (*INTEGRAL, "DECIMAL")


def all_within_range(scalar: Scalar) -> Scalar:
    """``within_range`` of an expression and of all that it is made of."""
    return within_range(with_children(scalar, tuple(map(all_within_range, children(scalar)))))


def within_range(scalar: Scalar) -> Scalar:
    """The same expression; NULL where it is an integer or a decimal beyond its type.

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
        case Call(name="%", args=args, type=type) if type.name in INTEGRAL:
            return Call("mod", args, type)
        case Call(name="abs" | "floor" | "ceil" | "ceiling" | "round", args=(arg, *_)) if arg.type.name in INTEGRAL:
            return _of_integer(scalar, arg)
        case Call(name="<=>", args=args, type=type):
            return Call(NULL_SAFE, args, type)
        case Call(name="like", args=(_, pattern), type=type) if not isinstance(pattern, Literal):
            return Call(ESCAPED_LIKE, scalar.args, type)
        case Call(name="concat", args=args, type=type):
            return args[0] if len(args) == 1 else Call("||", args, type)
        case _:
            return scalar


def _integer_of(text: Scalar, type: DataType) -> Scalar:
    """The integer that Spark reads: blanks around it, and what follows a point, do not count; NULL of other texts."""
    whole, point = (
        Call("regexp_extract", (text, Literal(pattern, STRING), Literal(1, INT)), STRING)
        for pattern in (_WHOLE, _BELOW_ONE)
    )
    below = Call("=", (point, Literal(".", STRING)), BOOLEAN)
    return Case(((below, Cast(Literal(0, INT), type)),), Call("try_cast", (whole,), type), type)


def _of_integer(call: Call, arg: Scalar) -> Scalar:
    """Nothing is rounded in an integer; the greatest distance from 0 is beyond its type."""
    if call.name != "abs":
        return arg if call.type == arg.type else Cast(arg, call.type)
    zero = Cast(Literal(0, INT), call.type)
    below = Call("<", (arg, zero), BOOLEAN)
    return Case(((below, Call("try_subtract", (zero, arg), call.type)),), arg, call.type)


def _wide(factors: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """The factors of a decimal product, one of them so wide that DuckDB does not keep the product within 18 digits."""
    if any(as_decimal(each.type)[0] > _NARROW for each in factors):
        return factors
    place = next(at for at, each in enumerate(factors) if each.type.name == "DECIMAL")
    wider = DataType("DECIMAL", _NARROW + 1, factors[place].type.scale)
    return (*factors[:place], Call("try_cast", (factors[place],), wider), *factors[place + 1 :])
