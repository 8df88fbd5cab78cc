"""The two sets of rules: what each takes, and which variables a refused part leaves unbound."""

import pytest

from weft.algebra.formula import (
    ALWAYS,
    And,
    Comparison,
    Computed,
    Constant,
    Exists,
    Formula,
    Matches,
    Not,
    Or,
    Since,
    Variable,
)
from weft.algebra.formula import Atom as P
from weft.algebra.safe_range import EVALUATED, MONPOLY, violation
from weft.algebra.schema import BIGINT, STRING

X, Y, S = Variable("x", BIGINT), Variable("y", BIGINT), Variable("s", STRING)
ONE = Constant(1, BIGINT)
MORE = Computed("+", (X, ONE), BIGINT)
P_X, P_Y = P("P", (X,)), P("P", (Y,))


@pytest.mark.parametrize(
    ("formula", "monpoly", "evaluated"),
    [
        (P_X, None, None),
        (And(P_X, Comparison("<", X, ONE)), None, None),
        (And(Comparison("<", X, ONE), P_X), "x", None),
        (And(And(P_X, Comparison("=", Y, MORE)), Not(P_Y)), None, None),
        (And(P_X, And(Comparison("=", Y, MORE), Not(P_Y))), "x, y", "x, y"),
        (And(Not(P_X), P_X), "x", None),
        (P("Q", (X, MORE)), "", None),
        (P("Q", (Y, MORE)), "x", "x"),
        (Comparison("=", X, Computed("+", (ONE, ONE), BIGINT)), "x", None),
        (Comparison("=", X, Y), "x, y", "x, y"),
        (Not(Comparison("=", X, X)), None, "x"),
        (Not(Exists((X,), P_X)), None, None),
        (Or(P_X, P_Y), "x, y", "x, y"),
        (Since(ALWAYS, Not(P_X), P_X), None, None),
        (Since(ALWAYS, P_Y, P_X), "y", "y"),
        (Exists((Y,), P_X), "", ""),
        (And(P("T", (S,)), Matches(S, "(a)", (S,))), None, None),
        (Matches(S, "a"), "s", "s"),
    ],
)
def test_each_set_of_rules_takes_its_formulas(formula: Formula, monpoly: str | None, evaluated: str | None) -> None:
    for rules, expected in ((MONPOLY, monpoly), (EVALUATED, evaluated)):
        refused = violation(formula, rules)
        assert (None if refused is None else ", ".join(each.name for each in refused.unbound)) == expected
