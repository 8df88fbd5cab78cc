"""Define the paper's functions f and g for each measure (Figure 6), and the further measures that f and g need.

| measure | measures stored with it | f, for inserted rows | g, for deleted rows |
| --- | --- | --- | --- |
| COUNT | | $2 + $1 | $2 − $1 |
| SUM of exact numbers | COUNT(x), because the SUM of no values is NULL; a wider SUM for BIGINT | $2 + $1 | $2 − $1 |
| AVG of exact numbers | SUM(x), COUNT(x); AVG is their quotient | | |
| MIN, MAX | | the smaller, the greater | recomputed |
| SUM, AVG of FLOAT, DOUBLE, or DECIMAL of more than 28 digits | | recomputed | recomputed |
| all others, and every aggregate with DISTINCT | | recomputed | recomputed |

Addition and subtraction of floating-point numbers are inexact, so incremental sums would drift away.  A recomputation
adds the numbers in a fixed order, so its result is always the same (``period_sql/groups.py``).  DECIMALs of more than
28 digits have no wider type, so the maintenance cannot continue after an overflow.  Every aggregation also stores
COUNT(*), because a group without rows does not exist.
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra.relation import Grouped, Measure, Output, Project
from weft.algebra.scalar import Call, Case, Cast, ColumnRef, Literal, Scalar, call
from weft.algebra.schema import BIGINT, DOUBLE, INTEGRAL, SUM_DIGITS, DataType, sums_fit
from weft.algebra.temporal import Temporal, inputs, over

_EXTRA = "_kept_"
_ZERO = Literal(0, BIGINT, fixed=True)
_ANY = ColumnRef("", "", BIGINT)
"""The output of measures that are compared without their outputs."""


def maintainable_form(relation: Temporal) -> Temporal:
    """Add to every aggregation the measures that its maintenance needs.

    A projection above each changed aggregation computes the original columns.  If an aggregation already has the
    measures, it stays unchanged.
    """
    parts = inputs(relation)
    below = over(relation, tuple(map(maintainable_form, parts))) if parts else relation
    return _with_extra_measures(below) if isinstance(below, Grouped) else below


def exact(type: DataType) -> bool:
    """Return whether incremental sums of this type are exact and cannot overflow."""
    return type.name in INTEGRAL or (type.name == "DECIMAL" and sums_fit(type))


def incremental(measure: Measure, *, deleting: bool) -> bool:
    """Return whether f is defined for a measure, or whether g is defined if ``deleting`` is true."""
    if measure.function in ("min", "max"):
        return not deleting
    if measure.distinct or measure.function not in ("count", "sum"):
        return False
    return measure.function == "count" or (measure.argument is not None and exact(measure.argument.type))


def row_count(node: Grouped[Temporal]) -> ColumnRef:
    """Return the column of COUNT(*), which ``maintainable_form`` adds."""
    return next(each.output for each in node.measures if each.function == "count" and each.argument is None)


def _with_extra_measures(node: Grouped[Temporal]) -> Temporal:
    inner = replace(node, alias=f"{node.alias}_kept")
    measures: dict[Measure, Measure] = {}

    def column(measure: Measure, type: DataType, name: str) -> ColumnRef:
        key = replace(measure, output=_ANY)
        made = measures.setdefault(key, replace(measure, output=ColumnRef(inner.alias, name, type)))
        return made.output

    for each in node.measures:
        if not _quotient(each) and not _wide(each):
            column(each, each.output.type, each.output.column)
    column(Measure("count", None, _ANY), BIGINT, _EXTRA + "rows")
    values: dict[ColumnRef, Scalar] = {}
    for position, each in enumerate(node.measures):
        argument = each.argument
        if argument is not None and _summed(each) and exact(argument.type):
            count = column(Measure("count", argument, _ANY), BIGINT, f"{_EXTRA}values_{position}")
            total = column(Measure("sum", argument, _ANY), _sum_type(argument.type), f"{_EXTRA}sum_{position}")
            if _quotient(each):
                values[each.output] = _average(total, count, each.output.type)
                continue
            if _wide(each):
                values[each.output] = _fitting(total)
                continue
        values[each.output] = column(each, each.output.type, each.output.column)
    if {replace(each.output, scan=node.alias) for each in measures.values()} == {each.output for each in node.measures}:
        return node
    groups = tuple(Output(out.name, ColumnRef(inner.alias, out.name, out.value.type)) for out in node.groups)
    asked = tuple(Output(each.output.column, values[each.output]) for each in node.measures)
    return Project(replace(inner, measures=tuple(measures.values())), node.alias, (*groups, *asked))


def _summed(measure: Measure) -> bool:
    return measure.function in ("sum", "avg") and not measure.distinct


def _quotient(measure: Measure) -> bool:
    return (
        measure.function == "avg"
        and not measure.distinct
        and measure.argument is not None
        and exact(measure.argument.type)
    )


def _wide(measure: Measure) -> bool:
    """Return whether a sum needs a wider type, because it may overflow its own type and later fit again."""
    of_bigint = measure.argument is not None and measure.argument.type == BIGINT
    return measure.function == "sum" and not measure.distinct and of_bigint and measure.output.type == BIGINT


def _sum_type(type: DataType) -> DataType:
    """For BIGINT, the type is a DECIMAL that can hold any sum.  Otherwise, it is the type of Spark's sum."""
    if type == BIGINT:
        return DataType("DECIMAL", 38, 0)
    if type.name != "DECIMAL":
        return BIGINT
    return DataType("DECIMAL", (type.precision or 10) + SUM_DIGITS, type.scale)


def _average(total: ColumnRef, count: ColumnRef, type: DataType) -> Scalar:
    parts = (total, count) if type.name == "DECIMAL" else (Cast(total, DOUBLE), Cast(count, DOUBLE))
    quotient = Call("/", parts, type)
    return Case(((call("<>", count, _ZERO), quotient),), None, type)


def _fitting(total: ColumnRef) -> Scalar:
    """Return a stored sum as BIGINT, or NULL if it overflows BIGINT."""
    fits = [call(op, total, Literal(bound, BIGINT)) for op, bound in ((">=", -(2**63)), ("<=", 2**63 - 1))]
    return Case(((call("and", *fits), Cast(total, BIGINT)),), None, BIGINT)


def combined(node: Grouped[Temporal], measure: Measure, old: str, change: str, *, deleting: bool) -> Scalar:
    """Return f($2.a, $1.a), the new value of a measure, or g($2.a, $1.a) if ``deleting`` is true.

    ``old`` is the range variable of $2, the aggregation before the change.  ``change`` is the range variable of $1, the
    aggregation over the changed rows.
    """
    two, one = _of(measure.output, old), _of(measure.output, change)
    sign = "-" if deleting else "+"
    match measure.function:
        case "count":
            return Call(sign, (two, one), two.type)
        case "sum":
            wanted = Measure("count", measure.argument, _ANY)
            counted = next(m.output for m in node.measures if replace(m, output=_ANY) == wanted)
            left = Call(sign, (_of(counted, old), _of(counted, change)), counted.type)
            zero = Cast(_ZERO, two.type)
            parts = (Call("coalesce", (two, zero), two.type), Call("coalesce", (one, zero), two.type))
            return Case(((call("<>", left, _ZERO), Cast(Call(sign, parts, two.type), two.type)),), None, two.type)
        case _:
            better = call("<=" if measure.function == "min" else ">=", two, one)
            first = (call("is null", one), two)
            return Case((first, (call("is null", two), one), (better, two)), one, two.type)


def _of(column: ColumnRef, alias: str) -> ColumnRef:
    return replace(column, scan=alias)
