"""Unions of conjunctive queries of two sorts as nests of once, and why others are none."""

import pytest

from weft.derivation.synopsis.two_sorted import nest
from weft.errors import SynopsisError
from weft.formula.signature import signature
from weft.formula.twofol.resolve import two_sorted
from weft.formula.written import written

KNOWN = signature("P(int) Q(int) R(int, int)")


def answer_text(text: str, *, counts: bool = True) -> str:
    return written(nest(two_sorted(text, KNOWN).formula, counts=counts))


@pytest.mark.parametrize(
    ("text", "nested"),
    [
        ("EXISTS TIME t. P(x) AT t", "ONCE1 P(x)"),
        ("EXISTS TIME t. P(x) AT t AND Q(x) AT NOW AND t < NOW", "Q(x) AND (PREVIOUS (ONCE1 P(x)))"),
        (
            "EXISTS TIME t, s. P(x) AT t AND Q(x) AT s AND t <= s",
            "(ONCE1 (P(x) AND Q(x))) OR (ONCE1 (Q(x) AND (PREVIOUS (ONCE1 P(x)))))",
        ),
        ("EXISTS TIME t. P(x) AT t AND NOW - t >= 2s", "TRUE AND (ONCE1[2s,*) P(x))"),
        (
            "EXISTS TIME t. P(x) AT t AND Q(x) AT NOW AND t < NOW AND NOW - t <= 2s",
            "Q(x) AND ((ONCE1(0,2s] P(x)) OR (PREVIOUS[0,0] (ONCE1[0,0] P(x))))",
        ),
        (
            "DISTINCT EXISTS TIME t. (EXISTS y. R(x, y) AT t) AND EXISTS y. R(x, y) AT t",
            "DISTINCT (ONCE1 (EXISTS y, y_1. (R(x,y) AND R(x,y_1))))",
        ),
        ("EXISTS TIME t. t < NOW AND t < t", None),
        ("EXISTS TIME t. TRUE", "ONCE1 TRUE"),
    ],
)
def test_nests(text: str, nested: str | None) -> None:
    if nested is None:
        with pytest.raises(SynopsisError, match="never true"):
            answer_text(text)
    else:
        assert answer_text(text) == nested


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("EXISTS TIME t. P(x) AT NOW AND NOT Q(x) AT t", "NOT is not allowed in a conjunctive query"),
        ("n <- CNT t; x P(x) AT t", "an aggregation is not allowed in a conjunctive query"),
        ("EXISTS TIME t. P(x) AT t AND NOT t = NOW", "NOT is not allowed in a conjunctive query"),
        ("EXISTS TIME t. Q(x) AT NOW AND DISTINCT P(x) AT t", "DISTINCT within the formula"),
        ("EXISTS TIME t. P(x) AT t AND NOW - t <> 5s", "compares the time between two time points with <>"),
        (
            "EXISTS TIME t, s, u. P(x) AT t AND Q(x) AT s AND P(x) AT u AND t < s AND s < u AND u - t < 5s",
            "limits the time between u and t",
        ),
        ("EXISTS TIME a, b, c, d, e, f. P(x) AT a", "6 time points together, but at most 5"),
    ],
)
def test_formulas_other_than_unions_of_conjunctive_queries(text: str, why: str) -> None:
    with pytest.raises(SynopsisError, match=why):
        answer_text(text)


def test_with_sets_a_negated_comparison_is_the_opposite_one() -> None:
    assert answer_text("EXISTS TIME t. P(x) AT t AND NOT NOW <= t", counts=False) == "TRUE AND (PREVIOUS (ONCE1 P(x)))"
