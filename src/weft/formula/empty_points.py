"""Find the time points that MonPoly skips because they contain no relevant event.

MonPoly may skip a state without events under two conditions.  The formula must be false at the state, and the state
must not change the answers at other states.  Skipping matters only for output that lists every time point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.algebra import formula as algebra
from weft.algebra.formula import Constant, Formula
from weft.formula.signature import Row, TimePoint


def relevant(formula: Formula) -> Callable[[TimePoint], bool]:
    """Return a function that decides whether MonPoly reports a given time point."""
    if not _may_skip(formula):
        return lambda point: True
    atoms = [part for part in algebra.subformulas(formula) if isinstance(part, algebra.Atom)]
    names = {atom.predicate for atom in atoms}
    wanted = {name: _constants([atom for atom in atoms if atom.predicate == name]) for name in names}

    def matters(point: TimePoint) -> bool:
        return any(_matches(point.rows.get(name, ()), columns) for name, columns in wanted.items())

    return matters


def _constants(atoms: Iterable[algebra.Atom]) -> dict[int, set[object]]:
    """For each column with a constant in all atoms of the predicate, return the constants."""
    constants: dict[int, set[object]] = {}
    free: set[int] = set()
    for atom in atoms:
        for column, term in enumerate(atom.terms):
            if isinstance(term, Constant):
                constants.setdefault(column, set()).add(term.value)
            else:
                free.add(column)
    return {column: values for column, values in constants.items() if column not in free}


def _matches(rows: Iterable[Row], columns: dict[int, set[object]]) -> bool:
    return any(all(row[column] in values for column, values in columns.items()) for row in rows)


def _may_skip(formula: Formula) -> bool:
    if any(isinstance(part, algebra.Previous) for part in algebra.subformulas(formula)):
        return False
    return _when_empty(formula) is False and _indifferent(formula)


def _when_empty(formula: Formula) -> bool | None:
    """Return the truth value of a formula at a state without events, or None for an unknown value."""
    match formula:
        case algebra.Atom():
            return False
        case algebra.Not(formula=inner):
            said = _when_empty(inner)
            return None if said is None else not said
        case algebra.And(left=left, right=right):
            return _decided(left, right, by=False)
        case algebra.Or(left=left, right=right):
            return _decided(left, right, by=True)
        case algebra.Exists(formula=inner):
            return _when_empty(inner)
        case _:
            return None


def _decided(left: Formula, right: Formula, *, by: bool) -> bool | None:
    """An operand with the truth value ``by`` decides the result of the connective."""
    said = {_when_empty(left), _when_empty(right)}
    if by in said:
        return by
    return None if None in said else not by


def _indifferent(formula: Formula) -> bool:
    """Return whether states without events have no effect on the answers at other states."""
    match formula:
        case algebra.Atom() | algebra.Comparison() | algebra.Matches() | algebra.Truth():
            return True
        case algebra.Not() | algebra.Exists() | algebra.And() | algebra.Or():
            return all(map(_indifferent, algebra.parts(formula)))
        case algebra.Once(formula=inner):
            return _indifferent(inner) and _when_empty(inner) is False
        case algebra.Since(left=left, right=right):
            conditions = _when_empty(left) is True and _when_empty(right) is False
            return conditions and _indifferent(left) and _indifferent(right)
        case _:
            return False
