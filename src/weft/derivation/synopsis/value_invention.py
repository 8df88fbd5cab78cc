"""Find the variables whose values may be in no row, because the values are computed by terms or aggregates.

For all other variables, the active domain bounds the number of answers over all time points.  If a fixpoint computes
new values from values that it computed before, the number of values has no bound (Toman 2007, section 5: functions such
as arithmetic introduce new domain elements).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra.formula import (
    Aggregate,
    And,
    Atom,
    Comparison,
    Constant,
    Defined,
    Exists,
    Fixpoint,
    Formula,
    Matches,
    Not,
    Term,
    Variable,
    free_variables,
    parts,
    variables_of,
)


@dataclass(frozen=True)
class Origin:
    """The origin of a variable's values.

    ``computed`` says that the values may be in no row.  ``again`` says that the values come from previous answers of a
    fixpoint.  ``endless`` says that the values are computed from previous answers of a fixpoint.
    """

    computed: bool = False
    again: bool = False
    endless: bool = False

    def __or__(self, other: Origin) -> Origin:
        return Origin(self.computed or other.computed, self.again or other.again, self.endless or other.endless)

    def __and__(self, other: Origin) -> Origin:
        """Return the origin of a variable that two conjuncts bind: a field is true if it is true in both conjuncts."""
        return Origin(self.computed and other.computed, self.again and other.again, self.endless and other.endless)

    @property
    def worked_on(self) -> Origin:
        """The origin of a value that is computed from values of this origin."""
        return Origin(True, self.again, self.endless or self.again)


ROWS = Origin()
Origins = dict[Variable, Origin]
Relations = Mapping[str, tuple[Origin, ...]]


def origins(formula: Formula, relations: Relations | None = None) -> Origins:
    """Return the origin of each free variable of a formula.

    ``relations`` has the origins of the columns of enclosing fixpoints.
    """
    known = relations or {}
    match formula:
        case And(left=left, right=right):
            return _conjoined(left, right, known)
        case Exists(formula=inner) | Aggregate(formula=inner):
            return _of_one(formula, origins(inner, known))
        case Fixpoint():
            return _of_columns(formula.arguments, _relations(formula, known)[formula.name])
        case Defined(name=name, arguments=arguments):
            return _of_columns(arguments, known.get(name, (ROWS,) * len(arguments)))
        case Atom() | Comparison() | Matches() | Not():
            return dict.fromkeys(free_variables(formula), ROWS)
        case _:
            found: Origins = {}
            for part in parts(formula):
                for variable, origin in origins(part, known).items():
                    found[variable] = found.get(variable, ROWS) | origin
            return found


def endless(formula: Formula) -> bool:
    """Return whether the number of a free variable's values may grow without bound even if the rows repeat their
    values.
    """
    return any(origin.endless for origin in origins(formula).values())


def _conjoined(left: Formula, right: Formula, known: Relations) -> Origins:
    found = origins(left, known)
    match right:
        case Not():
            return found
        case Comparison(operator="=", left=one, right=other):
            for variable, term in ((one, other), (other, one)):
                if isinstance(variable, Variable) and variable not in found:
                    found[variable] = _of_term(term, found)
            return found
        case Comparison():
            return found
        case Matches(text=text):
            new = [variable for variable in free_variables(right) if variable not in found]
            return found | dict.fromkeys(new, _of_term(text, found).worked_on)
        case _:
            pass
    for variable, origin in origins(right, known).items():
        found[variable] = found[variable] & origin if variable in found else origin
    return found


def _of_term(term: Term, given: Origins) -> Origin:
    if isinstance(term, Variable):
        return given.get(term, ROWS)
    if isinstance(term, Constant):
        return ROWS
    found = ROWS
    for variable in variables_of(term):
        found |= given.get(variable, ROWS)
    return found.worked_on


def _of_one(formula: Exists | Aggregate, inner: Origins) -> Origins:
    if isinstance(formula, Exists):
        return {variable: origin for variable, origin in inner.items() if variable not in formula.variables}
    found = {variable: inner[variable] for variable in formula.groups}
    copied = formula.function in ("MIN", "MAX") and isinstance(formula.item, Variable)
    every = ROWS
    for origin in inner.values():
        every |= origin
    return found | {formula.output: inner[formula.item] if copied else every.worked_on}  # type: ignore[index]


def _of_columns(arguments: tuple[Term, ...], columns: tuple[Origin, ...]) -> Origins:
    found: Origins = {}
    for term, origin in zip(arguments, columns, strict=True):
        if isinstance(term, Variable):
            found[term] = found[term] & origin if term in found else origin
    return found


def _relations(formula: Fixpoint, known: Relations) -> Relations:
    """Return ``known`` with the origins of the columns of the fixpoint's relations, found by iterating over their
    bodies.
    """
    found = dict(known)
    for definition in formula.definitions:
        found[definition.name] = (replace(ROWS, again=True),) * len(definition.parameters)
    while True:
        before = dict(found)
        for definition in formula.definitions:
            given = origins(definition.body, found)
            columns = zip(definition.parameters, found[definition.name], strict=True)
            found[definition.name] = tuple(origin | given[variable] for variable, origin in columns)
        if found == before:
            return found
