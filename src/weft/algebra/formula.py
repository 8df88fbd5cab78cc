"""Formulas of past first-order temporal logic with fixpoints (Toman 2007, definition 3.3; MonPoly's language).

A formula is asked at a *time point*: the states of a log are numbered by ``tp`` 0, 1, 2 …, each has a time ``at``
(microseconds UTC) that never goes down along them, and each gives every predicate a multiset of rows.  The answer at a
time point is a multiset of values for the formula's free variables; how often each occurs is its *count*.  Under set
semantics every count is 1.

A variable is the same variable wherever it has the same name and type within the scope of its quantifier.  Formulas are
immutable values; equal ones are the same formula, so that what occurs twice is computed and stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from typing import Literal as OneOf

from weft.algebra.schema import BIGINT, DOUBLE, STRING, DataType, hashed_once

VARIABLE_TYPES: Final = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BOOLEAN"))
"""The types that variables have."""
_TERM_TYPES: Final = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), BIGINT),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    "STRING": STRING,
}


def term_type(column: DataType) -> DataType | None:
    """The type of the terms that a table's column gives a predicate: BIGINT, DOUBLE or STRING; None: it gives none.

    >>> from weft.algebra.schema import INT, TIMESTAMP
    >>> str(term_type(INT)), term_type(TIMESTAMP)
    ('BIGINT', None)
    """
    return _TERM_TYPES.get(column.name)


@dataclass(frozen=True, order=True)
class Variable:
    """A variable over data values; its type is that of a column."""

    name: str
    type: DataType


@dataclass(frozen=True)
class Constant:
    """A value: an int, a float or a text as its type says."""

    value: int | float | str
    type: DataType


Operation: TypeAlias = OneOf["+", "-", "*", "/", "MOD", "negate", "i2f", "f2i"]


@hashed_once
@dataclass(frozen=True)
class Computed:
    """An operation over terms; ``negate``, ``i2f`` and ``f2i`` take one.  Division of integers truncates."""

    operation: Operation
    arguments: tuple[Term, ...]
    type: DataType


Term: TypeAlias = "Variable | Constant | Computed"


@dataclass(frozen=True)
class Interval:
    """The lengths of time from ``low`` to ``high``, both included, microseconds; ``high`` None: without end."""

    low: int = 0
    high: int | None = None

    @property
    def everything(self) -> bool:
        """Whether it bounds nothing."""
        return self.low == 0 and self.high is None


ALWAYS = Interval()


@hashed_once
@dataclass(frozen=True)
class Truth:
    """True with count 1 at every time point, or at none."""

    value: bool


@hashed_once
@dataclass(frozen=True)
class Atom:
    """S(t1, …, tk): the rows of the predicate in the state that agree with the terms, each with its count."""

    predicate: str
    terms: tuple[Term, ...]


@hashed_once
@dataclass(frozen=True)
class Comparison:
    """Two terms compared, with count 1; other orders are written with these.

    ``<>`` is an operator, as x ≠ y is one of the paper's: Q ∧ ¬(x = y) is Q less one where x = y, and that is something
    else where Q has duplicates.  ``substring``: the left one is a part of the right one.
    """

    operator: OneOf["=", "<>", "<", "<=", "substring"]
    left: Term
    right: Term


@hashed_once
@dataclass(frozen=True)
class Matches:
    """A regular expression (RE2's syntax) is found in a text, with count 1.

    ``groups`` are what its capturing groups found in the first match, from the first group on: one that took no part
    in the match is like none of the terms, None asks nothing of it.  A variable among them that the left side of the
    And above does not have is bound by it.
    """

    text: Term
    pattern: str
    groups: tuple[Term | None, ...] = ()


@hashed_once
@dataclass(frozen=True)
class And:
    """Q1 ∧ Q2: counts are multiplied.  With a Not on the right it is Q1 ∧ ¬Q2: counts are subtracted, not below 0.

    A Comparison or Matches stands on the right only, where it filters the rows of Q1; its Not
    takes one from the count of those that agree with it, and filters, too, under set semantics.  An equality of
    a variable that Q1 does not have with a term over those it has extends each row by the term's value, and a Matches
    by what its groups found.
    """

    left: Formula
    right: Formula


@hashed_once
@dataclass(frozen=True)
class Or:
    """Q1 ∨ Q2: counts are added."""

    left: Formula
    right: Formula


@hashed_once
@dataclass(frozen=True)
class Not:
    """¬Q, with count 1 where Q has none.

    After the safe-range rewriting it stands on the right of an And, on the left of a Since, or over a formula without
    free variables.
    """

    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Exists:
    """∃x.Q: counts of all values of the variables are added."""

    variables: tuple[Variable, ...]
    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Distinct:
    """εQ: each answer once."""

    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Previous:
    """▽Q: the answers at the time point before, where the time from there to here lies in the interval."""

    interval: Interval
    formula: Formula


Counting: TypeAlias = OneOf["any", "first", "second"]
"""How a since or once counts (section 4.1): since1 and ◇1, since2 and ◇2, or ``any`` under set semantics."""


@hashed_once
@dataclass(frozen=True)
class Since:
    """Q1 since Q2: Q2 held at a time point as long ago as the interval says, and Q1 at every one after it up to here.

    The free variables of Q1 are among those of Q2.  ``first`` and ``second`` are the paper's
    since1 = µX.(εQ1) ∧ (Q2 ∨ ▽X), in which Q1 has to hold where Q2 does, too, and since2; ``second`` has no interval.
    """

    interval: Interval
    left: Formula
    right: Formula
    counting: Counting = "any"


@hashed_once
@dataclass(frozen=True)
class Once:
    """◇Q: Q held at some time point up to here, as long ago as the interval says.

    ``first``: the counts of all of them are added (◇1); ``second``: how many time points ago the last one was, 1 here
    (◇2 = true since2 Q).
    """

    interval: Interval
    formula: Formula
    counting: Counting = "any"


AggregateFunction: TypeAlias = OneOf["CNT", "SUM", "AVG", "MIN", "MAX", "MED"]


@hashed_once
@dataclass(frozen=True)
class Aggregate:
    """y <- SUM t; g Q: the function of ``item`` over the distinct answers of Q at a time point, for each of its groups.

    Free variables: the groups and ``output``.  Without groups there is one group, also where Q has no answer.
    """

    output: Variable
    function: AggregateFunction
    item: Term
    groups: tuple[Variable, ...]
    formula: Formula


@hashed_once
@dataclass(frozen=True)
class Definition:
    """A relation defined by a formula in which it may occur itself (``Defined``), always under a Previous."""

    name: str
    parameters: tuple[Variable, ...]
    body: Formula


@hashed_once
@dataclass(frozen=True)
class Fixpoint:
    """µ: relations that are defined together, and the one asked for, its parameters standing for ``arguments``.

    µX.Q is one definition X with the free variables of Q.  Names of definitions are different all over a formula.
    """

    definitions: tuple[Definition, ...]
    name: str
    arguments: tuple[Term, ...]


@hashed_once
@dataclass(frozen=True)
class Defined:
    """A fixpoint's relation where its own definitions speak of it."""

    name: str
    arguments: tuple[Term, ...]


Formula: TypeAlias = (
    "Truth | Atom | Comparison | Matches | And | Or | Not | Exists | Distinct | Previous | Since | Once | Aggregate"
    " | Fixpoint | Defined"
)


def parts(formula: Formula) -> tuple[Formula, ...]:
    """The formulas directly below."""
    match formula:
        case Truth() | Atom() | Comparison() | Matches() | Defined():
            return ()
        case And(left=left, right=right) | Or(left=left, right=right) | Since(left=left, right=right):
            return (left, right)
        case Not(formula=inner) | Exists(formula=inner) | Distinct(formula=inner) | Previous(formula=inner):
            return (inner,)
        case Once(formula=inner) | Aggregate(formula=inner):
            return (inner,)
        case Fixpoint(definitions=definitions):
            return tuple(definition.body for definition in definitions)


def with_parts(formula: Formula, below: tuple[Formula, ...]) -> Formula:
    """The same formula over others, as many as ``parts`` gives."""
    match formula:
        case Truth() | Atom() | Comparison() | Matches() | Defined():
            return formula
        case And() | Or() | Since():
            return replace(formula, left=below[0], right=below[1])
        case Not() | Exists() | Distinct() | Previous() | Once() | Aggregate():
            return replace(formula, formula=below[0])
        case Fixpoint(definitions=definitions):
            renewed = (replace(definition, body=body) for definition, body in zip(definitions, below, strict=True))
            return replace(formula, definitions=tuple(renewed))


def with_terms(formula: Formula, change: Callable[[Term], Term]) -> Formula:
    """The formula with its own free terms changed; those that bind variables, and what is below, stay."""
    match formula:
        case Atom(terms=given):
            return replace(formula, terms=tuple(map(change, given)))
        case Comparison(left=left, right=right):
            return replace(formula, left=change(left), right=change(right))
        case Matches(text=text, groups=groups):
            found = tuple(None if group is None else change(group) for group in groups)
            return replace(formula, text=change(text), groups=found)
        case Fixpoint(arguments=given) | Defined(arguments=given):
            return replace(formula, arguments=tuple(map(change, given)))
        case _:
            return formula


def rewritten(formula: Formula, rule: Callable[[Formula], Formula]) -> Formula:
    """The formula with a rule applied everywhere, innermost first."""
    return rule(with_parts(formula, tuple(rewritten(part, rule) for part in parts(formula))))


def subformulas(formula: Formula) -> Iterator[Formula]:
    """The formula and everything below it, outermost first."""
    yield formula
    for part in parts(formula):
        yield from subformulas(part)


def with_variables(term: Term, change: Callable[[Variable], Term]) -> Term:
    """The term with its variables changed."""
    match term:
        case Variable():
            return change(term)
        case Constant():
            return term
        case Computed(arguments=arguments):
            return replace(term, arguments=tuple(with_variables(each, change) for each in arguments))


def variables_of(term: Term) -> tuple[Variable, ...]:
    """The variables of a term, each once, in the order in which they are met."""
    match term:
        case Variable():
            return (term,)
        case Constant():
            return ()
        case Computed(arguments=arguments):
            return _each_once(variable for argument in arguments for variable in variables_of(argument))


def free_variables(formula: Formula) -> tuple[Variable, ...]:
    """The free variables, each once, in the order in which they are met."""
    match formula:
        case Atom(terms=terms) | Fixpoint(arguments=terms) | Defined(arguments=terms):
            return _each_once(variable for term in terms for variable in variables_of(term))
        case Comparison(left=left, right=right):
            return _each_once((*variables_of(left), *variables_of(right)))
        case Matches(text=text, groups=groups):
            terms = (text, *(group for group in groups if group is not None))
            return _each_once(variable for term in terms for variable in variables_of(term))
        case Exists(variables=bound, formula=inner):
            return tuple(variable for variable in free_variables(inner) if variable not in bound)
        case Aggregate(output=output, groups=by):
            return _each_once((output, *by))
        case _:
            return _each_once(variable for part in parts(formula) for variable in free_variables(part))


def _each_once(variables: Iterator[Variable] | tuple[Variable, ...]) -> tuple[Variable, ...]:
    return tuple(dict.fromkeys(variables))
