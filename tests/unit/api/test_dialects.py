"""The columns of results are known in other dialects, also under quoted names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weft.api.weft import Weft
from weft.errors import SqlError

DIALECTS = {
    "postgres": 'results."late-orders"',
    "duckdb": 'results."late-orders"',
    "snowflake": 'results."late-orders"',
    "bigquery": "`results.late-orders`",
    "tsql": "[results].[late-orders]",
}


@pytest.fixture(scope="module")
def weft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weft]:
    with Weft.open(tmp_path_factory.mktemp("dialects") / "home", create=True, clock="replay") as home:
        home.make_table("orders", "id INT, total DOUBLE, customer STRING")
        home.install("late-orders", "SELECT o.id AS number, o.total AS amount FROM orders o")
        home.install("late", "SELECT o.id, o.customer FROM orders o")
        yield home


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_quoted_name_of_results_has_columns(weft: Weft, dialect: str) -> None:
    text = f"SELECT l.number, l.amount / 2 AS half FROM {DIALECTS[dialect]} l WHERE l.amount > 1"
    explained = weft.explain(text, dialect=dialect)
    assert [(name, str(kind)) for name, kind in explained.columns] == [("number", "INT"), ("half", "DOUBLE")]


def test_what_differs_is_refused_for_a_quoted_name(weft: Weft) -> None:
    with pytest.raises(SqlError, match="whole"):
        weft.explain('SELECT l.number / 2 AS half FROM results."late-orders" l', dialect="postgres")


@pytest.mark.parametrize("name", ["late", "`late`"])
def test_a_plain_name_and_one_in_the_quotes_of_spark_are_found(weft: Weft, name: str) -> None:
    assert len(weft.explain(f"SELECT l.customer FROM results.{name} l").columns) == 1
