"""The order of new answers in the driver's memory, against one pair of values after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from answers_in_order import TYPES, drawn, expected, general
from weft.execution.ordering import in_order, kinds_of, spark_order


@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2, 5, 40, 400]))
def test_answers_come_by_instant_then_by_their_values(seed: int, rows: int) -> None:
    found = drawn(seed, rows)
    assert in_order(general(found), TYPES).equals(general(expected(found)))


def test_the_order_does_not_depend_on_how_they_come() -> None:
    found = drawn(7, 300)
    assert in_order(general(found[::-1]), TYPES).equals(in_order(general(found), TYPES))


def test_queries_of_like_columns_are_sorted_together() -> None:
    kinds = kinds_of(TYPES)
    assert len(kinds) == 7 and kinds["BIGINT", "STRING"] == [1, 6]
    assert spark_order([("STRING", "BIGINT")]) == ["GET(`row`, 0)", "TRY_CAST(GET(`row`, 1) AS BIGINT)", "row_hash"]
    assert spark_order(list(kinds), "kind")[-1] == "row_hash" and "kind IN (0, 4" in spark_order(list(kinds), "kind")[0]
