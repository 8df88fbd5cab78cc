"""Print two-sorted formulas.  Parsing the printed text gives the same formula.

>>> from weft.algebra.formula import Atom, Exists, Variable
>>> from weft.algebra.formula import TIME
>>> t = Variable("t", TIME)
>>> two_sorted_text(Exists((t,), Atom("P", (t,))))
'EXISTS TIME t. P() AT t'
"""

from __future__ import annotations

from weft.algebra import formula as algebra
from weft.algebra.formula import POINTS, TIME, Formula, Term, Variable
from weft.algebra.schema import INTERVAL
from weft.formula.written import length_text, term_text, written


def two_sorted_text(formula: Formula) -> str:
    """Return the text of a formula.  The text of a quantifier over time points contains the word TIME."""
    match formula:
        case algebra.Atom(predicate=name, terms=(*terms, point)):
            return f"{name}({','.join(map(term_text, terms))}) AT {term_text(point)}"
        case algebra.Comparison(operator=operator, left=left, right=right):
            return f"{_term(left)} {operator} {_term(right)}"
        case algebra.And(left=left, right=right):
            return _joined("AND", left, right)
        case algebra.Or(left=left, right=right):
            return _joined("OR", left, right)
        case algebra.Not(formula=inner):
            return f"NOT {_bracketed(inner)}"
        case algebra.Distinct(formula=inner):
            return f"DISTINCT {_bracketed(inner)}"
        case algebra.Exists(variables=variables, formula=inner):
            return _exists(variables, inner)
        case algebra.Aggregate(output=output, function=function, item=item, groups=groups, formula=inner):
            by = f"; {', '.join(group.name for group in groups)}" if groups else ""
            return f"{output.name} <- {function} {term_text(item)}{by} {_bracketed(inner)}"
        case _:
            return written(formula)


def _joined(connective: str, left: Formula, right: Formula) -> str:
    """Omit a side that only states that a variable is a time point."""
    shown = [side for side in (left, right) if not _says_point(side)]
    if len(shown) < 2:
        return two_sorted_text(shown[0]) if shown else "TRUE"
    return f"{_bracketed(left)} {connective} {_bracketed(right)}"


def _says_point(formula: Formula) -> bool:
    match formula:
        case algebra.Atom(predicate=name):
            return name == POINTS
        case algebra.And(left=left, right=right):
            return _says_point(left) and _says_point(right)
        case _:
            return False


def _exists(variables: tuple[Variable, ...], inner: Formula) -> str:
    times = ", ".join(each.name for each in variables if each.type == TIME and each.name != "NOW")
    values = ", ".join(each.name for each in variables if each.type != TIME)
    heads = [f"EXISTS TIME {times}."] * bool(times) + [f"EXISTS {values}."] * bool(values)
    simple = isinstance(inner, (algebra.Atom, algebra.Truth)) or not heads
    return " ".join([*heads, two_sorted_text(inner) if simple else _bracketed(inner)])


def _term(term: Term) -> str:
    match term:
        case algebra.Constant(value=micros, type=type) if type == INTERVAL:
            return length_text(int(micros)) if micros else "0s"
        case algebra.Computed(operation="-", arguments=(later, earlier), type=type) if type == INTERVAL:
            return f"{term_text(later)} - {term_text(earlier)}"
        case _:
            return term_text(term)


def _bracketed(formula: Formula) -> str:
    match formula:
        case algebra.Atom() | algebra.Comparison() | algebra.Truth() | algebra.Matches():
            return two_sorted_text(formula)
        case _:
            return f"({two_sorted_text(formula)})"
