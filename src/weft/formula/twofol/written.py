"""Print two-sorted formulas.  Parsing the printed text gives the same formula.

>>> from weft.algebra.formula import Atom, Exists, Variable
>>> from weft.algebra.formula import TIME
>>> t = Variable("t", TIME)
>>> two_sorted_text(Exists((t,), Atom("P", (t,))))
'EXISTS TIME t. P() AT t'
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra import formula as algebra
from weft.algebra.formula import POINTS, TIME, Formula, Term, Variable
from weft.algebra.schema import INTERVAL
from weft.formula.written import Notation, length_text, term_text


class _TwoSorted(Notation):
    def joined(self, operator: str, left: Formula, right: Formula) -> str:
        """Omit a side that only states that a variable is a time point."""
        shown = [side for side in (left, right) if not _says_point(side)]
        if len(shown) < 2:
            return self.text(shown[0]) if shown else "TRUE"
        return super().joined(operator, left, right)

    def exists(self, variables: Sequence[Variable], inner: Formula) -> str:
        times = ", ".join(each.name for each in variables if each.type == TIME and each.name != "NOW")
        values = ", ".join(each.name for each in variables if each.type != TIME)
        heads = [f"EXISTS TIME {times}."] * bool(times) + [f"EXISTS {values}."] * bool(values)
        simple = isinstance(inner, (algebra.Atom, algebra.Truth)) or not heads
        return " ".join([*heads, self.text(inner) if simple else self.bracketed(inner)])

    def leaf(self, formula: Formula) -> str:
        match formula:
            case algebra.Atom(predicate=name, terms=(*terms, point)):
                return f"{name}({','.join(map(term_text, terms))}) AT {term_text(point)}"
            case algebra.Comparison(operator=operator, left=left, right=right):
                return f"{_term(left)} {operator.upper()} {_term(right)}"
            case _:
                return super().leaf(formula)


def two_sorted_text(formula: Formula) -> str:
    """Return the text of a formula.  The text of a quantifier over time points contains the word TIME."""
    return _TwoSorted().text(formula)


def _says_point(formula: Formula) -> bool:
    match formula:
        case algebra.Atom(predicate=name):
            return name == POINTS
        case algebra.And(left=left, right=right):
            return _says_point(left) and _says_point(right)
        case _:
            return False


def _term(term: Term) -> str:
    match term:
        case algebra.Constant(value=micros, type=type) if type == INTERVAL:
            return length_text(int(micros)) if micros else "0s"
        case algebra.Computed(operation="-", arguments=(later, earlier), type=type) if type == INTERVAL:
            return f"{term_text(later)} - {term_text(earlier)}"
        case _:
            return term_text(term)
