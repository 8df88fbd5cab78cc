"""Find the variables whose values need not occur in any row, because terms or aggregates compute the values.

For all other variables, the active domain bounds the number of answers over all time points.  If a fixpoint computes
new values from its own earlier values, the number of values has no bound.  Toman 2007, section 5, gives the reason:
functions such as arithmetic introduce new domain elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra import formula as algebra


@dataclass(frozen=True)
class Origin:
    """The origin of a variable's values.

    ``computed`` is true if the values need not occur in any row.  ``again`` is true if the values come from previous
    answers of a fixpoint.  ``endless`` is true if the values are computed from previous answers of a fixpoint.
    """

    computed: bool = False
    again: bool = False
    endless: bool = False

    def __or__(self, other: Origin) -> Origin:
        return Origin(self.computed or other.computed, self.again or other.again, self.endless or other.endless)

    def __and__(self, other: Origin) -> Origin:
        """Return the origin of a variable in two conjuncts.  Each field is true if it is true for both conjuncts."""
        return Origin(self.computed and other.computed, self.again and other.again, self.endless and other.endless)

    @property
    def worked_on(self) -> Origin:
        """The origin of a value that is computed from values with this origin."""
        return Origin(True, self.again, self.endless or self.again)


ROWS = Origin()
Origins = dict[algebra.Variable, Origin]
Relations = Mapping[str, tuple[Origin, ...]]


def origins(formula: algebra.Formula, relations: Relations | None = None) -> Origins:
    """Return the origin of each free variable.

    ``relations`` has the origins of the columns for each relation of an enclosing fixpoint.
    """
    known = relations or {}
    match formula:
        case algebra.And(left=left, right=right):
            return _conjoined(left, right, known)
        case algebra.Exists(formula=inner) | algebra.Aggregate(formula=inner):
            return _of_one(formula, origins(inner, known))
        case algebra.Fixpoint():
            return _of_columns(formula.arguments, _relations(formula, known)[formula.name])
        case algebra.Defined(name=name, arguments=arguments):
            return _of_columns(arguments, known.get(name, (ROWS,) * len(arguments)))
        case algebra.Atom() | algebra.Comparison() | algebra.Matches() | algebra.Not():
            return dict.fromkeys(algebra.free_variables(formula), ROWS)
        case _:
            merged: Origins = {}
            for part in algebra.parts(formula):
                for variable, origin in origins(part, known).items():
                    merged[variable] = merged.get(variable, ROWS) | origin
            return merged


def endless(formula: algebra.Formula) -> bool:
    """Return whether a free variable may get more and more values although the rows repeat the same values."""
    return any(origin.endless for origin in origins(formula).values())


def _conjoined(left: algebra.Formula, right: algebra.Formula, known: Relations) -> Origins:
    merged = origins(left, known)
    match right:
        case algebra.Not():
            return merged
        case algebra.Comparison(operator="=", left=one, right=other):
            for variable, term in ((one, other), (other, one)):
                if isinstance(variable, algebra.Variable) and variable not in merged:
                    merged[variable] = _of_term(term, merged)
            return merged
        case algebra.Comparison():
            return merged
        case algebra.Matches(text=text):
            new = [variable for variable in algebra.free_variables(right) if variable not in merged]
            return merged | dict.fromkeys(new, _of_term(text, merged).worked_on)
        case _:
            pass
    for variable, origin in origins(right, known).items():
        merged[variable] = merged[variable] & origin if variable in merged else origin
    return merged


def _of_term(term: algebra.Term, given: Origins) -> Origin:
    if isinstance(term, algebra.Variable):
        return given.get(term, ROWS)
    if isinstance(term, algebra.Constant):
        return ROWS
    origin = ROWS
    for variable in algebra.variables_of(term):
        origin |= given.get(variable, ROWS)
    return origin.worked_on


def _of_one(formula: algebra.Exists | algebra.Aggregate, inner: Origins) -> Origins:
    if isinstance(formula, algebra.Exists):
        return {variable: origin for variable, origin in inner.items() if variable not in formula.variables}
    by_group = {variable: inner[variable] for variable in formula.groups}
    copied = formula.function in ("MIN", "MAX") and isinstance(formula.item, algebra.Variable)
    every = ROWS
    for origin in inner.values():
        every |= origin
    return by_group | {formula.output: inner[formula.item] if copied else every.worked_on}  # type: ignore[index]


def _of_columns(arguments: tuple[algebra.Term, ...], columns: tuple[Origin, ...]) -> Origins:
    by_variable: Origins = {}
    for term, origin in zip(arguments, columns, strict=True):
        if isinstance(term, algebra.Variable):
            by_variable[term] = by_variable[term] & origin if term in by_variable else origin
    return by_variable


def _relations(formula: algebra.Fixpoint, known: Relations) -> Relations:
    relations = dict(known)
    for definition in formula.definitions:
        relations[definition.name] = (replace(ROWS, again=True),) * len(definition.parameters)
    while True:
        before = dict(relations)
        for definition in formula.definitions:
            given = origins(definition.body, relations)
            columns = zip(definition.parameters, relations[definition.name], strict=True)
            relations[definition.name] = tuple(origin | given[variable] for variable, origin in columns)
        if relations == before:
            return relations
