"""Which fixpoints may count without end: the restriction of section 4 with its repair, case by case."""

from __future__ import annotations

import pytest

from weft.algebra.formula import Fixpoint, subformulas
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.multiplicity import multiplied
from weft.derivation.synopsis.verdict import size_verdict
from weft.formula.parse_formula import counted_reading
from weft.formula.signature import signature

KNOWN = signature("p() q() r() s(x:int) t(x:int,y:int)")
ADMITTED = {
    "MU X. (DISTINCT q()) OR PREVIOUS X": "once more at each time point",
    "MU X. q() OR PREVIOUS X": "as often as q comes",
    "MU X. (DISTINCT p()) AND (q() OR PREVIOUS X)": "since1",
    "MU X. ((p() AND DISTINCT q()) OR (p() AND ((DISTINCT PREVIOUS X) AND NOT q()))) OR "
    "((PREVIOUS X) AND ((DISTINCT p()) AND NOT q()))": "since2: X is taken once, and once under DISTINCT",
    "MU X. (DISTINCT q()) OR DISTINCT (PREVIOUS X OR PREVIOUS X)": "under DISTINCT",
    "MU X. (DISTINCT q()) OR ((DISTINCT PREVIOUS X) AND PREVIOUS X)": "one side has no duplicates",
    "MU X(x). s(x) OR DISTINCT (EXISTS y. (t(x, y) AND PREVIOUS X(y)))": "EXISTS under DISTINCT",
    "MU X(x). s(x) AND NOT PREVIOUS X(x)": "what is taken away makes nothing more",
    "MU X() = q() OR PREVIOUS Y(), Y() = (DISTINCT p()) AND PREVIOUS X() IN X()": "each takes the other once",
    "MU X. q() OR PREVIOUS (ONCE2 X)": "how long ago X was does not count X",
}
REFUSED = {
    "MU X. (DISTINCT q()) OR (PREVIOUS X) OR (PREVIOUS X)": "OR adds",
    "MU X. (DISTINCT q()) OR PREVIOUS ((TRUE OR TRUE) AND X)": "AND multiplies",
    "MU X. (DISTINCT q()) OR PREVIOUS (X OR X)": "OR adds",
    "MU X. q() AND (q() OR PREVIOUS X)": "AND multiplies",
    "MU X. q() OR ((PREVIOUS X) AND PREVIOUS X)": "AND multiplies",
    "MU X(x). s(x) OR EXISTS y. (t(x, y) AND PREVIOUS X(y))": "AND multiplies",
    "MU X(x). s(x) OR EXISTS y. ((DISTINCT t(x, y)) AND PREVIOUS X(y))": "EXISTS adds",
    "MU X. q() OR PREVIOUS (ONCE1 X)": "at all time points",
    "MU X. q() OR PREVIOUS (p() SINCE1 X)": "at all time points",
    "MU X() = q() OR PREVIOUS Y(), Y() = (PREVIOUS X()) OR PREVIOUS Y() IN X()": "OR adds",
}


def fixpoint(text: str) -> Fixpoint:
    found = counted_reading(text, KNOWN).formula
    return next(part for part in subformulas(found) if isinstance(part, Fixpoint))


@pytest.mark.parametrize("text", ADMITTED, ids=ADMITTED.values())
def test_what_takes_x_at_most_once_is_admitted(text: str) -> None:
    assert multiplied(fixpoint(text)) is None


@pytest.mark.parametrize("text", REFUSED)
def test_what_takes_x_more_often_is_refused_and_why(text: str) -> None:
    found = multiplied(fixpoint(text))
    assert found is not None
    assert REFUSED[text] in found.why


@pytest.mark.parametrize("text", REFUSED)
def test_the_nearest_variant_has_a_bound(text: str) -> None:
    refused = size_verdict(synopsis(fixpoint(text), "bag"))
    assert refused.kind == "unbounded"
    (fault,) = refused.faults
    assert "Theorem 3.4" in fault.reason
    assert fault.bounded is not None
    assert size_verdict(synopsis(fault.bounded, "bag")).kind != "unbounded"


@pytest.mark.parametrize("text", [*ADMITTED, *REFUSED])
def test_without_counts_and_by_minimum_and_maximum_everything_is_bounded(text: str) -> None:
    assert size_verdict(synopsis(fixpoint(text), "set")).kind == "bounded"
    assert size_verdict(synopsis(fixpoint(text), "minmax")).kind == "bounded"
