"""Print formulas in MonPoly's syntax with Weft's extension.  Parsing the printed text gives the same formula.

>>> from weft.algebra.formula import Atom, Interval, Once, Variable
>>> from weft.algebra.schema import BIGINT
>>> written(Once(Interval(0, 60_000_000), Atom("P", (Variable("x", BIGINT),))))
'ONCE[0,1m] P(x)'

``answers`` prints answers in MonPoly's format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weft.algebra import formula as algebra
from weft.algebra.formula import Formula, Interval, Term, Variable
from weft.formula.signature import Row, Value
from weft.formula.syntax_tree import UNITS

_COUNTING: Final = {"any": "", "first": "1", "second": "2"}


class Notation:
    """MonPoly's syntax of formulas.  A language with another syntax of some operators overrides their methods."""

    def text(self, formula: Formula) -> str:
        """Return the text of a formula."""
        match formula:
            case algebra.And(left=left, right=right):
                return self.joined("AND", left, right)
            case algebra.Or(left=left, right=right):
                return self.joined("OR", left, right)
            case algebra.Since(interval=interval, left=left, right=right, counting=counting, strict=strict):
                return self.joined(
                    ("Z" if strict else f"SINCE{_COUNTING[counting]}") + interval_text(interval), left, right
                )
            case algebra.Not(formula=inner):
                return f"NOT {self.bracketed(inner)}"
            case algebra.Distinct(formula=inner):
                return f"DISTINCT {self.bracketed(inner)}"
            case algebra.Previous(interval=interval, formula=inner):
                return f"PREVIOUS{interval_text(interval)} {self.bracketed(inner)}"
            case algebra.Once(interval=interval, formula=inner, counting=counting):
                return f"ONCE{_COUNTING[counting]}{interval_text(interval)} {self.bracketed(inner)}"
            case algebra.Exists(variables=variables, formula=inner):
                return self.exists(variables, inner)
            case algebra.Aggregate(output=output, function=function, item=item, groups=groups, formula=inner):
                by = f"; {', '.join(group.name for group in groups)}" if groups else ""
                return f"{output.name} <- {function} {term_text(item)}{by} {self.bracketed(inner)}"
            case algebra.Fixpoint(definitions=definitions, name=name, arguments=arguments):
                rules = ", ".join(
                    f"{_applied(each.name, each.parameters)} = {self.bracketed(each.body)}" for each in definitions
                )
                return f"MU {rules} IN {_applied(name, arguments)}"
            case _:
                return self.leaf(formula)

    def joined(self, operator: str, left: Formula, right: Formula) -> str:
        """Return the text of an operator with two operands."""
        return f"{self.bracketed(left)} {operator} {self.bracketed(right)}"

    def exists(self, variables: Sequence[Variable], inner: Formula) -> str:
        """Return the text of EXISTS."""
        return f"EXISTS {', '.join(variable.name for variable in variables)}. {self.bracketed(inner)}"

    def leaf(self, formula: Formula) -> str:
        """Return the text of a formula without subformulas."""
        match formula:
            case algebra.Truth(value=value):
                return "TRUE" if value else "FALSE"
            case algebra.Atom(predicate=name, terms=terms) | algebra.Defined(name=name, arguments=terms):
                return _applied(name, terms)
            case algebra.Comparison(operator=operator, left=left, right=right):
                return f"{term_text(left)} {operator.upper()} {term_text(right)}"
            case algebra.Matches(text=text, pattern=pattern, groups=groups):
                listing = ", ".join("_" if group is None else term_text(group) for group in groups)
                return f"{term_text(text)} MATCHES re{_quoted(pattern)}" + (f" ({listing})" if groups else "")
            case _:
                raise AssertionError(formula)

    def bracketed(self, formula: Formula) -> str:
        """Return the text of an operand."""
        match formula:
            case algebra.Truth() | algebra.Atom() | algebra.Comparison() | algebra.Matches() | algebra.Defined():
                return self.leaf(formula)
            case _:
                return f"({self.text(formula)})"


def written(formula: Formula) -> str:
    """Return the text of a formula."""
    return Notation().text(formula)


def term_text(term: Term) -> str:
    """Return the text of a term, with operations in parentheses."""
    match term:
        case algebra.Variable(name=name):
            return name
        case algebra.Constant(value=str(value)):
            plain = '"' not in value and "\\" not in value
            return f'"{value}"' if plain else _quoted(value)
        case algebra.Constant(value=float(value)):
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e", 1)
        case algebra.Constant(value=value):
            return str(value)
        case algebra.Computed(operation="negate", arguments=arguments):
            return f"-({term_text(arguments[0])})"
        case algebra.Computed(operation=("i2f" | "f2i") as function, arguments=arguments):
            return f"{function}({term_text(arguments[0])})"
        case algebra.Computed(operation=operation, arguments=arguments):
            return f"({term_text(arguments[0])} {operation} {term_text(arguments[1])})"


def bare_text(term: Term) -> str:
    """Return the text of a term without outer parentheses.

    >>> from weft.algebra.formula import Computed, Variable
    >>> from weft.algebra.schema import BIGINT
    >>> x = Variable("x", BIGINT)
    >>> bare_text(Computed("+", (x, x), BIGINT)), bare_text(Computed("negate", (x,), BIGINT))
    ('x + x', '-(x)')
    """
    text = term_text(term)
    return text[1:-1] if text.startswith("(") else text


def interval_text(interval: Interval) -> str:
    """Return the text of an interval.  Each end is printed in the largest unit that divides it.

    The text of the interval without limits is empty.  An end that is one microsecond from a whole millisecond is
    printed as an open end.

    >>> interval_text(Interval(0, 7 * 86_400_000_000)), interval_text(Interval(60_000_001, None))
    ('[0,7d]', '(1m,*)')
    """
    if interval.everything:
        return ""
    low, high = interval.low, interval.high
    beside = UNITS["ms"]
    first = f"({length_text(low - 1)}" if low % beside == 1 else f"[{length_text(low)}"
    if high is None:
        return f"{first},*)"
    closed = high % beside != beside - 1
    return f"{first},{length_text(high)}]" if closed else f"{first},{length_text(high + 1)})"


def length_text(length: int) -> str:
    """Return a length of time as text, in the largest unit that divides the length."""
    if not length:
        return "0"
    unit = [unit for unit, size in UNITS.items() if length % size == 0][-1]
    return f"{length // UNITS[unit]}{unit}"


def _applied(name: str, terms: Iterable[Term]) -> str:
    return f"{name}({','.join(map(term_text, terms))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_SECOND = 1_000_000


def verdict(at: int, number: int, answer: str) -> str:
    """Return the output line of an answer, for example ``@10 (time point 3): (1,"a")``.

    ``at`` is in microseconds.  The output line contains the time in seconds.
    """
    seconds, rest = divmod(at, _SECOND)
    shown = str(seconds) if not rest else f"{at / _SECOND:.6f}".rstrip("0")
    return f"@{shown} (time point {number}): {answer}"


def answers(
    rows: Sequence[Row], counts: Sequence[int] | None = None, *, closed: bool, every_point: bool = False
) -> str | None:
    """Return the text of the sorted answers at a time point.

    Return None if there are no answers and ``every_point`` is false.  The answer of a closed formula is ``true`` or
    ``false``.  With ``every_point`` (MonPoly's option -verbose), the rows form one list.  With ``counts``, each row is
    followed by ``*`` and its count.
    """
    often = None if counts is None else dict(zip(rows, counts, strict=True))
    distinct = sorted(set(rows), key=_order)
    if closed and not distinct:
        return "false" if every_point else None
    shown = ["true" if closed else row_text(row) for row in distinct]
    if often is not None:
        shown = [f"{text}*{often[row]}" for text, row in zip(shown, distinct, strict=True)]
    if every_point and not closed:
        return f"({','.join(shown)})"
    return " ".join(shown) or None


def row_text(row: Row) -> str:
    """Return the text of a row, such as ``(1,"a",2.5)``."""
    return f"({','.join(map(value_text, row))})"


def value_text(value: Value) -> str:
    """Return the text of a value.  A string without double quotes gets double quotes.  A float has C's format %g."""
    if isinstance(value, str):
        return value if len(value) > 1 and value[0] == value[-1] == '"' else f'"{value}"'
    return f"{value:g}" if isinstance(value, float) else str(value)


def _order(row: Row) -> tuple[tuple[int, object], ...]:
    """Numbers are sorted by size and texts by bytes, as in OCaml."""
    return tuple((1, value.encode()) if isinstance(value, str) else (0, value) for value in row)
