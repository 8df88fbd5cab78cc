"""Infer the types of variables from their uses.

During the translation of a formula, an unknown type is a type variable, ``DataType("?7")``.  The module unifies type
variables that must be equal.  A type variable in arithmetic can only become a numeric type.  At the end, the inferred
types replace the type variables in the formula.
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra import formula as algebra
from weft.algebra.formula import Formula, Term, Variable, with_terms
from weft.algebra.schema import BIGINT, DOUBLE, STRING, DataType

_WORDS = {
    "BIGINT": "an integer",
    "DOUBLE": "a float",
    "STRING": "a text",
    "TIME POINT": "a time point",
    "INTERVAL": "a length of time",
}


class Clash(Exception):
    """Raised if two types cannot be unified."""


class Unknowns:
    """The type variables of a formula, with the types inferred so far."""

    def __init__(self) -> None:
        self._same: dict[str, DataType] = {}
        self._numbers: set[str] = set()
        self._count = 0

    def new(self, *, number: bool = False) -> DataType:
        """Return a new type variable.  With ``number``, this type variable can only become a numeric type."""
        self._count += 1
        name = f"?{self._count}"
        if number:
            self._numbers.add(name)
        return DataType(name)

    def known(self, data_type: DataType) -> DataType:
        """Return the inferred type, or the representative of the unified type variables."""
        while data_type.name in self._same:
            data_type = self._same[data_type.name]
        return data_type

    def join(self, one: DataType, other: DataType) -> None:
        """Unify two types.  Raise Clash if the types cannot be unified."""
        one, other = self.known(one), self.known(other)
        if one == other:
            return
        if not _unknown(one):
            one, other = other, one
        if not _unknown(one):
            raise Clash
        if one.name in self._numbers:
            if _unknown(other):
                self._numbers.add(other.name)
            elif other not in (BIGINT, DOUBLE):
                raise Clash
        self._same[one.name] = other

    def settled(self, data_type: DataType) -> DataType:
        """Return the final type.  An unknown type becomes BIGINT if it must be a number, and otherwise STRING."""
        known = self.known(data_type)
        if not _unknown(known):
            return known
        return BIGINT if known.name in self._numbers else STRING

    def words(self, data_type: DataType) -> str:
        """Return a description of a type in English."""
        known = self.known(data_type)
        if _unknown(known):
            return "a number" if known.name in self._numbers else "a value"
        return _WORDS.get(known.name, f"of type {known}")


def _unknown(data_type: DataType) -> bool:
    return data_type.name.startswith("?")


def settled(formula: Formula, types: Unknowns) -> Formula:
    """Replace type variables by their final types.  Raise ValueError if a constant has a different type."""
    done: dict[Formula, Formula] = {}

    def of(part: Formula) -> Formula:
        if part not in done:
            below = tuple(of(inner) for inner in algebra.parts(part))
            done[part] = _settled(algebra.with_parts(part, below), types)
        return done[part]

    return of(formula)


def _constant(given: algebra.Constant, type: DataType) -> algebra.Constant:
    if type == STRING:
        return algebra.Constant(str(given.value), type)
    if isinstance(given.value, str):
        raise ValueError(f"{given.value!r} is compared as a number, but {given.value!r} is not a number")
    return algebra.Constant(given.value, type)


def _settled(formula: Formula, types: Unknowns) -> Formula:
    def term(given: Term) -> Term:
        match given:
            case algebra.Computed(arguments=arguments):
                return replace(given, arguments=tuple(map(term, arguments)), type=types.settled(given.type))
            case algebra.Constant():
                return _constant(given, types.settled(given.type))
            case Variable():
                return variable(given)

    def variable(given: Variable) -> Variable:
        return Variable(given.name, types.settled(given.type))

    match formula:
        case algebra.Exists(variables=variables):
            return replace(formula, variables=tuple(map(variable, variables)))
        case algebra.Aggregate(output=output, item=item, groups=by):
            return replace(formula, output=variable(output), item=term(item), groups=tuple(map(variable, by)))
        case algebra.Fixpoint(definitions=definitions):
            renewed = tuple(
                replace(definition, parameters=tuple(map(variable, definition.parameters)))
                for definition in definitions
            )
            return with_terms(replace(formula, definitions=renewed), term)
        case _:
            return with_terms(formula, term)
