"""Serialize a formula to JSON, and read the formula back.  The JSON is the definition of an installed synopsis.

The nodes have the JSON format of ``stored``, in which a type is serialized as text.  A field that earlier versions did
not have is left out if it has the value that they meant, so that the signature of an installed synopsis stays the same.
"""

from __future__ import annotations

from typing import Any, Final, cast

from weft.algebra import formula as formulas
from weft.algebra.formula import Formula, Variable
from weft.algebra.schema import DataType
from weft.algebra.stored import decoded_value, encoded_value

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
    return ["Type", str(part)] if isinstance(part, DataType) else encoded_value(part, encoded, _LATER)


def decoded(form: Any) -> Formula:
    """Read a formula from a JSON value that ``encoded`` returned.  Raise DerivationError for an unknown part."""
    return cast("Formula", _decoded(form))


def decoded_variable(form: Any) -> Variable:
    """Read a variable from a JSON value that ``encoded`` returned.  Raise DerivationError for an unknown part."""
    return cast("Variable", _decoded(form))


def _decoded(form: Any) -> Any:
    if not isinstance(form, list):
        return form
    return DataType.parse(*form[1:]) if form[0] == "Type" else decoded_value(form, _CLASSES, _decoded)
