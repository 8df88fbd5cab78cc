"""Aggregations at each time point, as SQL (``points`` tells what relations over time points are).

Counts and sums of integers over periods are running sums over their bounds; what cannot be taken back (MIN, MAX, MED,
sums of DOUBLE) is computed anew for each stretch between two bounds.  Sums of DOUBLE are from the least to the
greatest: the same numbers give the same sum in whatever order they came.
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
"""What integers are summed as: their sum may not fit."""


def aggregated(formula: Aggregate, steps: Steps, extent: Extent, dialect: Dialect) -> str:
    """The output and the groups, in that order: ``v1, v2 …, from_tp, to_tp``; ``steps`` are not counted.

    A sum of integers that is no BIGINT fails.
    """
    groups = [steps.column(variable) for variable in formula.groups]
    names = [f"g{number}" for number in range(1, len(groups) + 1)]
    item = term(formula.item, lambda variable: steps.column(variable), dialect)
    heads = [f"{column} AS {name}" for column, name in zip(groups, names, strict=True)]
    rows = f"SELECT {listed(heads, f'{item} AS x', PERIOD)} FROM {steps.source} AS given WHERE {item} IS NOT NULL"
    if steps.points:
        found = f"SELECT {listed(names, f'{_measure(formula)} AS y', PERIOD)} FROM ({rows}) AS rows_of GROUP BY "
        found += listed(names, PERIOD)
    elif formula.function in ("CNT", "SUM", "AVG") and _exact(formula):
        found = _running(formula, rows, names)
    else:
        found = _anew(formula, rows, names)
    swept = [f"{name} AS v{number}" for number, name in enumerate(names, 2)]
    return f"SELECT {listed('y AS v1', swept, PERIOD)} FROM ({found}) AS measured"


def of_nothing(formula: Aggregate) -> str:
    """What an aggregation without groups gives where there are no answers, as MonPoly has it."""
    function, type = formula.function, formula.output.type
    if function in ("MIN", "MAX") and type == DOUBLE:
        return f"CAST('{'' if function == 'MIN' else '-'}Infinity' AS DOUBLE)"
    return f"CAST({literal(Literal('', STRING))} AS STRING)" if type == STRING else f"CAST(0 AS {spelled(type)})"


def _exact(formula: Aggregate) -> bool:
    return formula.function == "CNT" or formula.item.type.name in INTEGRAL


def _measure(formula: Aggregate, item: str = "x") -> str:
    """The aggregate of a group's rows."""
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
    """Counts and sums of integers: what begins is added, what ends is taken back."""
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


def _anew(formula: Aggregate, rows: str, names: list[str]) -> str:
    """Each stretch's measure from the rows that hold in it."""
    cuts = f"SELECT DISTINCT {listed(names, 'tp')} FROM ({bounds(rows, names, '1')}) AS bounds"
    following = f"LEAD(tp) {over(names, 'tp')} AS next"
    stretches = f"SELECT {listed(names, 'tp', following)} FROM ({cuts}) AS cuts"
    met = conjunction([*(f"f.{name} = r.{name}" for name in names), "r.from_tp <= f.tp", "f.tp < r.to_tp"])
    own = [f"f.{name}" for name in names]
    heads = listed(own, f"{_measure(formula, 'r.x')} AS y", "f.tp AS from_tp", "f.next AS to_tp")
    return (
        f"SELECT {heads} FROM ({stretches}) AS f JOIN ({rows}) AS r ON {met} GROUP BY {listed(own, 'f.tp', 'f.next')}"
    )


def at_all_time_points(formula: Aggregate, found: Steps, extent: Extent) -> str:
    """An aggregation without groups, with what it gives where there are no answers."""
    there = Steps(found.source, ())
    nothing = f"SELECT {of_nothing(formula)} AS v1, from_tp, to_tp FROM ({gaps(there, extent)}) AS gaps"
    return f"SELECT {listed(columns_of(1), PERIOD)} FROM {found.source} AS given UNION ALL {nothing}"
