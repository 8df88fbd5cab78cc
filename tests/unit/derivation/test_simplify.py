"""What the order of time decides, and what it does not."""

from __future__ import annotations

import pytest

from netnews import ANNOUNCEMENTS, MSGS
from weft.algebra.relation import (
    FALSE,
    TRUE,
    Exists,
    NotExists,
    Plain,
    Predicate,
    Scan,
    Select,
    conjunction,
    disjunction,
)
from weft.algebra.scalar import Call, Literal, Param, Scalar, call, minus, plus
from weft.algebra.schema import INTERVAL
from weft.derivation.simplify import difference, simplify, starts_of

M = Scan(MSGS, "m")
A = Scan(ANNOUNCEMENTS, "a")
TS, DATE = M.ref("ts"), M.ref("date")
FIVE = Literal(5, INTERVAL)
LATER, EARLIER, SAME = Param("p1", INTERVAL, 1), Param("p2", INTERVAL, -1), Param("p3", INTERVAL, 0)
UNKNOWN = Param("p4", INTERVAL)
DAYS: Scalar = Call("*", (Literal(1, INTERVAL), A.ref("days")), INTERVAL)


@pytest.mark.parametrize(
    ("left", "right", "bounds"),
    [
        (TS, plus(TS, FIVE), (5, 5)),
        (plus(TS, FIVE), TS, (-5, -5)),
        (TS, minus(TS, FIVE), (-5, -5)),
        (TS, plus(TS, LATER), (1, None)),
        (TS, plus(TS, EARLIER), (None, -1)),
        (TS, plus(TS, SAME), (0, 0)),
        (plus(TS, LATER), TS, (None, -1)),
        (plus(TS, LATER), plus(TS, LATER), (0, 0)),
        (TS, plus(plus(TS, LATER), FIVE), (6, None)),
        (TS, plus(plus(TS, LATER), EARLIER), (None, None)),
        (TS, plus(TS, UNKNOWN), None),
        (TS, DATE, None),
        (TS, plus(TS, DAYS), None),
    ],
)
def test_difference(left: Scalar, right: Scalar, bounds: tuple[int | None, int | None] | None) -> None:
    assert difference(left, right) == bounds


@pytest.mark.parametrize(
    ("operator", "left", "right", "simplified"),
    [
        ("<=", TS, TS, TRUE),
        ("<", TS, TS, FALSE),
        ("<=", TS, plus(TS, LATER), TRUE),
        ("<=", plus(TS, LATER), TS, FALSE),
        ("<", TS, plus(TS, SAME), FALSE),
        ("<=", DATE, plus(DATE, FIVE), Plain(call("is not null", DATE))),
        ("<", plus(DATE, FIVE), DATE, FALSE),
    ],
)
def test_comparisons_of_one_base_are_decided(operator: str, left: Scalar, right: Scalar, simplified: Predicate) -> None:
    assert simplify(Plain(call(operator, left, right)), starts_of([M])) == simplified


@pytest.mark.parametrize("other", [plus(TS, UNKNOWN), DATE, plus(TS, EARLIER)])
def test_what_the_order_of_time_does_not_decide_stays(other: Scalar) -> None:
    asked = Plain(call("<=", plus(TS, EARLIER), other))
    expected = TRUE if other == plus(TS, EARLIER) else asked
    assert simplify(asked, starts_of([M])) == expected


def test_an_interval_of_a_row_can_be_null_and_is_asked_for() -> None:
    """a.ts + days < a.ts + days + 1 is not true where days is NULL."""
    start = A.ref("ts")
    asked = Plain(call("<", plus(start, DAYS), plus(plus(start, DAYS), FIVE)))
    kept = simplify(asked, starts_of([A]))
    assert kept == conjunction(
        Plain(call("is not null", plus(start, DAYS))), Plain(call("is not null", plus(plus(start, DAYS), FIVE)))
    )


def test_a_contradiction_is_never_true() -> None:
    asked = conjunction(Plain(call("<", TS, DATE)), Plain(call("<=", DATE, TS)))
    assert simplify(asked, frozenset()) == FALSE
    around = (Plain(call(">", DATE, TS)), Plain(call(">=", A.ref("ts"), DATE)), Plain(call("<=", A.ref("ts"), TS)))
    assert simplify(conjunction(*around), frozenset()) == FALSE
    assert simplify(conjunction(*around[:2]), frozenset()) == conjunction(*around[:2])
    other = conjunction(Plain(call("<=", TS, DATE)), Plain(call("<=", DATE, TS)))
    assert simplify(other, frozenset()) == other


def test_a_body_that_can_have_no_row_decides_its_exists() -> None:
    never = Select(M, Plain(call("<", TS, TS)))
    assert simplify(Exists(never), frozenset()) == FALSE
    assert simplify(NotExists(never), frozenset()) == TRUE
    assert simplify(disjunction(Exists(never), Plain(call("=", TS, DATE))), frozenset()) == Plain(call("=", TS, DATE))


def test_a_body_without_a_condition_left_keeps_its_table() -> None:
    assert simplify(NotExists(Select(M, Plain(call("<=", TS, TS)))), frozenset()) == NotExists(M)
