"""Render aggregations at each time point as SQL (``points`` defines the relations).

Counts and sums of integers are running sums over the bounds of periods.  MIN, MAX, MED and sums of DOUBLE are computed
for each interval between two bounds.  DOUBLEs are added in ascending order, so that the sum does not depend on the
order of arrival.
"""

from __future__ import annotations

from typing import Final

from weft.algebra.formula import Aggregate
from weft.algebra.scalar import Literal
from weft.algebra.schema import DOUBLE, INTEGRAL, STRING
from weft.sql.points import PERIOD, Dialect, Extent, Steps, bounds, columns_of, conjunction
from weft.sql.points_join import gaps
from weft.sql.points_terms import term
from weft.sql.render import literal, spelled
from weft.sql.sweeping import listed, over

_WIDE: Final = "DECIMAL(38,0)"
"""The type for sums of integers, because a sum may exceed a BIGINT."""


def aggregated(formula: Aggregate, steps: Steps, extent: Extent, dialect: Dialect) -> str:
    """Return SQL for an aggregation.  The columns ``v1, v2 …, from_tp, to_tp`` are the output, the groups and the
    period.

    ``steps`` must not be counted.  The SQL fails if a sum of integers exceeds a BIGINT.
    """
    groups = [steps.column(variable) for variable in formula.groups]
    names = [f"g{number}" for number in range(1, len(groups) + 1)]
    item = term(formula.item, lambda variable: steps.column(variable), dialect)
    heads = [f"{column} AS {name}" for column, name in zip(groups, names, strict=True)]
    rows = f"SELECT {listed(heads, f'{item} AS x', PERIOD)} FROM {steps.source} AS given WHERE {item} IS NOT NULL"
    if steps.points:
        measured = f"SELECT {listed(names, f'{_measure(formula)} AS y', PERIOD)} FROM ({rows}) AS rows_of GROUP BY "
        measured += listed(names, PERIOD)
    elif formula.function in ("CNT", "SUM", "AVG") and _exact(formula):
        measured = _running(formula, rows, names)
    else:
        measured = _recomputed(formula, rows, names)
    swept = [f"{name} AS v{number}" for number, name in enumerate(names, 2)]
    return f"SELECT {listed('y AS v1', swept, PERIOD)} FROM ({measured}) AS measured"


def of_nothing(formula: Aggregate) -> str:
    """Return SQL for the value that MonPoly gives to an aggregation without groups if its formula has no answers."""
    function, type = formula.function, formula.output.type
    if function in ("MIN", "MAX") and type == DOUBLE:
        return f"CAST('{'' if function == 'MIN' else '-'}Infinity' AS DOUBLE)"
    return f"CAST({literal(Literal('', STRING))} AS STRING)" if type == STRING else f"CAST(0 AS {spelled(type)})"


def _exact(formula: Aggregate) -> bool:
    return formula.function == "CNT" or formula.item.type.name in INTEGRAL


def _measure(formula: Aggregate, item: str = "x") -> str:
    type = spelled(formula.output.type)
    match formula.function:
        case "CNT":
            return f"CAST(COUNT(*) AS {type})"
        case "MIN" | "MAX" as function:
            return f"{function}({item})"
        case "MED":
            return f"CAST(MEDIAN(CAST({item} AS DOUBLE)) AS {type})"
        case "SUM":
            return f"CAST({_total(formula, item)} AS {type})"
        case "AVG":
            return f"CAST(CAST({_total(formula, item)} AS DOUBLE) / COUNT({item}) AS {type})"


def _total(formula: Aggregate, item: str) -> str:
    if _exact(formula):
        return f"SUM(CAST({item} AS {_WIDE}))"
    return f"AGGREGATE(ARRAY_SORT(COLLECT_LIST({item})), CAST(0 AS DOUBLE), (a, b) -> a + b)"


def _running(formula: Aggregate, rows: str, names: list[str]) -> str:
    """A running sum adds a value at the start of its period and subtracts the value at the end."""
    value = f"CAST({'0' if formula.function == 'CNT' else 'COALESCE(x, 0)'} AS {_WIDE})"
    sides = "CROSS JOIN (SELECT 0 AS side UNION ALL SELECT 1 AS side) AS sides"
    bound = "CASE WHEN side = 0 THEN from_tp ELSE to_tp END AS tp"
    one, other = (
        "CASE WHEN side = 0 THEN 1 ELSE -1 END AS d",
        f"CASE WHEN side = 0 THEN {value} ELSE -{value} END AS t",
    )
    events = f"SELECT {listed(names, bound, one, other)} FROM ({rows}) AS given {sides}"
    at_once = f"SELECT {listed(names, 'tp', 'SUM(d) AS d', 'SUM(t) AS t')} FROM ({events}) AS events "
    at_once += f"GROUP BY {listed(names, 'tp')}"
    window = over(names, "tp")
    sums = (f"SUM(d) {window} AS n", f"SUM(t) {window} AS total", "tp AS from_tp", f"LEAD(tp) {window} AS to_tp")
    swept = f"SELECT {listed(names, sums)} FROM ({at_once}) AS at_once"
    type = spelled(formula.output.type)
    measure = {
        "CNT": f"CAST(n AS {type})",
        "SUM": f"CAST(total AS {type})",
        "AVG": f"CAST(CAST(total AS DOUBLE) / n AS {type})",
    }[formula.function]
    return f"SELECT {listed(names, f'{measure} AS y', PERIOD)} FROM ({swept}) AS swept WHERE n > 0"


def _recomputed(formula: Aggregate, rows: str, names: list[str]) -> str:
    cuts = f"SELECT DISTINCT {listed(names, 'tp')} FROM ({bounds(rows, names, '1')}) AS bounds"
    following = f"LEAD(tp) {over(names, 'tp')} AS next"
    stretches = f"SELECT {listed(names, 'tp', following)} FROM ({cuts}) AS cuts"
    met = conjunction([*(f"f.{name} = r.{name}" for name in names), "r.from_tp <= f.tp", "f.tp < r.to_tp"])
    own = [f"f.{name}" for name in names]
    heads = listed(own, f"{_measure(formula, 'r.x')} AS y", "f.tp AS from_tp", "f.next AS to_tp")
    return (
        f"SELECT {heads} FROM ({stretches}) AS f JOIN ({rows}) AS r ON {met} GROUP BY {listed(own, 'f.tp', 'f.next')}"
    )


def at_all_time_points(formula: Aggregate, steps: Steps, extent: Extent) -> str:
    """Return SQL for an aggregation without groups at all time points of the batch.

    ``steps`` contains the values at those time points that have an answer.
    """
    there = Steps(steps.source, ())
    nothing = f"SELECT {of_nothing(formula)} AS v1, from_tp, to_tp FROM ({gaps(there, extent)}) AS gaps"
    return f"SELECT {listed(columns_of(1), PERIOD)} FROM {steps.source} AS given UNION ALL {nothing}"
