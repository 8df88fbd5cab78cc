"""Convert the operands of comparisons to a common type, and convert strings to times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from weft.algebra.scalar import Call, Cast, Literal, Scalar
from weft.algebra.schema import DATE, INTERVAL, MONTHS, NULL, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.sql.functions import castable, tryable, wider
from weft.sql.lower import literals
from weft.sql.lower.intervals import as_interval
from weft.sql.lower.refusal import place, refuse
from weft.sql.lower.rewriting import as_number


def comparable(left: Scalar, right: Scalar, node: exp.Expr) -> tuple[Scalar, Scalar]:
    """Convert both sides of a comparison to comparable types without loss.

    Raise SqlError if the types cannot be compared.
    """
    nested = next((side.type for side in (left, right) if side.type.nested), None)
    if nested is not None:
        raise SqlError(
            f"values of type {nested.name} cannot be compared",
            where=place(node),
            hint=(
                "Compare a part of the value (doc.field or tags[0]), test an array with ARRAY_CONTAINS(tags, "
                "'x'), or compare the JSON text, TO_JSON(doc)."
            ),
        )
    left, right = as_interval(left), as_interval(right)
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
            hint=_alike(left, right, node),
        ) from None
    if shared == TIMESTAMP:
        return converted(left, TIMESTAMP), converted(right, TIMESTAMP)
    return left, right


def cast(value: Scalar, node: exp.Cast) -> Scalar:
    """Translate CAST or TRY_CAST.

    Raise SqlError if Weft cannot store the type, or if Spark does not have the conversion.
    """
    target = _type(node.to)
    if isinstance(value, Literal) and value.type == STRING and target in (TIMESTAMP, DATE):
        return as_time(value, target, node)
    if value.type in (INTERVAL, MONTHS):
        raise refuse(node.sql("spark"), node, "an interval cannot be converted", as_number(node.this))
    tried = bool(node.args.get("safe"))
    if not (tryable if tried else castable)(value.type, target):
        hint = "Write TO_JSON(…) to get the value as text." if value.type.nested and target == STRING else None
        raise refuse(node.sql("spark"), node, f"{value.type} cannot be converted to {target}", hint)
    return Call("try_cast", (value,), target) if tried else Cast(value, target)


def _type(node: exp.Expr) -> DataType:
    text = node.sql("spark")
    try:
        target = DataType.parse("TIMESTAMP" if text.upper() == "TIMESTAMP_LTZ" else text)
    except ValueError:
        hint = "Parse JSON text with FROM_JSON(doc, 'ARRAY<STRING>')." if "<" in text else None
        raise refuse(f"the type {text}", node, "a column has a plain scalar type", hint) from None
    if target == INTERVAL:
        raise refuse("INTERVAL as a type", node, "no value can be converted to this type")
    if target == NULL:
        raise refuse(f"the type {text}", node, "no value can be converted to this type")
    if target.name == "DECIMAL":
        literals.decimal(target.precision or 0, target.scale or 0, node)
    return target


def _alike(left: Scalar, right: Scalar, node: exp.Expr) -> str:
    for side, other in ((left, right), (right, left)):
        if side.type == INTERVAL:
            length = "Compare the interval with another interval, such as INTERVAL 5 MINUTES"
            return f"{length}, or compare numbers. {as_number(node)}" if other.type.numeric else f"{length}."
    return "Convert one of the two values: CAST(… AS …)."


def opened(value: Scalar) -> Scalar:
    """Return a call that parses ``value`` if it is a JSON column of a nested type.  Other values remain unchanged."""
    shape = value.type.json
    return value if shape is None else Call("from_json", (value, Literal(str(shape), STRING, fixed=True)), shape)


def compared_as_text(values: Sequence[Scalar], node: exp.Expr) -> None:
    """Raise SqlError for IN with strings and times, because Spark compares them as text.

    A constant string in Spark's output format is accepted, because a comparison as times has the same result.
    """
    times = {value.type for value in values if value.type in (TIMESTAMP, DATE)}
    strings = [value for value in values if value.type == STRING]
    if not times or not strings:
        return
    shape = _WRITTEN.get(next(iter(times)).name, "") if len(times) == 1 else "$^"
    if not all(isinstance(value, Literal) and re.fullmatch(shape, str(value.value)) for value in strings):
        raise SqlError(
            "IN compares a mixture of strings and times as text",
            where=place(node),
            hint="Write TIMESTAMP '1993-04-05 12:00:00' or DATE '1993-04-05', or convert with CAST(… AS …).",
        )


_WRITTEN: Final = {
    "DATE": r"\d{4}-\d{2}-\d{2}",
    "TIMESTAMP": r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.\d{0,5}[1-9])?",
}


def as_time(value: Scalar, type: DataType, node: exp.Expr) -> Scalar:
    """Convert a string to a time.

    A constant is converted immediately.  Any other string is converted at run time, and is NULL if it is not a time.
    """
    if not isinstance(value, Literal):
        return Cast(value, type)
    return (literals.day if type == DATE else literals.timestamp)(str(value.value), node)


def typed(value: Scalar, type: DataType) -> Scalar:
    """Cast ``value`` to ``type`` if it is an untyped NULL.  Other values remain unchanged."""
    return Cast(value, type) if value.type == NULL else value


def converted(value: Scalar, type: DataType) -> Scalar:
    """Convert ``value`` to ``type`` without unnecessary casts."""
    if type == TIMESTAMP and isinstance(value, Cast) and value.type == DATE and _midnight(value.arg):
        return value.arg
    return value if value.type in (type, NULL) else Cast(value, type)


def _midnight(value: Scalar) -> bool:
    """Return whether the value is a DATE at midnight, plus or minus a constant number of whole days."""
    match value:
        case Call(name="+" | "-", args=(Cast(arg=day), Literal(value=int(span))), type=type):
            return type == TIMESTAMP and day.type == DATE and span % 86_400_000_000 == 0
        case _:
            return False
