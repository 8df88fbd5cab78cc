"""Formulas taken through batches of states by hand-made logs; the oracle's tests draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from weft.algebra.formula import (
    ALWAYS,
    Aggregate,
    And,
    Atom,
    Comparison,
    Computed,
    Constant,
    Counting,
    Defined,
    Definition,
    Distinct,
    Exists,
    Fixpoint,
    Formula,
    Interval,
    Matches,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Truth,
    Variable,
)
from weft.algebra.schema import BIGINT, STRING
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.prepared import Semantics
from weft.errors import ExecutionError, Refused
from weft.execution.synopsis.batch import EMPTY, State, StateBatch
from weft.execution.synopsis.evaluating import evaluate

X, Y, Z = (Variable(name, BIGINT) for name in "xyz")
NAMES = ("tp", "c1", "c2")
P, Q = Atom("p", (X,)), Atom("q", (X,))
States = Sequence[tuple[int, Mapping[str, Sequence[tuple[int, ...]]]]]
"""The time of each state, and its rows by predicate."""


def batch(states: States, first: int) -> StateBatch:
    points = pa.table(
        {
            "tp": pa.array(range(first, first + len(states)), pa.int64()),
            "at": pa.array([at for at, _ in states], pa.int64()),
        }
    )
    found: dict[str, list[tuple[int, ...]]] = {}
    for tp, (_, rows) in enumerate(states, first):
        for predicate, given in rows.items():
            found.setdefault(predicate, []).extend((tp, *row) for row in given)
    events = {}
    for predicate, given in found.items():
        columns = zip(*given, strict=True)
        events[predicate] = pa.table(
            {name: pa.array(each, pa.int64()) for name, each in zip(NAMES, columns, strict=False)}
        )
    return StateBatch(points, events)


def along(formula: Formula, states: States, *sizes: int) -> tuple[list[tuple[int, ...]], State]:
    """The answers ``(tp, …)`` in batches of these sizes, and what is stored in the end."""
    plan, state, first, found = synopsis(formula, "set"), EMPTY, 0, []
    for size in sizes:
        state, answers = evaluate(plan, state, batch(states[first : first + size], first))
        found += [tuple(row.values()) for row in answers.to_pylist()]
        first += size
    return found, state


EVENTS: States = [
    (0, {"p": [(1,), (1,), (2,)]}),
    (10, {"q": [(1,)]}),
    (10, {}),
    (15, {"q": [(2,)], "p": [(2,)]}),
    (30, {"p": [(1,)]}),
]
CUTS = [(5,), (1, 1, 1, 1, 1), (2, 0, 3), (3, 2)]


@pytest.mark.parametrize("sizes", CUTS)
def test_an_equality_binds_and_a_constant_asks(sizes: tuple[int, ...]) -> None:
    next_one = Computed("+", (X, Constant(1, BIGINT)), BIGINT)
    assert along(And(P, Comparison("=", Y, next_one)), EVENTS, *sizes)[0] == [
        (0, 1, 2),
        (0, 2, 3),
        (3, 2, 3),
        (4, 1, 2),
    ]
    assert along(Atom("p", (Constant(2, BIGINT),)), EVENTS, *sizes)[0] == [(0,), (3,)]


@pytest.mark.parametrize("sizes", CUTS)
def test_previous_measures_the_distance_of_two_time_points(sizes: tuple[int, ...]) -> None:
    assert along(Previous(Interval(5, None), P), EVENTS, *sizes)[0] == [(1, 1), (1, 2), (4, 2)]
    assert along(Previous(Interval(0, 5), Q), EVENTS, *sizes)[0] == [(2, 1)]


@pytest.mark.parametrize("sizes", CUTS)
def test_once_keeps_what_its_window_can_reach(sizes: tuple[int, ...]) -> None:
    found, state = along(Once(Interval(0, 10), Q), EVENTS, *sizes)
    assert found == [(1, 1), (2, 1), (3, 1), (3, 2)]
    assert state.tuples == 0
    found, state = along(Once(Interval(10, None), P), EVENTS, *sizes)
    assert found == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2)]
    (rows,) = state.relations.values()
    assert sorted(map(tuple, map(dict.values, rows.to_pylist()))) == [(1, 0), (2, 0)]


@pytest.mark.parametrize("sizes", CUTS)
def test_a_window_away_from_now_skips_rows_that_are_too_near(sizes: tuple[int, ...]) -> None:
    assert along(Once(Interval(5, 10), P), EVENTS, *sizes)[0] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_window_away_from_now_is_stored_as_runs_of_instants_not_each_of_them() -> None:
    often = [(at, {"p": [(1,)]}) for at in range(100)]
    # Seen together from 30 after the first to 70 after the last; one that comes 100 later is seen by itself.
    log = [*often, (300, {"p": [(1,)]}), (302, {}), (305, {"p": [(1,)]}), (340, {})]
    for sizes in ((104,), (50, 50, 4), (1,) * 104):
        found, state = along(Once(Interval(30, 70), P), log, *sizes)
        assert [row[0] for row in found] == [*range(30, 100), 103]
        (rows,) = state.relations.values()
        assert rows.to_pylist() == [{"v1": 1, "instant": 300, "last": 305}]


@pytest.mark.parametrize("interval", [ALWAYS, Interval(0, 5), Interval(3, None), Interval(3, 5)])
@pytest.mark.parametrize("counting", ["any", "first"])
def test_previous_once_is_read_from_the_relation_of_once(interval: Interval, counting: Counting) -> None:
    log = [(0, {"p": [(1,)]}), (2, {"p": [(2,)]}), (5, {}), (5, {"p": [(1,), (1,)]}), (9, {}), (20, {})]
    formula = Previous(ALWAYS, Once(interval, P, counting))
    semantics = "set" if counting == "any" else "bag"
    assert len(synopsis(formula, semantics).stored) == 1
    apart = Previous(ALWAYS, And(Once(interval, P, counting), Truth(True)))
    assert len(synopsis(apart, semantics).stored) == 2
    wanted = [rows(apart, log, semantics, sizes) for sizes in ((6,), (1,) * 6)]
    assert [rows(formula, log, semantics, sizes) for sizes in ((6,), (2, 1, 3), (1,) * 6)] == [wanted[0]] * 3
    assert wanted[0] == wanted[1] != []


def rows(formula: Formula, states: States, semantics: Semantics, sizes: tuple[int, ...]) -> list[dict[str, int]]:
    plan, state, first = synopsis(formula, semantics), EMPTY, 0
    found: list[dict[str, int]] = []
    for size in sizes:
        state, answers = evaluate(plan, state, batch(states[first : first + size], first))
        found += answers.to_pylist()
        first += size
    return found


@pytest.mark.parametrize("sizes", CUTS)
def test_since_ends_where_its_left_side_does(sizes: tuple[int, ...]) -> None:
    found, state = along(Since(ALWAYS, Not(Q), P), EVENTS, *sizes)
    assert found == [(0, 1), (0, 2), (1, 2), (2, 2), (3, 2), (4, 1), (4, 2)]
    assert state.tuples == 2
    assert along(Since(ALWAYS, P, Q), EVENTS, *sizes)[0] == [(1, 1), (3, 2)]


@pytest.mark.parametrize("sizes", CUTS)
def test_aggregations_without_groups_speak_of_every_time_point(sizes: tuple[int, ...]) -> None:
    count = Aggregate(Y, "CNT", X, (), Once(ALWAYS, P))
    assert along(count, EVENTS, *sizes)[0] == [(tp, 2) for tp in range(5)]
    total = Aggregate(Y, "SUM", X, (), P)
    assert along(total, EVENTS, *sizes)[0] == [(0, 3), (1, 0), (2, 0), (3, 2), (4, 1)]


def test_formulas_that_differ_in_names_alone_are_stored_once() -> None:
    other = Once(ALWAYS, Atom("p", (Z,)))
    plan = synopsis(And(Once(ALWAYS, P), Exists((Z,), And(And(other, P), Comparison("<", X, Z)))), "set")
    assert len(plan.stored) == 1


def test_unbound_variables_are_refused() -> None:
    with pytest.raises(Refused, match="nothing binds y"):
        along(And(P, Comparison("<", X, Y)), EVENTS, 5)
    with pytest.raises(Refused, match=r"left of SINCE.*nothing binds y"):
        along(Since(ALWAYS, Atom("q", (Y,)), P), EVENTS, 5)
    with pytest.raises(Refused, match=r"after AND NOT.*nothing binds y"):
        along(And(P, Not(Atom("q", (Y,)))), EVENTS, 5)


def test_batches_that_do_not_follow_one_another_are_refused() -> None:
    plan = synopsis(P, "set")
    state, _ = evaluate(plan, EMPTY, batch(EVENTS[:2], 0))
    with pytest.raises(ExecutionError, match="begins at time point 3"):
        evaluate(plan, state, batch(EVENTS[3:], 3))
    with pytest.raises(ExecutionError, match="an earlier time than the previous"):
        evaluate(plan, state, batch([(5, {})], 2))


S = Atom("s", ())
DOUBLED = Or(Previous(ALWAYS, Defined("X", ())), Previous(ALWAYS, Defined("X", ())))
TWICE = Fixpoint((Definition("X", (), Or(Distinct(S), DOUBLED)),), "X", ())
"""µX.εs ∨ ▽X ∨ ▽X, the 2·X query of section 3.2."""


def counts(formula: Formula, states: States, *sizes: int) -> list[tuple[int, int]]:
    """The counts of a formula without variables, by time point, in batches of these sizes."""
    plan, state, first, found = synopsis(formula, "bag"), EMPTY, 0, []
    for size in sizes:
        state, answers = evaluate(plan, state, batch(states[first : first + size], first))
        found += [(row["tp"], int(row["n"])) for row in answers.to_pylist()]
        first += size
    return found


BITS: States = [(at, {"s": [()]} if bit == "1" else {}) for at, bit in enumerate("100111")]


@pytest.mark.parametrize("sizes", [(6,), (1, 2, 3), (1,) * 6])
def test_a_fixpoint_that_doubles_writes_the_history_into_its_count(sizes: tuple[int, ...]) -> None:
    assert counts(TWICE, BITS, *sizes) == [(0, 1), (1, 2), (2, 4), (3, 9), (4, 19), (5, 39)]


def test_counts_of_fixpoints_have_no_bound() -> None:
    states: States = [(at, {"s": [()]}) for at in range(200)]
    assert counts(TWICE, states, 100, 100)[-1] == (199, 2**200 - 1)


@pytest.mark.parametrize("sizes", [(6,), (1, 2, 3), (1,) * 6])
def test_once_counts_how_often_or_how_long_ago(sizes: tuple[int, ...]) -> None:
    assert counts(Once(ALWAYS, S, "first"), BITS, *sizes) == [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 4)]
    assert counts(Once(ALWAYS, S, "second"), BITS, *sizes) == [(0, 1), (1, 2), (2, 3), (3, 1), (4, 1), (5, 1)]


def test_a_fixpoint_that_is_a_since_is_computed_as_one() -> None:
    before = Previous(ALWAYS, Defined("X", (X,)))
    plan = synopsis(Fixpoint((Definition("X", (X,), And(Distinct(P), Or(Q, before))),), "X", (Y,)), "bag")
    p, q = Atom("p", (Y,)), Atom("q", (Y,))
    assert plan.formulas == (Since(ALWAYS, p, q, "first"),)


def test_a_count_beyond_bigint_is_refused_and_never_wraps() -> None:
    states: States = [(0, {"p": [(1,)] * 1_000})]
    formula: Formula = P
    for _ in range(6):
        formula = And(formula, P)
    with pytest.raises(ExecutionError, match="cannot be evaluated") as caught:
        counts(Exists((X,), formula), states, 1)
    assert caught.value.hint is not None and "DISTINCT" in caught.value.hint


def test_groups_of_a_match_bind_beside_a_fixpoint_as_elsewhere() -> None:
    text, user, host = (Variable(name, STRING) for name in ("text", "user", "host"))
    mail = Atom("mail", (text,))
    points = pa.table({"tp": [0, 1], "at": [0, 1]})
    given = StateBatch(points, {"mail": pa.table({"tp": [0, 1], "c1": ["ann@here", "nobody"]})})
    expected = [{"tp": 0, "c1": "ann@here", "c2": "ann", "c3": "here"}]
    before = Fixpoint((Definition("X", (text,), Or(mail, again_and_again(text))),), "X", (text,))
    for one in (mail, before):
        formula = And(one, Matches(text, "(.*)@(.*)", (user, host)))
        answers = evaluate(synopsis(formula, "set"), EMPTY, given)[1].to_pylist()
        assert answers == (expected if one == mail else [*expected, {**expected[0], "tp": 1}])


def again_and_again(text: Variable) -> Formula:
    """What is no since: X at the time point before, and at the one before that."""
    before = Previous(ALWAYS, Defined("X", (text,)))
    return Or(before, Previous(ALWAYS, before))
