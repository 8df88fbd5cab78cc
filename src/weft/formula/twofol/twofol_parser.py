"""Parse formulas with variables over time points (2-FOL) to a syntax tree.

The language is that of MonPoly without temporal operators.  The additional constructs are:

- ``P(x) AT t`` has the rows of P at the time point t, and ``NOW`` is the present time point.
- ``EXISTS TIME t, s. F`` and ``FORALL TIME t. F`` quantify over time points.
- ``t < s`` compares time points, and ``s - t <= 7d`` limits the time between two time points.
- ``DISTINCT F`` counts each answer once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from weft.formula import syntax_tree
from weft.formula.monpoly import EXTENSION, KEYWORDS, SKIPPED, WORDS, FormulaParser
from weft.formula.syntax_tree import Written, WrittenTerm
from weft.formula.terms import EXTENDED_TERM_WORDS
from weft.formula.tokens import END, Symbols, tokens

LENGTH: Final = "length"
"""The operation whose argument is a length of time in microseconds."""
NOW: Final = "NOW"
_ADDED: Final = ("TIME", "AT", NOW)
_SYMBOLS: Final = Symbols.of(
    SKIPPED, (*((word, word) for word in (*KEYWORDS, *EXTENSION, *_ADDED)), *WORDS, *EXTENDED_TERM_WORDS)
)


def parsed(text: str) -> Written:
    """Parse a formula.  In the result, the last term of each atom is the atom's time point."""
    parser = _Parser(text, tokens(text, _SYMBOLS, "the formula"), "the formula")
    formula = parser.formula(0)
    if not parser.at(END):
        raise parser.unexpected("an operator or the end is expected here")
    return formula


class _Parser(FormulaParser):
    """A parser with additional constructs for time points."""

    def quantified(self) -> Written:
        if self.ahead(1).kind != "TIME":
            return super().quantified()
        token = self.take()
        self.take()
        names = self.names("a variable over time points")
        self.expect(".", "'.' after the variables")
        inner = self.formula(30)
        return syntax_tree.Quantified(
            "EXISTS" if token.kind == "EXISTS" else "FORALL", names, inner, token.at, time=True
        )

    def applied(self) -> Written:
        formula = super().applied()
        self.expect("AT", "AT and a time point, as in P(x) AT t or P(x) AT NOW,")
        token = self.ahead()
        point = syntax_tree.Name(self.take().text if self.at(NOW) else self.variable("a time point"), token.at)
        if isinstance(formula, syntax_tree.Quantified):
            return replace(formula, formula=_at(formula.formula, point))
        return _at(formula, point)

    def single(self) -> WrittenTerm:
        token = self.ahead()
        if token.kind == NOW:
            return syntax_tree.Name(self.take().text, token.at)
        if token.kind == "duration":
            return syntax_tree.Call(LENGTH, (syntax_tree.Value(self.length(), at=token.at),), token.at)
        return super().single()


def _at(atom: Written, point: syntax_tree.Name) -> Written:
    assert isinstance(atom, syntax_tree.Applied)
    return replace(atom, terms=(*atom.terms, point))
