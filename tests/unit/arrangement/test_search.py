"""Searching many values at once finds what searching one after another finds, with and without Arrow's own function."""

from __future__ import annotations

import bisect

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.arrangement import run

GREATEST = (1 << 64) - 1
HASHES = st.one_of(st.integers(0, 9), st.sampled_from((1 << 63, GREATEST - 1, GREATEST)))


def _array(values: list[int]) -> pa.Array:
    return pa.array(sorted(values), pa.uint64())


@given(st.lists(HASHES, max_size=70), st.sets(HASHES, max_size=12), st.sampled_from(("left", "right")))
def test_both_ways_to_search(values: list[int], wanted: set[int], side: str) -> None:
    right = [
        (bisect.bisect_left if side == "left" else bisect.bisect_right)(sorted(values), one) for one in sorted(wanted)
    ]
    assert run.halving(_array(values), _array(list(wanted)), side).to_pylist() == right
    assert run.insertion_points(_array(values), _array(list(wanted)), side).to_pylist() == right


@pytest.mark.parametrize("own", [False, True])
def test_every_position_that_matches(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    @given(st.lists(HASHES, max_size=70), st.sets(HASHES, max_size=12))
    def all_are_found(values: list[int], wanted: set[int]) -> None:
        held, asked = sorted(values), sorted(wanted)
        positions, which = run.matches(_array(held), _array(asked))
        found = list(zip(positions.to_pylist(), which.to_pylist(), strict=True))
        assert found == [
            (at, number) for number, one in enumerate(asked) for at, value in enumerate(held) if value == one
        ]

    if own:
        monkeypatch.setattr(run, "HAS_SEARCH_SORTED", False)
    all_are_found()


def test_arrow_has_the_function_since_26() -> None:
    assert hasattr(pc, "search_sorted") == (int(pa.__version__.partition(".")[0]) >= 26)
