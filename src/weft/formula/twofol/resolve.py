"""Translate a two-sorted formula to a tree of ``algebra.formula``.

The module also distinguishes time points from data.  In the tree, NOW is the only free variable over time points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.formula import NOW, TIME, Formula, Term, Variable, distance, free_variables, subformulas, variables_of
from weft.algebra.schema import INTERVAL, DataType
from weft.formula import syntax_tree
from weft.formula.lowering import Lowering, Scope
from weft.formula.scoping import below, free_names, term_names, terms_of
from weft.formula.signature import Signature
from weft.formula.syntax_tree import Written
from weft.formula.twofol.twofol_parser import LENGTH, parsed
from weft.formula.types import settled

_BIND: Final = (
    "Put EXISTS TIME t. … around the formula, or write NOW for the time point: an answer belongs to the present "
    "time point."
)


@dataclass(frozen=True)
class TwoSorted:
    """A two-sorted formula with its free data variables in the order of its answers."""

    formula: Formula
    columns: tuple[Variable, ...]


def two_sorted(text: str, known: Signature) -> TwoSorted:
    """Parse a two-sorted formula.  Raise FormulaError with the position of an error."""
    written = parsed(text)
    lowering = _Lowering(known, text)
    tree = settled(lowering.formula(written, {}), lowering.types)
    _require_sorts(tree, written, lowering)
    free = {variable.name: variable for variable in free_variables(tree) if variable != NOW}
    return TwoSorted(tree, tuple(free[name] for name in free_names(written) if name in free))


class _Lowering(Lowering):
    """A ``Lowering`` with additional constructs for time points."""

    def formula(self, written: Written, scope: Scope) -> Formula:
        """Raise FormulaError for temporal operators, LET and MU."""
        match written:
            case syntax_tree.Once(operator=operator):
                raise self._temporal_operator(written.at, operator)
            case syntax_tree.Since():
                raise self._temporal_operator(written.at, "SINCE")
            case syntax_tree.Let() | syntax_tree.Least():
                raise self.refused(written.at, "LET and MU are not supported in two-sorted formulas")
            case _:
                return super().formula(written, scope)

    def _temporal_operator(self, at: int, name: str) -> Exception:
        hint = (
            "Write the operator with time points: EXISTS TIME t. t < NOW AND …. Or write the formula in µTL "
            "(--language mutl)."
        )
        return self.refused(
            at, f"{name} is an operator of temporal logic, but formulas of this language name time points", hint
        )

    def bound_type(self, written: syntax_tree.Quantified) -> DataType:
        return TIME if written.time else super().bound_type(written)

    def exists(self, bound: Scope, inner: Formula) -> Formula:
        """Keep unused variables over time points, because each variable multiplies the counts of the answers."""
        free = free_variables(inner)
        pairs = [(Variable(name, kind), kind) for name, kind in bound.items()]
        used = tuple(variable for variable, kind in pairs if kind == TIME or variable in free)
        return algebra.Exists(used, inner) if used else inner

    def of_signature(self, written: syntax_tree.Applied, scope: Scope) -> Formula:
        """Translate P(x) AT t.  The last term of ``written`` is the time point t."""
        predicate = self.signature.get(written.name)
        given = len(written.terms) - 1
        if predicate is None or len(predicate.types) != given:
            return super().of_signature(syntax_tree.Applied(written.name, written.terms[:-1], written.at), scope)
        return algebra.Atom(written.name, self.of_predicate(written, predicate, (*predicate.types, TIME), scope))

    def call(self, written: syntax_tree.Call, scope: Scope) -> Term:
        if written.operation == LENGTH:
            (length,) = written.arguments
            assert isinstance(length, syntax_tree.Value)
            return algebra.Constant(length.value, INTERVAL)
        arguments = tuple(self.term(argument, scope) for argument in written.arguments)
        if any(self.types.known(argument.type) == TIME for argument in arguments):
            simple = all(isinstance(argument, Variable) for argument in arguments)
            if written.operation != "-" or len(arguments) != 2 or not simple:
                raise self.refused(written.at, "a time point can only be subtracted from another time point")
            for argument, each in zip(written.arguments, arguments, strict=True):
                self.join(each.type, TIME, argument.at, "the left side of a subtraction of time points")
            return algebra.Computed("-", arguments, INTERVAL)
        return super().call(written, scope)

    def type_of(self, name: str, scope: Scope) -> DataType:
        return TIME if name == NOW.name else super().type_of(name, scope)


def _require_sorts(tree: Formula, written: Written, lowering: _Lowering) -> None:
    """Raise FormulaError if a time point other than NOW is free, or if a time is used as data."""
    for part in subformulas(tree):
        match part:
            case algebra.Comparison(left=left, right=right) if INTERVAL in (left.type, right.type):
                sides = (distance(left), distance(right))
                constant = isinstance(left, algebra.Constant) or isinstance(right, algebra.Constant)
                if not constant or sides == (None, None):
                    raise lowering.refused(
                        0,
                        "a length of time can be compared only with the time between two time points, as in s - t < 7d",
                    )
            case algebra.Aggregate(function=function, output=output, item=item):
                if output.type == TIME or (TIME in {each.type for each in variables_of(item)} and function != "CNT"):
                    raise lowering.refused(
                        _place(written, output.name),
                        f"{function} of time points is not supported",
                        "To count time points, write CNT. For the last time point, write NOT EXISTS TIME s. "
                        "t < s AND ….",
                    )
            case _:
                continue
    for variable in free_variables(tree):
        if variable.type == TIME and variable != NOW:
            raise lowering.refused(_place(written, variable.name), f"the time point {variable.name} is free", _BIND)


def _place(written: Written, name: str) -> int:
    return min(_places(written, name), default=0)


def _places(written: Written, name: str) -> Iterator[int]:
    for term in terms_of(written):
        if name in term_names(term):
            yield term.at
    if isinstance(written, syntax_tree.Aggregated) and written.output == name:
        yield written.at
    for part in below(written):
        yield from _places(part, name)
