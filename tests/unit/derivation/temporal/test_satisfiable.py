"""The test of satisfiability: what it proves, and that it never proves too much."""

from __future__ import annotations

import pytest

from temporal_drawn import TABLES, Drawn
from temporal_evaluator import Database
from weft.algebra.relation import Scan
from weft.algebra.scalar import REFRESHED, Call, ColumnRef, Literal, Now, PeriodOf, Scalar, call
from weft.algebra.schema import BOOLEAN, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP
from weft.derivation.temporal.judging import as_of_refresh, not_true
from weft.derivation.temporal.satisfiable import contradiction

A, B = ColumnRef("r", "a", INT), ColumnRef("r", "b", INT)
X, Y = ColumnRef("r", "x", DOUBLE), ColumnRef("r", "y", DOUBLE)
NAME = ColumnRef("r", "name", STRING)
START, END = (Call(name, (PeriodOf("r"),), TIMESTAMP) for name in ("period_start", "period_end"))
LENGTH = Call("period_length", (PeriodOf("r"),), INTERVAL)
LONG = call(">", LENGTH, Literal(5, INTERVAL))
INSIDE = call("period_contains", PeriodOf("r"), PeriodOf("s"))


def text(value: str) -> Literal:
    return Literal(value, STRING)


def number(value: int) -> Literal:
    return Literal(value, INT)


NEVER = {
    "a < b < a": call("and", call("<", A, B), call("<", B, A)),
    "1 < a < 2, whole": call("and", call("<", number(1), A), call("<", A, number(2))),
    "two names": call("and", call("=", NAME, text("x")), call("=", NAME, text("y"))),
    "names out of order": call("and", call("<", NAME, text("x")), call(">", NAME, text("y"))),
    "true and not true": call("and", call("like", NAME, text("x%")), call("not", call("like", NAME, text("x%")))),
    "a = b <> a": call("and", call("=", A, B), call("<>", A, B)),
    "null and compared": call("and", call("is null", A), call("<", A, B)),
    "x < y <= x": call("and", call("<", X, Y), call("<=", Y, X)),
    "a + 2 < a + 1": call("<", Call("+", (A, number(2)), INT), Call("+", (A, number(1)), INT)),
    "ended at t, not now": call("and", as_of_refresh(call("<", END, Now())), not_true(call("<", END, Now()))),
    "long at t, not now": call("and", as_of_refresh(LONG), not_true(LONG)),
    "due at t, not now": call("and", call(">=", REFRESHED, A), not_true(call(">=", Now(), A)), call(">", A, number(0))),
    "contains now, not at t": call("and", INSIDE, not_true(as_of_refresh(INSIDE))),
    "contains at t, not now": call("and", as_of_refresh(INSIDE), not_true(INSIDE)),
    "starts after now": call(">", START, Now()),
    "each alternative": call("and", call("or", call("<", A, B), call("<", A, B)), call(">", A, B)),
    "false": Literal(False, BOOLEAN),
}
PERHAPS = {
    "a < b": call("<", A, B),
    "1 < x < 2": call("and", call("<", Literal(1, DOUBLE), X), call("<", X, Literal(2, DOUBLE))),
    "not less, not greater": call("and", not_true(call("<", A, B)), not_true(call(">", A, B))),
    "unknown": call("and", not_true(call("<", A, B)), not_true(call(">=", A, B))),
    "long now, not at t": call("and", LONG, not_true(as_of_refresh(LONG))),
    "one alternative": call("and", call("or", call("<", A, B), call("=", A, B)), call(">=", A, B)),
    "a sum of rounded numbers": call(">=", X, Call("+", (X, Literal(1, INT)), DOUBLE)),
}


@pytest.mark.parametrize("name", NEVER)
def test_proved(name: str) -> None:
    assert contradiction(NEVER[name]) is not None


@pytest.mark.parametrize("name", PERHAPS)
def test_not_proved(name: str) -> None:
    assert contradiction(PERHAPS[name]) is None


def test_many_alternatives_are_left_alone() -> None:
    never: Scalar = call("and", call("<", A, B), call("<", B, A))
    each = [call("or", call("=", A, number(n)), call("=", B, number(n))) for n in range(12)]
    assert contradiction(call("and", never, *each)) is None


def test_proved_conditions_never_hold() -> None:
    """Random predicates at two instants, over random tuples: whatever is true of one is not refuted."""
    refuted = held = 0
    for seed in range(1_500):
        drawn = Drawn(seed)
        base = Scan(TABLES[0], "r")
        predicate = drawn._condition((base,), 2)
        other = as_of_refresh(drawn._condition((base,), 1))
        both = call("and", predicate, drawn.chance.choice((other, not_true(as_of_refresh(predicate)))))
        why = contradiction(both)
        refuted += why is not None
        then, now = 5, drawn.chance.randint(6, 12)
        data = Database(now, {}, params={"refreshed": then})
        names = (ColumnRef("r", "k", INT), ColumnRef("r", "v", INT))
        for _ in range(12):
            for row, at in drawn.rows(then).items():
                periods = at | frozenset(range(then + 1, now + 1)) if then in at else at
                true = data.scalar(both, dict(zip(names, row, strict=True)) | {"r": periods}) is True
                held += true
                assert not (true and why is not None), (seed, both, why)
    assert refuted > 100 < held
