"""An instant to which an interval is added and from which it is subtracted is NULL if the interval is."""

from __future__ import annotations

from weft.algebra.relation import TRUE
from weft.algebra.scalar import ColumnRef, Literal, minus, plus, shifted
from weft.algebra.schema import INTERVAL, TIMESTAMP
from weft.derivation.simplify import difference, present

TS = ColumnRef("m", "ts", TIMESTAMP)
WAIT = ColumnRef("m", "wait", INTERVAL)


def test_an_interval_with_columns_that_cancels_may_still_be_null() -> None:
    moved = plus(minus(TS, WAIT), WAIT)
    assert shifted(moved).intervals == ((WAIT, 0),)
    assert present(moved, frozenset({TS})) != TRUE
    assert difference(TS, moved) == (0, 0)


def test_a_constant_interval_that_cancels_is_forgotten() -> None:
    moved = plus(minus(TS, Literal(5, INTERVAL)), Literal(5, INTERVAL))
    assert (shifted(moved).micros, shifted(moved).intervals) == (0, ())
    assert present(moved, frozenset({TS})) == TRUE
