"""Serialize a formula to JSON, and read the formula back.  The JSON is the definition of an installed synopsis.

Each node is a JSON list: the name of the class, then the values of the fields in order.  A type is serialized as text.
A field that earlier versions did not have is left out if it has the value that they meant, so that the signature of an
installed synopsis stays the same.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, cast

from weft.algebra import formula as formulas
from weft.algebra.formula import Formula, Variable
from weft.algebra.schema import DataType
from weft.errors import DerivationError

_CLASSES: Final[dict[str, Any]] = {
    name: getattr(formulas, name)
    for name in (
        *("Variable", "Constant", "Computed", "Interval", "Truth", "Atom", "Comparison", "Matches", "And", "Or", "Not"),
        *("Exists", "Distinct", "Previous", "Since", "Once", "Aggregate", "Definition", "Fixpoint", "Defined"),
    )
}
_LATER: Final = (("strict", False),)
"""The last fields of classes that earlier versions did not have, with the values that they meant."""


def encoded(part: Any) -> Any:
    """Return a formula, or a part of a formula, as a JSON value.  Equal formulas have equal JSON values.

    >>> encoded(formulas.Once(formulas.ALWAYS, formulas.Truth(True)))
    ['Once', ['Interval', 0, None], ['Truth', True], 'any']
    >>> encoded(formulas.Since(formulas.ALWAYS, formulas.Truth(True), formulas.Truth(False)))
    ['Since', ['Interval', 0, None], ['Truth', True], ['Truth', False], 'any']
    """
    match part:
        case DataType():
            return ["Type", str(part)]
        case float():
            return ["Float", repr(part)]
        case tuple():
            return ["Tuple", *map(encoded, part)]
        case None | bool() | int() | str():
            return part
        case _:
            values = ((field.name, getattr(part, field.name)) for field in fields(part))
            return [type(part).__name__, *(encoded(value) for name, value in values if (name, value) not in _LATER)]


def decoded(form: Any) -> Formula:
    """Read a formula from a JSON value that ``encoded`` returned.  Raise DerivationError for an unknown part."""
    return cast("Formula", _decoded(form))


def decoded_variable(form: Any) -> Variable:
    """Read a variable from a JSON value that ``encoded`` returned.  Raise DerivationError for an unknown part."""
    return cast("Variable", _decoded(form))


def _decoded(form: Any) -> Any:
    if not isinstance(form, list):
        return form
    kind, *parts = form
    match kind:
        case "Type":
            return DataType.parse(*parts)
        case "Float":
            return float(*parts)
        case "Tuple":
            return tuple(map(_decoded, parts))
        case _ if kind in _CLASSES:
            return _CLASSES[kind](*map(_decoded, parts))
        case _:
            raise DerivationError(f"the stored formula has a part {kind!r} that this version of Weft does not know")
