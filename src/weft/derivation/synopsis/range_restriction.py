"""Check range restriction: a positive part must bind every variable before a test uses the variable."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from weft.algebra import formula as algebra
from weft.algebra.conjuncts import applicable, compares, conjuncts, is_test
from weft.errors import Refused

_BIND = "Bind each variable by a predicate, or by = to a term of bound variables."


def check(formula: algebra.Formula) -> None:
    """Raise Refused if a part of the formula has infinitely many answers."""
    match formula:
        case algebra.And():
            _conjunction(formula)
        case algebra.Not(formula=inner):
            if variables := algebra.free_variables(formula):
                raise Refused(
                    f"NOT of a formula in which {_names(variables)} {_are(variables)} free has infinitely many answers",
                    hint="Write the NOT on the right of an AND whose left side binds the variables.",
                )
            check(inner)
        case algebra.Comparison() | algebra.Matches():
            _tests(set(), [formula])
        case algebra.Atom(terms=terms):
            plain = {term for term in terms if isinstance(term, algebra.Variable)}
            _none_left(f"{formula.predicate} cannot be answered", set(algebra.free_variables(formula)) - plain)
        case algebra.Since(left=left, right=right):
            check(left.formula if isinstance(left, algebra.Not) else left)
            check(right)
            unbound = set(algebra.free_variables(left)) - set(algebra.free_variables(right))
            if unbound:
                raise Refused(
                    f"SINCE: nothing on the right binds {_names(unbound)}, which {_are(unbound)} free on the left",
                    hint="Bind the variable by a positive part of the formula on the right.",
                )
        case _:
            _others(formula)
            for part in algebra.parts(formula):
                check(part)


def _others(formula: algebra.Formula) -> None:
    match formula:
        case algebra.Or(left=left, right=right):
            differing = set(algebra.free_variables(left)) ^ set(algebra.free_variables(right))
            if differing:
                raise Refused(
                    f"OR: {_names(differing)} {_are(differing)} free on one side only",
                    hint="Write both sides with the same free variables.",
                )
        case algebra.Exists(variables=bound, formula=inner):
            _none_left("EXISTS cannot be answered", set(bound) - set(algebra.free_variables(inner)))
        case algebra.Aggregate(groups=groups, item=item, formula=inner):
            asked = {*groups, *algebra.variables_of(item)}
            _none_left(f"{formula.function} cannot be answered", asked - set(algebra.free_variables(inner)))
        case algebra.Fixpoint(definitions=definitions):
            for definition in definitions:
                missing = set(definition.parameters) ^ set(algebra.free_variables(definition.body))
                _none_left(f"{definition.name} cannot be answered", missing)
        case _:
            return


def _conjunction(formula: algebra.And) -> None:
    if isinstance(formula.right, algebra.Not) and not is_test(formula.right.formula):
        check(formula.left)
        _taken(set(algebra.free_variables(formula.left)), formula.right)
        return
    every = list(conjuncts(formula))
    tests = [part for part in every if compares(part)]
    taken = [
        part for part in every if part not in tests and isinstance(part, algebra.Not) and algebra.free_variables(part)
    ]
    known: set[algebra.Variable] = set()
    for part in every:
        if part not in tests and part not in taken:
            check(part)
            known |= set(algebra.free_variables(part))
    known = _tests(known, tests)
    for part in taken:
        _taken(known, part)


def _tests(known: set[algebra.Variable], tests: list[algebra.Formula]) -> set[algebra.Variable]:
    left, known = list(tests), set(known)
    while left:
        test = next((each for each in left if applicable(each, known)), None)
        if test is None:
            free = {each for one in left for each in algebra.free_variables(one)}
            _none_left("a comparison cannot be answered", free - known)
            break
        left.remove(test)
        known |= set(algebra.free_variables(test))
    return known


def _taken(known: set[algebra.Variable], part: algebra.Formula) -> None:
    assert isinstance(part, algebra.Not)
    check(part.formula)
    unbound = set(algebra.free_variables(part)) - known
    if unbound:
        raise Refused(
            f"nothing to the left of AND NOT binds {_names(unbound)}, which {_are(unbound)} free in the negated "
            "formula",
            hint="Bind the variable by a positive part of the formula, or put the negated formula under EXISTS.",
        )


def _none_left(what: str, unbound: set[algebra.Variable]) -> None:
    if unbound:
        raise Refused(f"{what}: nothing binds {_names(unbound)}", hint=_BIND)


def _are(variables: Collection[algebra.Variable]) -> str:
    return "is" if len(variables) == 1 else "are"


def _names(variables: Iterable[algebra.Variable]) -> str:
    return ", ".join(sorted(variable.name for variable in variables))
