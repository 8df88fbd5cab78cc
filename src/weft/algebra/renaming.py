"""Rename bound variables of a formula, so that a substitution captures no variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.algebra import formula as algebra
from weft.algebra.formula import Constant, Formula, Term, Variable, free_variables, with_terms, with_variables


def without_clashes(formula: algebra.Exists, others: set[Variable]) -> algebra.Exists:
    """Rename the bound variables that have the same name as a variable in ``others``."""
    names = {other.name for other in others} | {variable.name for variable in free_variables(formula.formula)}
    taken = {other.name for other in others}
    given: dict[Variable, Variable] = {}
    for variable in formula.variables:
        name = variable.name
        number = 0
        while name in taken or (number and name in names):
            number += 1
            name = f"{variable.name}_{number}"
        names.add(name)
        given[variable] = Variable(name, variable.type)
    changed = {old: new for old, new in given.items() if old != new}
    return algebra.Exists(tuple(given.values()), substituted(formula.formula, changed))


def substituted(formula: Formula, terms: Mapping[Variable, Variable | Constant]) -> Formula:
    """Replace free variables by variables or constants.  Rename bound variables that would capture a new variable."""
    terms = {old: new for old, new in terms.items() if old in free_variables(formula)}
    if not terms:
        return formula

    def term(given: Term) -> Term:
        return with_variables(given, lambda variable: terms.get(variable, variable))

    match formula:
        case algebra.Exists():
            clear = without_clashes(formula, {term for term in terms.values() if isinstance(term, Variable)})
            return algebra.Exists(clear.variables, substituted(clear.formula, terms))
        case algebra.Aggregate():
            return _aggregate(formula, {old: new for old, new in terms.items() if isinstance(new, Variable)})
        case algebra.Fixpoint():
            return with_terms(formula, term)
        case _:
            below = tuple(substituted(part, terms) for part in algebra.parts(formula))
            return with_terms(algebra.with_parts(formula, below), term)


def _aggregate(formula: algebra.Aggregate, terms: dict[Variable, Variable]) -> Formula:
    """In the body, only the groups are replaced, because the aggregation binds all other variables."""
    inner = formula.formula
    hidden = tuple(variable for variable in free_variables(inner) if variable not in formula.groups)
    clear = without_clashes(algebra.Exists(hidden, inner), set(terms.values()))
    item = formula.item
    if isinstance(item, Variable) and item in hidden:
        item = clear.variables[hidden.index(item)]
    elif isinstance(item, Variable):
        item = terms.get(item, item)
    below = substituted(clear.formula, {old: new for old, new in terms.items() if old in formula.groups})
    groups = tuple(terms.get(group, group) for group in formula.groups)
    output = terms.get(formula.output, formula.output)
    return replace(formula, output=output, item=item, groups=groups, formula=below)
