"""``near`` leaves out an interval or a rounding only if it is shorter than a known length."""

from __future__ import annotations

import pytest

from weft.algebra.calendar import DAY, elapsed, last_multiple, multiple_of, near, truncated, within_calendar
from weft.algebra.scalar import Call, ColumnRef, Literal, Scalar, minus, plus
from weft.algebra.schema import BIGINT, INTERVAL, TIMESTAMP

TS, OPENED, CLOSED = (ColumnRef("m", name, TIMESTAMP) for name in ("ts", "opened", "closed"))
N = ColumnRef("m", "n", BIGINT)
SECOND = Literal(1_000_000, BIGINT)


@pytest.mark.parametrize("time", [CLOSED, minus(CLOSED, Call("-", (TS, OPENED), INTERVAL))])
def test_the_time_since_the_start_of_its_day_is_shorter_than_a_day(time: Scalar) -> None:
    moved, slack = near(plus(TS, elapsed("DAY", time)))
    assert (moved.base, moved.intervals, slack) == (TS, (), DAY)


def test_the_time_since_the_start_of_another_day_may_be_long() -> None:
    span = Call("-", (CLOSED, truncated("DAY", OPENED)), INTERVAL)
    moved, slack = near(plus(TS, span))
    assert (moved.base, moved.intervals, slack) == (TS, ((span, 1),), 0)


@pytest.mark.parametrize("phase", [0, 3])
def test_a_multiple_is_near_its_time(phase: int) -> None:
    value = last_multiple(7_000_000, phase, TS)
    moved, slack = near(value)
    assert (moved.base, moved.intervals, slack) == (TS, (), 7_000_000)
    assert within_calendar(value)
    assert multiple_of(value) == (None if phase else (TS, 7_000_000))


@pytest.mark.parametrize("operator", ["+", "-", "*"])
def test_another_number_of_microseconds_is_not_near_the_time(operator: str) -> None:
    product = Call("*", (N, SECOND), BIGINT)
    rest = Call("%", (N, SECOND), BIGINT)
    for number in (product, rest, N):
        counted = Call(operator, (Call("unix_micros", (TS,), BIGINT), number), BIGINT)
        value = Call("timestamp_micros", (counted,), TIMESTAMP)
        moved, slack = near(value)
        assert (moved.base, slack) == (value, 0)
        assert not within_calendar(value)
