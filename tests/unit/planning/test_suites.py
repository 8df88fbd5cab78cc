"""The queries of TPC-H and Nexmark stand as they are written; Weft says why it refuses two of Nexmark's."""

from __future__ import annotations

from typing import Final

import pytest

from suite_texts import NEXMARK, TPCH, schemas
from weft.bench import nexmark_texts, tpch_texts
from weft.errors import SqlError
from weft.planning.plan import standing_plan

TEXTS: Final = [
    *((name, text, TPCH) for name, text in tpch_texts.queries(0.01).items()),
    *((name, text, NEXMARK) for name, text in nexmark_texts.QUERIES.items()),
]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        pytest.param(text, tables, id=f"{'tpch' if tables is TPCH else 'nexmark'}-{name}")
        for name, text, tables in TEXTS
    ],
)
def test_the_query_stands(text: str, tables: dict[str, dict[str, str]]) -> None:
    assert standing_plan(text, schemas(tables)).branches


@pytest.mark.parametrize(("name", "reason"), [("q11", "session"), ("q12", "PROCTIME")])
def test_two_of_nexmark_are_refused(name: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        standing_plan(nexmark_texts.LEFT_OUT[name], schemas(NEXMARK))


def test_all_numbers_are_there() -> None:
    assert list(tpch_texts.queries(1)) == [f"q{number}" for number in range(1, 23)]
    assert {*nexmark_texts.QUERIES, *nexmark_texts.LEFT_OUT} == {f"q{number}" for number in range(23)}
