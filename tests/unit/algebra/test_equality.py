"""Expressions share parts, so that a comparison must not go every way through them."""

from __future__ import annotations

from weft.algebra.scalar import Call, ColumnRef, Scalar
from weft.algebra.schema import INT


def doubled(times: int, name: str) -> Scalar:
    """A sum that has so many levels, and 2 to the power of that many ways from its top to its one column."""
    found: Scalar = ColumnRef("a", name, INT)
    for _ in range(times):
        found = Call("+", (found, found), INT)
    return found


def test_equal_expressions_are_compared_part_by_part() -> None:
    assert doubled(60, "b") == doubled(60, "b")
    assert doubled(60, "b") != doubled(60, "c")
    assert {doubled(60, "b"): 1}[doubled(60, "b")] == 1
    assert (doubled(1, "b") == 1) is False
