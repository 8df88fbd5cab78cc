"""Rename variables canonically, so that formulas that differ only in variable names are stored and computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from weft.algebra.formula import (
    Aggregate,
    Atom,
    Comparison,
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
    with_terms,
    with_variables,
)

Scope = Mapping[Variable, Variable]


@lru_cache(maxsize=4096)
def alpha_canonical(formula: Formula) -> Formula:
    """Return the formula with canonical names for its variables and fixpoints.

    Free variables become x1, x2 … in their present order, bound variables y1, y2 …, and the relations of fixpoints X1,
    X2 ….
    """
    free = free_variables(formula)
    scope = {variable: Variable(f"x{number}", variable.type) for number, variable in enumerate(free, 1)}
    return _Renaming("y", relations="X").of(formula, scope, {})


def substituted(formula: Formula, names: Scope) -> Formula:
    """Return the formula with its free variables renamed by ``names``, and with new names for all bound variables.

    No bound variable captures a new free variable.  The relations of fixpoints keep their names, which are unique in
    the enclosing formula.
    """
    every = {*names.values(), *free_variables(formula)}
    prefix = "y"
    while any(variable.name.startswith(prefix) for variable in every):
        prefix += "_"
    scope = {variable: names.get(variable, variable) for variable in free_variables(formula)}
    return _Renaming(prefix).of(formula, scope, {})


@dataclass
class _Renaming:
    """A renaming that numbers bound variables after ``prefix`` and fixpoint relations after ``relations``.

    If ``relations`` is None, the relations keep their names.
    """

    prefix: str
    relations: str | None = None
    count: int = 0
    named: int = 0

    def of(self, formula: Formula, scope: Scope, named: Mapping[str, str]) -> Formula:
        match formula:
            case Atom() | Comparison() | Matches():
                return with_terms(formula, partial(_term, scope))
            case Defined(name=name):
                return with_terms(replace(formula, name=named.get(name, name)), partial(_term, scope))
            case Exists() | Aggregate() | Fixpoint():
                return self._binding(formula, scope, named)
            case _:
                return with_parts(formula, tuple(self.of(part, scope, named) for part in parts(formula)))

    def _binding(self, formula: Exists | Aggregate | Fixpoint, scope: Scope, named: Mapping[str, str]) -> Formula:
        match formula:
            case Exists(variables=bound, formula=inner):
                within = {**scope, **self._fresh(bound)}
                return Exists(tuple(within[each] for each in bound), self.of(inner, within, named))
            case Aggregate(groups=groups, formula=inner):
                local = tuple(each for each in free_variables(inner) if each not in groups)
                within = {**scope, **self._fresh(local)}
                return replace(
                    formula,
                    output=scope[formula.output],
                    item=_term(within, formula.item),
                    groups=tuple(scope[each] for each in groups),
                    formula=self.of(inner, within, named),
                )
            case Fixpoint():
                return self._fixpoint(formula, scope, named)

    def _fixpoint(self, formula: Fixpoint, scope: Scope, named: Mapping[str, str]) -> Formula:
        inside = dict(named)
        for definition in formula.definitions:
            self.named += 1
            inside[definition.name] = definition.name if self.relations is None else f"{self.relations}{self.named}"
        definitions = []
        for definition in formula.definitions:
            local = self._fresh(definition.parameters)
            parameters = tuple(local[each] for each in definition.parameters)
            body = self.of(definition.body, local, inside)
            definitions.append(Definition(inside[definition.name], parameters, body))
        asked = Fixpoint(tuple(definitions), inside[formula.name], formula.arguments)
        return with_terms(asked, partial(_term, scope))

    def _fresh(self, variables: tuple[Variable, ...]) -> dict[Variable, Variable]:
        found = {}
        for variable in variables:
            self.count += 1
            found[variable] = Variable(f"{self.prefix}{self.count}", variable.type)
        return found


def _term(scope: Scope, term: Term) -> Term:
    return with_variables(term, scope.__getitem__)
