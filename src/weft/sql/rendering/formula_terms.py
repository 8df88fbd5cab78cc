"""Render the terms, tests and atoms of formulas over relations of time points as SQL.

An integer divided by 0 gives NULL.  Before a test, the caller must use ``first_divided_by_0`` to find divisions by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from weft.algebra.formula import (
    Aggregate,
    AggregateFunction,
    Atom,
    Comparison,
    Computed,
    Constant,
    Matches,
    Term,
    Variable,
    free_variables,
)
from weft.algebra.relation import AggregateFunction as Function
from weft.algebra.scalar import Literal
from weft.algebra.schema import DOUBLE, STRING
from weft.errors import ExecutionError
from weft.period_sql.groups import Grouping, Measure
from weft.period_sql.notation import POINTS, Dialect, conjunction, listed
from weft.period_sql.steps import PERIOD, Extent, Steps
from weft.period_sql.sweep import Sweep
from weft.sql.rendering.render import literal, spelled

_FUNCTIONS: Final[Mapping[AggregateFunction, Function]] = {
    "CNT": "count",
    "SUM": "sum",
    "AVG": "avg",
    "MIN": "min",
    "MAX": "max",
    "MED": "median",
}
_LARGEST: Final = "9.2e18"
"""As in MonPoly, ``f2i`` converts DOUBLEs beyond this limit to 0, because they may not fit in a BIGINT."""


def term(value: Term, column: Callable[[Variable], str], dialect: Dialect) -> str:
    """Return SQL for a term.  The function ``column`` returns the column of a variable."""
    match value:
        case Variable():
            return column(value)
        case Constant(value=constant, type=type):
            return f"CAST({literal(Literal(constant, type))} AS {spelled(type)})"
        case Computed(operation=operation, arguments=arguments, type=type):
            operands = [term(argument, column, dialect) for argument in arguments]
            return _computed(operation, operands, exact=type != DOUBLE, dialect=dialect)


def _computed(operation: str, operands: list[str], *, exact: bool, dialect: Dialect) -> str:
    match operation:
        case "negate":
            return f"(-{operands[0]})"
        case "i2f":
            return f"CAST({operands[0]} AS DOUBLE)"
        case "f2i":
            number = operands[0]
            whole = f"CAST(CASE WHEN {number} < 0 THEN CEIL({number}) ELSE FLOOR({number}) END AS BIGINT)"
            return f"CASE WHEN ABS({number}) < {_LARGEST} THEN {whole} ELSE 0 END"
        case "MOD":
            return f"MOD({operands[0]}, NULLIF({operands[1]}, 0))"
        case "/" if exact:
            return f"({operands[0]} {dialect.quotient} NULLIF({operands[1]}, 0))"
        case "/" if not dialect.infinite:
            return _quotient(*operands)
        case _:
            return f"({operands[0]} {operation} {operands[1]})"


def _quotient(left: str, right: str) -> str:
    """A division by 0 gives infinity, or NaN for 0 / 0."""
    far = f"CASE WHEN {left} > 0 THEN 'Infinity' WHEN {left} < 0 THEN '-Infinity' ELSE 'NaN' END"
    return f"CASE WHEN {right} = 0 THEN CAST({far} AS DOUBLE) ELSE {left} / {right} END"


def holds(test: Comparison | Matches, column: Callable[[Variable], str], dialect: Dialect) -> str:
    """Return the SQL condition that a row satisfies a test."""
    match test:
        case Comparison(operator="substring", left=left, right=right):
            return f"CONTAINS({term(right, column, dialect)}, {term(left, column, dialect)})"
        case Comparison(operator=operator, left=left, right=right):
            return f"{term(left, column, dialect)} {operator} {term(right, column, dialect)}"
        case Matches(text=text, pattern=pattern, groups=groups):
            conditions = [f"{dialect.matches}({term(text, column, dialect)}, {_text(pattern)})"]
            for number, group in enumerate(groups, 1):
                if group is not None:
                    captured = _group(test, number, column, dialect)
                    conditions.append(f"{captured} IS NOT DISTINCT FROM {term(group, column, dialect)}")
            return conjunction(conditions)


def _group(test: Matches, number: int, column: Callable[[Variable], str], dialect: Dialect) -> str:
    """Raise ExecutionError for Spark, which does not distinguish an empty group from a group outside the match."""
    if not dialect.groups:
        raise ExecutionError(
            "Spark cannot distinguish a group that matched the empty text from a group that matched nothing",
            hint="Remove the groups of MATCHES, or evaluate the formula with `weft monitor`.",
        )
    return f"REGEXP_EXTRACT_ALL({term(test.text, column, dialect)}, {_text(test.pattern)}, {number})[1]"


def _text(value: str) -> str:
    return literal(Literal(value, STRING))


def selected(steps: Steps, test: Comparison | Matches, dialect: Dialect, *, negated: bool = False) -> str:
    """Return SQL for the rows that satisfy a test.  If ``negated`` is true, return SQL for the other rows."""
    condition = holds(test, lambda variable: steps.column(variable), dialect)
    if negated:
        condition = f"NOT ({condition})"
    return f"SELECT {listed(steps.heads)} FROM {steps.source} AS given WHERE {condition}"


def lessened(steps: Steps, test: Comparison | Matches, dialect: Dialect) -> str:
    """Return SQL for Q ∧ ¬(test), which subtracts one from the count of each row that satisfies the test."""
    held = holds(test, lambda variable: steps.column(variable), dialect)
    counted = f"n - CASE WHEN {held} THEN 1 ELSE 0 END AS n"
    rows = f"SELECT {listed(steps.values(), counted, PERIOD)} FROM {steps.source} AS given"
    return f"SELECT {listed(steps.heads)} FROM ({rows}) AS given WHERE n > 0"


def first_divided_by_0(steps: Steps, division: Computed, dialect: Dialect) -> str:
    """Return SQL for the first time point with a divisor of 0, as ``tp``, or NULL."""
    divisor = term(division.arguments[1], lambda variable: steps.column(variable), dialect)
    return f"SELECT MIN(from_tp) AS tp FROM {steps.source} AS given WHERE {divisor} = 0"


def extended(steps: Steps, added: Mapping[Variable, Term], variables: tuple[Variable, ...], dialect: Dialect) -> str:
    """Return SQL that extends each row by the values of the terms in ``added``.

    ``variables`` are all variables of the result, in order.
    """
    column = steps.column
    return _extended(steps, {each: term(value, column, dialect) for each, value in added.items()}, variables)


def grouped(steps: Steps, test: Matches, added: Mapping[Variable, int], dialect: Dialect) -> str:
    """Return SQL that adds the texts of groups in a match to each row.

    ``added`` maps each new variable to the number of its group.
    """
    column = steps.column
    captures = {each: _group(test, number, column, dialect) for each, number in added.items()}
    return _extended(steps, captures, (*steps.variables, *added))


def _extended(steps: Steps, added: Mapping[Variable, str], variables: tuple[Variable, ...]) -> str:
    def source(variable: Variable) -> str:
        return steps.column(variable) if variable in steps.variables else added[variable]

    names = POINTS.columns(len(variables))
    heads = [f"{source(variable)} AS {name}" for variable, name in zip(variables, names, strict=True)]
    rest = steps.heads[len(steps.variables) :]
    new = [name for variable, name in zip(variables, names, strict=True) if variable in added]
    there = conjunction([f"{name} IS NOT NULL" for name in new])
    rows = f"SELECT {listed(heads, rest)} FROM {steps.source} AS given"
    return f"SELECT {listed(names, rest)} FROM ({rows}) AS given WHERE {there}"


def atom(formula: Atom, source: str, dialect: Dialect, *, counted: bool) -> str:
    """Return SQL for the rows that match the terms of an atom.

    ``source`` is a table with the columns ``c1 … ck, tp``.
    """
    places: dict[Variable, str] = {}
    conditions = []
    for number, each in enumerate(formula.terms, 1):
        if isinstance(each, Variable) and each not in places:
            places[each] = f"c{number}"
    for number, each in enumerate(formula.terms, 1):
        if not isinstance(each, Variable) or places[each] != f"c{number}":
            conditions.append(f"c{number} = {term(each, lambda variable: places[variable], dialect)}")
    variables = free_variables(formula)
    names = POINTS.columns(len(variables))
    heads = [
        f"CAST({places[variable]} AS {spelled(variable.type)}) AS {name}"
        for variable, name in zip(variables, names, strict=True)
    ]
    rows = f"SELECT {listed(heads, 'tp')} FROM {source} AS given WHERE {conjunction(conditions)}"
    count = ["COUNT(*) AS n"] if counted else []
    period = ("tp AS from_tp", "tp + 1 AS to_tp")
    return f"SELECT {listed(names, count, period)} FROM ({rows}) AS given GROUP BY {listed(names, 'tp')}"


def aggregated(formula: Aggregate, steps: Steps, extent: Extent, dialect: Dialect) -> str:
    """Return SQL for an aggregation.  The columns are the groups, the output and the period.

    ``steps`` must not be counted.  The SQL fails if a sum of integers exceeds a BIGINT.
    """
    width = len(formula.groups)
    groups = [
        f"{steps.column(each)} AS {name}" for each, name in zip(formula.groups, POINTS.columns(width), strict=True)
    ]
    item = term(formula.item, steps.column, dialect)
    rows = f"SELECT {listed(groups, f'{item} AS x', PERIOD)} FROM {steps.source} AS given WHERE {item} IS NOT NULL"
    measure = Measure(
        _FUNCTIONS[formula.function], spelled(formula.output.type), "x", formula.item.type, of_nothing(formula)
    )
    span = None if formula.groups else (str(extent.first), str(extent.end))
    sweep = Sweep(POINTS, dialect)
    return Grouping(sweep, rows, width, [measure], span, points=steps.points, fails=True).measured()


def of_nothing(formula: Aggregate) -> str:
    """Return SQL for the value that MonPoly gives to an aggregation without groups if its formula has no answers."""
    function, type = formula.function, formula.output.type
    if function in ("MIN", "MAX") and type == DOUBLE:
        return f"CAST('{'' if function == 'MIN' else '-'}Infinity' AS DOUBLE)"
    return f"CAST({literal(Literal('', STRING))} AS STRING)" if type == STRING else f"CAST(0 AS {spelled(type)})"
