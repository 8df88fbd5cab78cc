"""Define formulas of past first-order temporal logic with fixpoints (Toman 2007, definition 3.3; MonPoly's language).

A formula is evaluated at a *time point*.  The states of a log have the numbers 0, 1, 2 …, called ``tp``.  Each state
has a time ``at`` in microseconds UTC.  The times never decrease.  Each state also has a multiset of rows for every
predicate.  The answer at a time point is a multiset of values for the formula's free variables.  The multiplicity of a
value is its *count*.  Under set semantics every count is 1.

Within the scope of one quantifier, variables with the same name and type are the same variable.  Formulas are immutable
values.  A formula that occurs twice is computed and stored once.

The same classes represent two-sorted first-order logic over a log (2-FOL; Toman 2007, definition 3.1).  2-FOL has no
temporal operators and no fixpoints.  A variable of the type ``TIME`` ranges over the time points up to ``NOW``.
``NOW`` is the time point at which the formula is evaluated.  The last term of an atom is the time point of the rows.
Comparisons of time points compare their numbers.  The difference of two time points is an INTERVAL in microseconds.

An evaluation over stored history reads *dated* predicates.  A dated predicate contains the rows of all time points.
The last column of a dated predicate is the number of the time point.  ``POINTS`` contains the number and the time (µs
UTC) of each time point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast
from typing import Literal as OneOf

from weft.algebra.schema import BIGINT, DOUBLE, INTERVAL, STRING, DataType, hashed_once
from weft.algebra.tree import ITEMS, parts_in, with_parts_in

VARIABLE_TYPES: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BOOLEAN"))
"""The names of the types that a variable can have."""
_TERM_TYPES: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), BIGINT),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    "STRING": STRING,
}


def term_type(column: DataType) -> DataType | None:
    """Return the type (BIGINT, DOUBLE or STRING) that a term has for a column of the type ``column``, or None.

    >>> from weft.algebra.schema import INT, TIMESTAMP
    >>> str(term_type(INT)), term_type(TIMESTAMP)
    ('BIGINT', None)
    """
    return _TERM_TYPES.get(column.name)


@dataclass(frozen=True, order=True)
class Variable:
    """A variable for a data value, or for a time point if its type is ``TIME``."""

    name: str
    type: DataType


@dataclass(frozen=True)
class Constant:
    """A constant: an int, a float or a string, according to ``type``."""

    value: int | float | str
    type: DataType


Operation: TypeAlias = OneOf["+", "-", "*", "/", "MOD", "negate", "i2f", "f2i"]


@hashed_once
@dataclass(frozen=True)
class Computed:
    """An operation over terms.

    ``negate``, ``i2f`` and ``f2i`` have one argument.  Division of integers truncates.
    """

    operation: Operation
    arguments: tuple[Term, ...]
    type: DataType


Term: TypeAlias = "Variable | Constant | Computed"


@dataclass(frozen=True)
class Interval:
    """The durations from ``low`` to ``high`` in microseconds, both inclusive.

    If ``high`` is None, the interval has no upper bound.
    """

    low: int = 0
    high: int | None = None

    @property
    def everything(self) -> bool:
        """Whether the interval is [0, ∞)."""
        return self.low == 0 and self.high is None


ALWAYS = Interval()


@hashed_once
@dataclass(frozen=True)
class Truth:
    """The constant ``true`` or ``false``.  The constant ``true`` has the count 1 at every time point."""

    value: bool


@hashed_once
@dataclass(frozen=True)
class Atom:
    """S(t1, …, tk): those rows of a predicate in the current state that match the terms, with their counts."""

    predicate: str
    terms: tuple[Term, ...]


@hashed_once
@dataclass(frozen=True)
class Comparison:
    """A comparison of two terms, with count 1.  Parsers swap the terms of ``>`` and ``>=`` to get ``<`` and ``<=``.

    As in the paper, the operator ``<>`` is not the negation of ``=``.  The formula Q ∧ ¬(x = y) subtracts one from the
    count of each row with x = y.  The formula Q ∧ x ≠ y removes each row with x = y.  The operator ``substring`` is
    true if the right term contains the left term.
    """

    operator: OneOf["=", "<>", "<", "<=", "substring"]
    left: Term
    right: Term


@hashed_once
@dataclass(frozen=True)
class Matches:
    """A match of a regular expression (RE2 syntax) anywhere in a text, with count 1.

    ``groups`` has one term for each capturing group of the first match, in order.  If a term is None, the group may
    match any text.  A group that did not participate in the match equals no term.  The match assigns the text of a
    group to its variable if the left side of the enclosing ``And`` does not contain the variable.
    """

    text: Term
    pattern: str
    groups: tuple[Term | None, ...] = ()


@hashed_once
@dataclass(frozen=True)
class And:
    """Q1 ∧ Q2.  The count of an answer is the product of its counts in Q1 and Q2.

    If the right side is a ``Not``, Q1 ∧ ¬Q2 subtracts counts (at least 0).  A ``Comparison`` or a ``Matches`` occurs
    only on the right and filters the rows of Q1.  The negation of a ``Comparison`` or a ``Matches`` subtracts one from
    the count of each row that matches.  Under set semantics, the negation of a test is also a filter.  The equality x =
    t adds the value of t to each row if Q1 contains all variables of t but not x.  A ``Matches`` adds the texts of its
    groups to each row.
    """

    left: Formula
    right: Formula


@hashed_once
@dataclass(frozen=True)
class Or:
    """Q1 ∨ Q2.  The count of an answer is the sum of its counts in Q1 and Q2."""

    left: Formula
    right: Formula


@hashed_once
@dataclass(frozen=True)
class Not:
    """¬Q, which has the count 1 if Q has no answer.

    After the safe-range rewriting, a ``Not`` occurs only on the right of an ``And``, on the left of a ``Since``, or
    above a formula without free variables.
    """

    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Exists:
    """∃x.Q.  The count of an answer is the sum of its counts in Q over all values of the variables."""

    variables: tuple[Variable, ...]
    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Distinct:
    """εQ: the answers of Q, each with the count 1."""

    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Previous:
    """▽Q: the answers of Q at the previous time point, if the time between the two time points lies in the interval."""

    interval: Interval
    formula: Formula


Counting: TypeAlias = OneOf["any", "first", "second"]
"""The way in which ``Since`` and ``Once`` count (section 4.1).

``first`` means since1 and ◇1.  ``second`` means since2 and ◇2.  ``any`` means set semantics.
"""


@hashed_once
@dataclass(frozen=True)
class Since:
    """Q1 since Q2: Q2 held at a time point within the interval, and Q1 has held at every later time point up to now.

    The free variables of Q1 must occur in Q2.  If ``counting`` is ``first``, the operator is the paper's since1 =
    µX.(εQ1) ∧ (Q2 ∨ ▽X).  In since1, Q1 must also hold at the time point of Q2.  If ``counting`` is ``second``, the
    operator is the paper's since2, which has no interval.

    If ``strict`` is true, Q2 must have held before now, as in DejaVu's Z.  Then the interval is [0, b] and
    ``counting`` is ``any``.
    """

    interval: Interval
    left: Formula
    right: Formula
    counting: Counting = "any"
    strict: bool = False


@hashed_once
@dataclass(frozen=True)
class Once:
    """◇Q: Q held at a time point within the interval before now.

    If ``counting`` is ``first``, ◇1 adds the counts of Q over all time points in the interval.  If ``counting`` is
    ``second``, ◇2 = true since2 Q is the number of time points since Q last held, counted from 1.
    """

    interval: Interval
    formula: Formula
    counting: Counting = "any"


AggregateFunction: TypeAlias = OneOf["CNT", "SUM", "AVG", "MIN", "MAX", "MED"]


@hashed_once
@dataclass(frozen=True)
class Aggregate:
    """y <- SUM t; g Q: an aggregate of ``item`` for each group of the distinct answers of Q at a time point.

    The free variables of the aggregate are ``groups`` and ``output``.  An aggregate without groups has one row, even if
    Q has no answer.
    """

    output: Variable
    function: AggregateFunction
    item: Term
    groups: tuple[Variable, ...]
    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Definition:
    """The definition of a fixpoint's relation by a formula.

    The formula may refer to the relation (``Defined``) only below a ``Previous``.
    """

    name: str
    parameters: tuple[Variable, ...]
    body: Formula


@hashed_once
@dataclass(frozen=True)
class Fixpoint:
    """µ: mutually recursive relations.  The fixpoint applies the relation called ``name`` to ``arguments``.

    µX.Q has one definition X.  The parameters of X are the free variables of Q.  Names of definitions are unique in a
    formula.
    """

    definitions: tuple[Definition, ...]
    name: str
    arguments: tuple[Term, ...]


@hashed_once
@dataclass(frozen=True)
class Defined:
    """A reference to a fixpoint's relation from one of the fixpoint's definitions."""

    name: str
    arguments: tuple[Term, ...]


Formula: TypeAlias = (
    "Truth | Atom | Comparison | Matches | And | Or | Not | Exists | Distinct | Previous | Since | Once | Aggregate"
    " | Fixpoint | Defined"
)


_PARTS: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys((And, Or, Since), ("left", "right")),
    **dict.fromkeys((Not, Exists, Distinct, Previous, Once, Aggregate), ("formula",)),
    Fixpoint: ("definitions",),
}
ITEMS[Definition] = ("body",)
_TERMS: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys((Fixpoint, Defined), ("arguments",)),
    Atom: ("terms",),
    Comparison: ("left", "right"),
    Matches: ("text", "groups"),
}
"""The fields with terms that do not bind variables."""


def parts(formula: Formula) -> tuple[Formula, ...]:
    """Return the direct subformulas of ``formula``."""
    return parts_in(formula, _PARTS.get(type(formula), ()))


def with_parts(formula: Formula, below: tuple[Formula, ...]) -> Formula:
    """Return a copy of ``formula`` with the items of ``below`` as direct subformulas, in the order of ``parts``."""
    return cast("Formula", with_parts_in(formula, _PARTS.get(type(formula), ()), iter(below)))


def terms_of(formula: Formula) -> tuple[Term, ...]:
    """Return the terms of a formula.  Leave out the terms of subformulas, and terms that bind variables."""
    return parts_in(formula, _TERMS.get(type(formula), ()))


def with_terms(formula: Formula, change: Callable[[Term], Term]) -> Formula:
    """Return a copy of the formula after applying ``change`` to the terms that ``terms_of`` returns."""
    return cast("Formula", with_parts_in(formula, _TERMS.get(type(formula), ()), map(change, terms_of(formula))))


def rewritten(formula: Formula, rule: Callable[[Formula], Formula]) -> Formula:
    """Apply ``rule`` to every subformula of the formula, innermost first."""
    return rule(with_parts(formula, tuple(rewritten(part, rule) for part in parts(formula))))


def subformulas(formula: Formula) -> Iterator[Formula]:
    """Yield the formula and all its subformulas, outermost first."""
    yield formula
    for part in parts(formula):
        yield from subformulas(part)


def with_variables(term: Term, change: Callable[[Variable], Term]) -> Term:
    """Apply ``change`` to each variable of the term."""
    match term:
        case Variable():
            return change(term)
        case Constant():
            return term
        case Computed(arguments=arguments):
            return replace(term, arguments=tuple(with_variables(each, change) for each in arguments))


def variables_of(term: Term) -> tuple[Variable, ...]:
    """Return the distinct variables of a term, in the order of their first occurrence."""
    match term:
        case Variable():
            return (term,)
        case Constant():
            return ()
        case Computed(arguments=arguments):
            return _each_once(variable for argument in arguments for variable in variables_of(argument))


def free_variables(formula: Formula) -> tuple[Variable, ...]:
    """Return the distinct free variables of a formula, in the order of their first occurrence."""
    match formula:
        case Atom() | Fixpoint() | Defined() | Comparison() | Matches():
            return _each_once(variable for term in terms_of(formula) for variable in variables_of(term))
        case Exists(variables=bound, formula=inner):
            return tuple(variable for variable in free_variables(inner) if variable not in bound)
        case Aggregate(output=output, groups=by):
            return _each_once((output, *by))
        case _:
            return _each_once(variable for part in parts(formula) for variable in free_variables(part))


def _each_once(variables: Iterator[Variable] | tuple[Variable, ...]) -> tuple[Variable, ...]:
    return tuple(dict.fromkeys(variables))


TIME: Final = DataType("TIME POINT")
NOW: Final = Variable("NOW", TIME)
POINTS: Final = "@"
_DATED: Final = "@"


def dated(predicate: str) -> str:
    """Return the name of the dated form of ``predicate``."""
    return f"{predicate}{_DATED}"


def undated(predicate: str) -> str | None:
    """Remove the suffix that marks a dated predicate from a name.  For any other name, return None."""
    return predicate[: -len(_DATED)] if predicate.endswith(_DATED) and predicate != POINTS else None


def distance(term: Term) -> tuple[Variable, Variable] | None:
    """Return the two time points of a difference, the later one first.  For any other term, return None."""
    match term:
        case Computed(operation="-", arguments=(Variable() as later, Variable() as earlier)) if term.type == INTERVAL:
            return later, earlier
        case _:
            return None
