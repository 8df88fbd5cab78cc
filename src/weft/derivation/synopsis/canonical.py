"""Formulas up to the names of their variables: two that differ in nothing else are stored, and computed, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from weft.algebra.formula import (
    Aggregate,
    Atom,
    Comparison,
    Computed,
    Constant,
    Defined,
    Definition,
    Exists,
    Fixpoint,
    Formula,
    Matches,
    Term,
    Variable,
    free_variables,
    parts,
    with_parts,
)

Scope = Mapping[Variable, Variable]


@lru_cache(maxsize=4096)
def canonical(formula: Formula) -> Formula:
    """The formula with its free variables named x1, x2 … in their order, bound ones y1 …, fixpoints X1 ….

    Its free variables stand in the same order.
    """
    free = free_variables(formula)
    scope = {variable: Variable(f"x{number}", variable.type) for number, variable in enumerate(free, 1)}
    return _Renaming().of(formula, scope)


@dataclass
class _Renaming:
    relations: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def of(self, formula: Formula, scope: Scope) -> Formula:
        match formula:
            case Atom(terms=terms):
                return replace(formula, terms=_terms(terms, scope))
            case Comparison(left=left, right=right):
                return replace(formula, left=_term(left, scope), right=_term(right, scope))
            case Matches(text=text, groups=groups):
                found = tuple(None if group is None else _term(group, scope) for group in groups)
                return replace(formula, text=_term(text, scope), groups=found)
            case Defined(name=name, arguments=arguments):
                return Defined(self.relations.get(name, name), _terms(arguments, scope))
            case Exists(variables=bound, formula=inner):
                within = {**scope, **self._fresh(bound)}
                return Exists(tuple(within[each] for each in bound), self.of(inner, within))
            case Aggregate(groups=groups, formula=inner):
                local = tuple(each for each in free_variables(inner) if each not in groups)
                within = {**scope, **self._fresh(local)}
                return replace(
                    formula,
                    output=scope[formula.output],
                    item=_term(formula.item, within),
                    groups=tuple(scope[each] for each in groups),
                    formula=self.of(inner, within),
                )
            case Fixpoint():
                return self._fixpoint(formula, scope)
            case _:
                return with_parts(formula, tuple(self.of(part, scope) for part in parts(formula)))

    def _fixpoint(self, formula: Fixpoint, scope: Scope) -> Formula:
        for definition in formula.definitions:
            self.relations[definition.name] = f"X{len(self.relations) + 1}"
        definitions = []
        for definition in formula.definitions:
            local = self._fresh(definition.parameters)
            parameters = tuple(local[each] for each in definition.parameters)
            definitions.append(Definition(self.relations[definition.name], parameters, self.of(definition.body, local)))
        return Fixpoint(tuple(definitions), self.relations[formula.name], _terms(formula.arguments, scope))

    def _fresh(self, variables: tuple[Variable, ...]) -> dict[Variable, Variable]:
        found = {}
        for variable in variables:
            self.count += 1
            found[variable] = Variable(f"y{self.count}", variable.type)
        return found


def _terms(terms: tuple[Term, ...], scope: Scope) -> tuple[Term, ...]:
    return tuple(_term(each, scope) for each in terms)


def _term(term: Term, scope: Scope) -> Term:
    match term:
        case Variable():
            return scope[term]
        case Constant():
            return term
        case Computed(arguments=arguments):
            return replace(term, arguments=_terms(arguments, scope))
