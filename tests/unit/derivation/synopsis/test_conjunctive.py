"""Conjunctive queries as nests of ◇ (Toman 2007, section 4.2): which orders there are, what is kept of each, refusals.

That the nests mean what the SQL means is held by ``tests/oracle/test_conjunctive.py``.
"""

from __future__ import annotations

import pytest

from weft.algebra.formula import ALWAYS, And, Atom, Exists, Formula, Interval, Once, Previous, Variable, subformulas
from weft.algebra.schema import BIGINT, INT, STRING, TIMESTAMP, Column, TableSchema
from weft.derivation.normalize import normalize
from weft.derivation.synopsis.conjunctive import Nest, nests
from weft.derivation.synopsis.distances import Distance, Distances, allowed_orders, orders
from weft.errors import SynopsisError
from weft.sql.lower.query import bind

HOUR, DAY = 3_600_000_000, 86_400_000_000


def _table(number: int, name: str) -> TableSchema:
    fields = [("ts", TIMESTAMP), ("a", BIGINT), ("b", STRING), ("i", INT)]
    return TableSchema(number, name, tuple(Column(n, *field) for n, field in enumerate(fields, 1)), "ts")


TABLES = {name: _table(number, name) for number, name in enumerate(["r", "s", "u", "v", "w", "x"], 1)}
A, A2, B = Variable("a", BIGINT), Variable("a_2", BIGINT), Variable("b", STRING)


def _nests(text: str) -> tuple[Nest, ...]:
    return nests(normalize(bind(text, TABLES)))


def _one(text: str) -> Nest:
    (found,) = _nests(text)
    return found


def _past(formula: Formula) -> Formula:
    return Previous(ALWAYS, Once(ALWAYS, formula, "first"))


@pytest.mark.parametrize(("number", "expected"), [(0, 1), (1, 1), (2, 3), (3, 13), (4, 75), (5, 541)])
def test_every_order_is_there_once(number: int, expected: int) -> None:
    found = list(orders([f"t{n}" for n in range(number)]))
    assert len(found) == len(set(found)) == expected


def test_orders_that_the_distances_exclude_are_left_out() -> None:
    distances = Distances()
    distances.demand("s", "r", Distance(1, None))
    assert allowed_orders(["r", "s"], distances) == ((("s",), ("r",)),)
    distances.demand("s", "r", Distance(None, 0))
    assert allowed_orders(["r", "s"], distances) == ()


def test_distances_between_three_rows_contradict_each_other() -> None:
    distances = Distances()
    distances.demand("s", "r", Distance(2, None))
    distances.demand("u", "s", Distance(2, None))
    distances.demand("u", "r", Distance(None, 4))
    assert allowed_orders(["r", "s", "u"], distances) == ((("u",), ("s",), ("r",)),)
    distances.demand("u", "r", Distance(None, 3))
    assert allowed_orders(["r", "s", "u"], distances) == ()


def test_the_past_is_stored_by_the_values_that_matter() -> None:
    found = _one("SELECT s.b FROM r, s WHERE r.ts < s.ts AND r.a = s.a AND r.b LIKE 'x%'")
    assert found.formula == Exists((A,), And(Atom("s", (A, B)), _past(Atom("r", (A,)))))
    assert [output.name for output in found.outputs] == ["b"]
    assert [(each.alias, [output.name for output in each.outputs]) for each in found.inputs] == [
        ("r", ["a"]),
        ("s", ["a", "b"]),
    ]


def test_an_interval_between_neighbours_is_that_of_the_diamond() -> None:
    found = _one("SELECT s.a FROM r, s WHERE r.ts < s.ts AND r.a = s.a AND s.ts - r.ts <= INTERVAL 1 DAY")
    assert found.formula == And(Atom("s", (A,)), Once(Interval(1, DAY), Atom("r", (A,)), "first"))


@pytest.mark.parametrize(
    ("condition", "interval"),
    [
        ("s.ts >= r.ts + INTERVAL 1 HOUR", Interval(HOUR, None)),
        ("s.ts > r.ts + INTERVAL 1 HOUR", Interval(HOUR + 1, None)),
        ("r.ts + INTERVAL 1 HOUR > s.ts AND r.ts < s.ts", Interval(1, HOUR - 1)),
        ("r.ts = s.ts - INTERVAL 1 HOUR", Interval(HOUR, HOUR)),
        ("INTERVAL 1 HOUR >= s.ts - r.ts AND s.ts > r.ts", Interval(1, HOUR)),
        ("s.ts - INTERVAL 2 HOURS BETWEEN r.ts AND r.ts + INTERVAL 1 HOUR", Interval(2 * HOUR, 3 * HOUR)),
    ],
)
def test_distances_are_read_in_every_spelling(condition: str, interval: Interval) -> None:
    found = _one(f"SELECT s.a FROM r, s WHERE r.a = s.a AND {condition}")
    assert found.orders == ((("s",), ("r",)),)
    assert [each.interval for each in subformulas(found.formula) if isinstance(each, Once)] == [interval]


def test_instants_that_differ_either_way_are_two_orders() -> None:
    assert len(_one("SELECT s.a FROM r, s WHERE r.a = s.a AND r.ts <> s.ts").orders) == 2
    assert len(_one("SELECT s.a FROM r, s WHERE r.a = s.a").orders) == 3
    assert len(_one("SELECT s.a FROM r, s WHERE r.a = s.a AND r.ts = s.ts").orders) == 1


def test_a_union_is_several_nests_and_a_derived_table_is_none() -> None:
    first, second = _nests("SELECT r.a FROM r UNION SELECT s.a + 1 FROM s, u WHERE s.ts < u.ts AND s.b = u.b")
    assert first.formula == Atom("r", (A,))
    assert len(second.orders) == 1
    nested = _one("SELECT d.a FROM (SELECT r.a, s.ts FROM r, s WHERE r.ts < s.ts) AS d, u WHERE u.ts > d.ts")
    assert nested.orders == ((("u",), ("s",), ("r",)),)


def test_an_interval_over_a_third_table_that_the_steps_bring_about_is_no_more_than_they() -> None:
    steps = "r.ts < s.ts AND s.ts < u.ts AND s.ts <= r.ts + INTERVAL 1 HOUR AND u.ts <= s.ts + INTERVAL 1 HOUR"
    assert len(_one(f"SELECT u.a FROM r, s, u WHERE {steps} AND u.ts <= r.ts + INTERVAL 2 HOURS").orders) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT r.ts FROM r", "the column ts shows when a row arrived"),
        (
            "SELECT r.a FROM r, s, u WHERE r.ts < s.ts AND s.ts < u.ts AND u.ts < r.ts + INTERVAL 1 DAY",
            "limits the interval between u and r",
        ),
        ("SELECT r.a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)", "the query has a subquery"),
        ("SELECT r.a FROM r WHERE r.ts < NOW() - INTERVAL 1 DAY", "the query uses NOW"),
        ("SELECT r.a FROM r, s WHERE r.ts < s.ts AND r.ts > s.ts", "the query never has an answer"),
        ("SELECT r.a FROM r, s WHERE r.a + 1 = s.a", "the query compares computed values"),
        ("SELECT r.a FROM r, s WHERE r.a = s.i", "the query compares a, a BIGINT, with i, a INT"),
        ("SELECT r.a FROM r, s WHERE r.a = s.a OR r.b = s.b", "the query has an OR over several tables"),
        ("SELECT r.a FROM r, s, u, v, w, x", "the query joins 6 tables, but at most 5"),
        ("SELECT d.a FROM (SELECT DISTINCT a FROM r) AS d, s", "the query reads relations other than tables"),
        ("SELECT v.n FROM (VALUES (1)) AS v(n)", "the query reads relations other than tables"),
        ("SELECT r.a FROM r, s WHERE r.ts <> s.ts + INTERVAL 1 DAY", "the query excludes a distance between two rows"),
    ],
)
def test_other_queries_than_conjunctive_ones_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(SynopsisError, match=why):
        _nests(text)
