"""Which divisions may be by 0, and which another part of the conjunction keeps from it."""

import pytest

from weft.derivation.synopsis.divisions import unguarded
from weft.derivation.synopsis.prepared import prepared
from weft.formula.parse_formula import counted_reading, reading
from weft.formula.signature import signature
from weft.formula.written import term_text

KNOWN = signature("P(x:int, y:int) R(x:int, y:float) Q(x:int)")


@pytest.mark.parametrize(
    ("text", "division"),
    [
        ("P(x, y) AND z = x / y", "(x / y)"),
        ("P(x, y) AND z = x MOD (y - 1)", "(x MOD (y - 1))"),
        ("P(x, y) AND NOT (y = 1) AND z = x / y", "(x / y)"),
        ("P(x, y) AND 0 <= y AND z = x / y", "(x / y)"),
        ("P(x, y) AND NOT (EXISTS z. P(x, y) AND z = x / y AND Q(z))", "(x / y)"),
        ("Q(x) AND NOT (x = 0) AND (ONCE (Q(x) AND 1 < 7 / x))", "(7 / x)"),
        ("P(x, y) AND NOT (y = 0) AND z = 1 / (x / y)", "(1 / (x / y))"),
        ("P(x, y) AND z = x / 2 AND z <= x MOD 3", None),
        ("R(x, y) AND 1.0 < i2f(x) / y", None),
        ("P(x, y) AND NOT (y = 0) AND z = x / y", None),
        ("P(x, y) AND z = x / y AND NOT (0 = y)", None),
        ("P(x, y) AND 0 < y AND x < x MOD y", None),
        ("P(x, y) AND y <= -1 AND NOT (x / y = 2)", None),
        ("P(x, y) AND d = x - y AND NOT (d = 0) AND z = 1 / d", None),
        ("(P(x, y) AND NOT (y = 0) AND NOT Q(x)) AND z = x / y", None),
    ],
)
def test_a_divisor_is_kept_from_0_by_what_stands_beside_it(text: str, division: str | None) -> None:
    found = unguarded(prepared(reading(text, KNOWN).formula, "set"), "set")
    assert (None if found is None else term_text(found)) == division


def test_taking_one_from_a_count_keeps_no_row_away() -> None:
    of_sets = "P(x, y) AND NOT (y = 0) AND z = x / y"
    assert unguarded(counted_reading(of_sets, KNOWN).formula, "bag") is not None
    assert unguarded(counted_reading("P(x, y) AND y <> 0 AND z = x / y", KNOWN).formula, "bag") is None
