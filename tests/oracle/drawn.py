"""Values drawn from Hypothesis strategies outside of a Hypothesis test: the same ones for the same seed."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

T = TypeVar("T")


def drawn(strategy: st.SearchStrategy[T], count: int, start: int) -> list[T]:
    """About ``count`` values; neighbours can be much alike."""
    found: list[T] = []

    @seed(start)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(strategy)
    def each(value: T) -> None:
        found.append(value)

    each()
    return found
