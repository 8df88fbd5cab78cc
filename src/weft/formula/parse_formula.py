"""Parse a formula and rewrite it to the form for evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from weft.algebra import formula as algebra
from weft.algebra.formula import Formula, Variable, free_variables
from weft.formula import syntax_tree
from weft.formula.lowering import lowered
from weft.formula.monitorable import answerable, monitorable
from weft.formula.monpoly import parsed
from weft.formula.scoping import free_names
from weft.formula.signature import Signature
from weft.formula.unfolding import unfolded


@dataclass(frozen=True)
class ParsedFormula:
    """A formula in the form for evaluation, with its free variables in MonPoly's output order."""

    formula: Formula
    columns: tuple[Variable, ...]


def reading(text: str, known: Signature, *, negate: bool = False) -> ParsedFormula:
    """Parse a formula of MonPoly.  Raise FormulaError for a syntax error or infinitely many answers."""
    return _reading(parsed(text), text, known, negate=negate, counts=False)


def counted_reading(text: str, known: Signature) -> ParsedFormula:
    """Parse a formula of µTL, where duplicates count.  Raise FormulaError for a syntax error or infinitely many
    answers.
    """
    return _reading(parsed(text, extended=True), text, known, negate=False, counts=True)


def _reading(formula: syntax_tree.Written, text: str, known: Signature, *, negate: bool, counts: bool) -> ParsedFormula:
    names = free_names(formula)
    tree = lowered(unfolded(formula, text), known, text)
    safe = monitorable(algebra.Not(tree) if negate else tree, counts=counts)
    free = {variable.name: variable for variable in free_variables(tree)}
    return ParsedFormula(answerable(safe), tuple(free[name] for name in names))
