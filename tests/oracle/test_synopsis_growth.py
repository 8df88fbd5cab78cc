"""Synopses grow as announced: not at all, logarithmically or linearly. docs/synopses.md shows the measured sizes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from synopsis_growth import FAMILIES, LENGTHS, SVG, Size, drawn, grown, recorded
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.verdict import size_verdict

SHORT = LENGTHS[:2]


def test_the_families_have_the_verdicts_that_they_are_named_after() -> None:
    for name, family in FAMILIES.items():
        assert size_verdict(synopsis(family.formula, family.semantics)).kind == name


@pytest.mark.parametrize("name", FAMILIES)
def test_the_synopsis_after_thousands_of_states_has_the_recorded_size(name: str) -> None:
    assert grown(FAMILIES[name], SHORT) == recorded()[name][: len(SHORT)]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FAMILIES)
def test_the_synopsis_after_a_million_states_has_the_recorded_size(name: str) -> None:
    assert grown(FAMILIES[name]) == recorded()[name]


def bits(name: str) -> list[int]:
    return [point.bits for point in recorded()[name]]


def test_the_recorded_growth_is_as_announced() -> None:
    found = recorded()
    assert all([point.states for point in points] == list(LENGTHS) for points in found.values())
    flat, log, linear = (bits(name) for name in FAMILIES)
    assert max(flat) <= 1.1 * min(flat)
    assert all(0 < more - less <= 2 * 4 for less, more in pairwise(log)), "2 counters, log2(10) < 4"
    assert linear == [states + 1 for states in LENGTHS], "a bit a state, and one of the doubling"


def test_the_drawing_shows_the_recorded_figures() -> None:
    assert SVG.read_text() == drawn(recorded())


def test_a_drawing_has_a_point_for_each_length() -> None:
    points = [Size(10, 1, 5), Size(100, 1, 6), Size(1000, 1, 7)]
    assert drawn(dict.fromkeys(FAMILIES, points)).count("<circle") == 3 * len(FAMILIES)
