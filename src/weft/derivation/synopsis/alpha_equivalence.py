"""Give variables canonical names.

Formulas that differ only in variable names then become equal, and are stored and computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from weft.algebra import formula as algebra

Scope = Mapping[algebra.Variable, algebra.Variable]


@lru_cache(maxsize=4096)
def alpha_canonical(formula: algebra.Formula) -> algebra.Formula:
    """Give canonical names to the variables and fixpoints of a formula.

    Free variables get the names x1, x2 … in their present order.  Bound variables get the names y1, y2 …, and relations
    of fixpoints get the names X1, X2 ….
    """
    free = algebra.free_variables(formula)
    scope = {variable: algebra.Variable(f"x{number}", variable.type) for number, variable in enumerate(free, 1)}
    return _Canonical().of(formula, scope, {})


@dataclass
class _Canonical:
    count: int = 0
    named: int = 0

    def of(self, formula: algebra.Formula, scope: Scope, named: Mapping[str, str]) -> algebra.Formula:
        match formula:
            case algebra.Atom() | algebra.Comparison() | algebra.Matches():
                return algebra.with_terms(formula, partial(_term, scope))
            case algebra.Defined(name=name):
                return algebra.with_terms(replace(formula, name=named.get(name, name)), partial(_term, scope))
            case algebra.Exists() | algebra.Aggregate() | algebra.Fixpoint():
                return self._binding(formula, scope, named)
            case _:
                return algebra.with_parts(
                    formula, tuple(self.of(part, scope, named) for part in algebra.parts(formula))
                )

    def _binding(
        self, formula: algebra.Exists | algebra.Aggregate | algebra.Fixpoint, scope: Scope, named: Mapping[str, str]
    ) -> algebra.Formula:
        match formula:
            case algebra.Exists(variables=bound, formula=inner):
                within = {**scope, **self._fresh(bound)}
                return algebra.Exists(tuple(within[each] for each in bound), self.of(inner, within, named))
            case algebra.Aggregate(groups=groups, formula=inner):
                local = tuple(each for each in algebra.free_variables(inner) if each not in groups)
                within = {**scope, **self._fresh(local)}
                return replace(
                    formula,
                    output=scope[formula.output],
                    item=_term(within, formula.item),
                    groups=tuple(scope[each] for each in groups),
                    formula=self.of(inner, within, named),
                )
            case algebra.Fixpoint():
                return self._fixpoint(formula, scope, named)

    def _fixpoint(self, formula: algebra.Fixpoint, scope: Scope, named: Mapping[str, str]) -> algebra.Formula:
        inside = dict(named)
        for definition in formula.definitions:
            self.named += 1
            inside[definition.name] = f"X{self.named}"
        definitions = []
        for definition in formula.definitions:
            local = self._fresh(definition.parameters)
            parameters = tuple(local[each] for each in definition.parameters)
            body = self.of(definition.body, local, inside)
            definitions.append(algebra.Definition(inside[definition.name], parameters, body))
        asked = algebra.Fixpoint(tuple(definitions), inside[formula.name], formula.arguments)
        return algebra.with_terms(asked, partial(_term, scope))

    def _fresh(self, variables: tuple[algebra.Variable, ...]) -> dict[algebra.Variable, algebra.Variable]:
        renaming = {}
        for variable in variables:
            self.count += 1
            renaming[variable] = algebra.Variable(f"y{self.count}", variable.type)
        return renaming


def _term(scope: Scope, term: algebra.Term) -> algebra.Term:
    return algebra.with_variables(term, scope.__getitem__)
