"""Replace the type variables of a formula by the inferred types."""

from __future__ import annotations

from dataclasses import replace

from weft.algebra import formula as algebra
from weft.algebra.formula import Formula, Term, Variable, with_terms
from weft.algebra.schema import STRING, DataType
from weft.formula.types import Unknowns


def settled(formula: Formula, types: Unknowns) -> Formula:
    """Return the formula with stored types only; raise ValueError for a constant that does not have its inferred
    type.
    """
    done: dict[Formula, Formula] = {}

    def of(part: Formula) -> Formula:
        if part not in done:
            below = tuple(of(inner) for inner in algebra.parts(part))
            done[part] = _settled(algebra.with_parts(part, below), types)
        return done[part]

    return of(formula)


def _constant(given: algebra.Constant, found: DataType) -> algebra.Constant:
    """Return a constant with its inferred type; raise ValueError if it does not have that type."""
    if found == STRING:
        return algebra.Constant(str(given.value), found)
    if isinstance(given.value, str):
        raise ValueError(f"{given.value!r} is compared as a number, but is not one")
    return algebra.Constant(given.value, found)


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
