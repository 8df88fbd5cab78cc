"""Laws 1 and 2 on subqueries in GROUP BY, in aggregates, and after IN with several columns.

DuckDB evaluates the texts at each instant.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from oracle.analytic_engine import Prepared
from oracle.derived import schemas
from oracle.expressions import LAST
from oracle.histories import Case, history
from oracle.laws import Trial, any_partition, from_now, union_of_starts
from oracle.spelling import Text
from weft.algebra.relation import StateSchema
from weft.algebra.traverse import scans
from weft.derivation.incremental import changes
from weft.derivation.size import size
from weft.derivation.stateful import states
from weft.planning.plan import planned
from weft.planning.state_sql import inputs
from weft.sql.lower.query import bind

FOUND: Final = "EXISTS (SELECT 1 FROM r AS b WHERE b.k = a.n)"
IN: Final = "a.n IN (SELECT b.n FROM r AS b)"
TEXTS: Final = (
    f"SELECT a.k, COUNT(*) FILTER (WHERE {FOUND}) AS c FROM m AS a GROUP BY a.k",
    f"SELECT {FOUND} AS e, COUNT(*) AS c FROM m AS a GROUP BY {FOUND}",
    f"SELECT a.x, {FOUND} AS e, COUNT(*) AS c FROM m AS a GROUP BY GROUPING SETS ((a.x, {FOUND}), (a.x))",
    f"SELECT CASE WHEN {FOUND} THEN 'found' ELSE 'open' END AS e, MAX(a.n) AS c FROM m AS a GROUP BY ALL",
    f"SELECT a.k, SUM(CASE WHEN {FOUND} THEN 1 ELSE 0 END) AS c FROM m AS a LEFT JOIN u ON u.k = a.k GROUP BY a.k",
    "SELECT a.k, MAX((SELECT COUNT(*) FROM r AS b WHERE b.k = a.n)) AS c FROM m AS a GROUP BY a.k",
    "SELECT d.v, COUNT(*) AS c FROM (SELECT (SELECT COUNT(*) FROM r AS b WHERE b.k = a.n) AS v FROM m AS a) AS d "
    "GROUP BY d.v",
    "SELECT a.k, a.n FROM m AS a WHERE (a.k, a.n) IN (SELECT b.k, MAX(b.n) FROM r AS b GROUP BY b.k)",
    "SELECT a.k FROM m AS a WHERE (a.k, a.x) IN (SELECT b.k, b.x FROM r AS b WHERE b.f IS NULL OR b.n < 2)",
    f"SELECT a.k, {FOUND} AS e, COUNT(*) AS c FROM m AS a GROUP BY a.k, e HAVING NOT e OR COUNT(*) > 1",
    f"SELECT a.k, {IN} AS e FROM m AS a",
    f"SELECT a.k, ({IN}) IS NULL AS e, a.n IN (SELECT b.k FROM u AS b WHERE b.k IS NOT NULL) AS f FROM m AS a",
    f"SELECT {IN} AS e, COUNT(*) AS c FROM m AS a GROUP BY {IN} HAVING NOT {IN} OR COUNT(*) > 1",
    "SELECT a.k, CASE WHEN a.d < NOW() THEN 'late' WHEN a.n = 1 THEN a.x END AS e FROM m AS a",
    "SELECT a.k, a.d < NOW() AND a.n > 0 AS e FROM m AS a",
    "SELECT a.k, MAX(a.d) <= NOW() AS e, COUNT(*) AS c FROM m AS a GROUP BY a.k",
    "SELECT d.e, COUNT(*) AS c FROM (SELECT CASE WHEN a.d <= NOW() THEN 1 ELSE 0 END AS e FROM m AS a) AS d GROUP BY 1",
    "SELECT a.k FROM m AS a WHERE (SELECT COUNT(*) FILTER (WHERE b.d <= NOW()) FROM r AS b WHERE b.k = a.n) < 2",
    "SELECT a.k, (SELECT SUM(CASE WHEN b.d > NOW() THEN b.n ELSE 1 END) FROM r AS b WHERE b.k = a.n) AS c FROM m AS a",
    "SELECT d.value_2, COUNT_IF(d.ts > NOW() - INTERVAL 2 MICROSECONDS) AS c FROM (SELECT a.k AS value_2, a.ts FROM m "
    "AS a) AS d GROUP BY d.value_2",
    "SELECT d.k, d.value_3, COUNT_IF(d.ts > NOW() - INTERVAL 2 MICROSECONDS) AS c, SUM(d.VALUE_3_2) AS s FROM (SELECT "
    "a.x AS k, a.k AS value_3, a.n AS VALUE_3_2, a.ts FROM m AS a) AS d GROUP BY d.k, d.value_3",
)


LATERAL: Final = (
    "JOIN LATERAL (SELECT b.n AS y FROM r AS b WHERE b.k = a.k UNION ALL SELECT c.n FROM u AS c WHERE c.k = a.k) AS"
)
DISTINCT: Final = LATERAL.replace("UNION ALL", "UNION")


def _counts(number: int) -> list[str]:
    """Return correlated counts that differ in a constant."""
    return [f"(SELECT COUNT(*) FROM r AS b WHERE b.k = a.k AND b.n >= {place - 4})" for place in range(number)]


MANY: Final = (
    f"SELECT {IN} AS e, a.n IN (SELECT b.k FROM u AS b) AS f, COUNT(*) AS c FROM m AS a "
    f"GROUP BY {IN}, a.n IN (SELECT b.k FROM u AS b)",
    "SELECT a.k, a.n FROM m AS a WHERE " + " AND ".join(f"{count} < 3" for count in _counts(4)),
    "SELECT a.k, a.n FROM m AS a WHERE a.d <= NOW() AND a.x = 'a' AND " + " AND ".join(f"{c} < 2" for c in _counts(4)),
    "SELECT a.k, a.n FROM m AS a WHERE " + " AND ".join(f"{count} < 4" for count in _counts(8)),
    "SELECT a.k, " + ", ".join(f"{count} AS c{number}" for number, count in enumerate(_counts(8))) + " FROM m AS a",
    "SELECT d.k, COUNT(*) AS c FROM (SELECT a.k, " + " + ".join(_counts(5)) + " AS v FROM m AS a) AS d GROUP BY d.k",
    "SELECT c.k FROM u AS c WHERE NOT EXISTS (SELECT 1 FROM m AS a WHERE a.k = c.k AND "
    + " + ".join(_counts(4))
    + " > 2)",
    "SELECT a.k, a.n FROM m AS a WHERE " + " + ".join(_counts(4)) + " < 4 AND NOT EXISTS (SELECT 1 FROM u AS c WHERE "
    "c.k = a.k AND c.n > a.n)",
    "SELECT a.k, c.n FROM m AS a LEFT JOIN u AS c ON c.k = a.k WHERE " + " + ".join(_counts(4)) + " <> 1",
    f"SELECT a.k, d0.y, d1.y AS y1, d2.y AS y2, d3.y AS y3 FROM m AS a {DISTINCT} d0 ON TRUE {DISTINCT} d1 ON TRUE "
    f"{DISTINCT} d2 ON TRUE {DISTINCT} d3 ON TRUE",
    "SELECT a.k, d.y, " + " + ".join(_counts(3)) + f" AS v FROM m AS a {DISTINCT} d ON TRUE",
    f"SELECT a.k FROM m AS a {LATERAL} d ON TRUE {LATERAL} e ON TRUE WHERE d.y = e.y AND "
    + " + ".join(_counts(3))
    + " < 4",
    "SELECT a.k, " + " + ".join(_counts(2)) + f" AS v FROM m AS a {LATERAL} d ON d.y = a.n {LATERAL} e ON e.y = d.y",
    "SELECT a.k, d.y, " + " + ".join(_counts(3)) + f" AS v FROM m AS a {LATERAL} d ON d.y < 3 WHERE a.n < 3",
    f"SELECT a.k, a.d < NOW() AS e, d.y, {_counts(1)[0]} AS v FROM m AS a {LATERAL} d ON d.y = a.n",
    "SELECT a.k, a.d < NOW() AS e, a.d + INTERVAL 2 MICROSECONDS < NOW() AS f FROM m AS a",
    f"SELECT a.k, a.d < NOW() AS e, a.ts + INTERVAL 2 MICROSECONDS < NOW() AS f, {_counts(1)[0]} AS c FROM m AS a",
)
"""Texts with so many correlated subqueries that a tick computes a part of them as states."""
ENOUGH: Final = 12
"""Histories that are drawn until a query has answers in one."""


@pytest.mark.parametrize("text", TEXTS)
def test_a_subquery_has_the_value_of_its_text_at_each_instant(text: str) -> None:
    """The laws hold over the first history in which the query has answers."""
    number = next(number for number in range(1, ENOUGH) if _laws_hold(text, number, ()))
    assert _laws_hold(text, number, (any_partition, (union_of_starts, from_now)[len(text) % 2]))


@pytest.mark.parametrize("text", MANY)
def test_many_correlated_subqueries_have_the_values_of_their_texts(text: str) -> None:
    assert _laws_hold(text, 1, (any_partition,))


@pytest.mark.slow
@pytest.mark.parametrize("text", (*TEXTS, *MANY))
def test_subqueries_over_many_histories(text: str) -> None:
    assert sum(_laws_hold(text, number, (union_of_starts, any_partition, from_now)) for number in range(22))


def test_the_plan_of_many_correlated_subqueries_grows_linearly() -> None:
    sizes = [_tables_read(f"SELECT a.k FROM m AS a WHERE {' + '.join(_counts(number))} < 4") for number in (4, 6, 8)]
    assert sizes[2] - sizes[1] <= sizes[1] - sizes[0] <= 200


def _laws_hold(text: str, number: int, laws: Sequence[Callable[[Trial], None]]) -> bool:
    """Check the laws over one history.  Return whether the query has answers there."""
    chance, engine = random.Random(number), Prepared()
    given = history(chance)
    while not all(given.rows[name] for name in ("m", "r", "u")):
        given = history(chance)
    engine.load(given.rows)
    cuts = tuple(sorted(chance.sample(range(1, LAST + 1), 2)))
    trial = Trial(Case(Text(text, text), given, cuts, number), engine)
    for law in laws:
        law(trial)
    return bool(trial.reference.first())


def _tables_read(text: str) -> int:
    """Return the number of tables in the branches of a query and of its states."""
    query, found = planned(bind(text, schemas(history(random.Random(0))))).standing, dict[StateSchema, int]()
    waiting = list(states(query))
    while waiting:
        state = waiting.pop()
        inner, columns, keys = inputs(state.operator)
        found[state] = sum(1 for event in changes(inner, columns[:keys]) for _ in scans(event.relation))
        waiting += (each for each in states(state.operator) if each not in found)
    return size(query).sources + sum(found.values())
