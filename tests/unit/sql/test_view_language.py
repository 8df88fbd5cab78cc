"""Binding a view: names, stars, refusals that the page on views does not list."""

from __future__ import annotations

import pytest

from temporal_values import tracked
from weft.algebra.schema import STRING, TIMESTAMP, Column, TableSchema
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import SqlError
from weft.sql.dialects.duckdb_dialect import not_local
from weft.sql.lower.query import bind, bind_view

LOG = TableSchema(9, "log", (Column(1, "line", STRING), Column(2, "ts", TIMESTAMP)))
TABLES = {
    "e": tracked(1, "e", id="INT", dept="STRING"),
    "s": tracked(2, "s", id="INT", project="STRING"),
    "log": LOG,
}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM e", ["id", "dept"]),
        ("SELECT e.* FROM e", ["id", "dept"]),
        ("SELECT * FROM e JOIN s USING (id)", ["id", "dept", "project"]),
        ("SELECT COUNT(*), dept FROM e GROUP BY dept", ["col1", "dept"]),
        ("SELECT UPPER(dept) AS d, COUNT(*) + 1 AS n FROM e GROUP BY UPPER(dept)", ["d", "n"]),
    ],
)
def test_columns(text: str, names: list[str]) -> None:
    assert [output.name for output in bind_view(text, TABLES).outputs] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT line FROM log", "append-only"),
        ("SELECT EXPLODE(SPLIT(dept, ' ')) AS w FROM e", "line 1, column 8"),
        ("SELECT dept AS valid_from FROM e", "valid_from"),
        ("SELECT * FROM e JOIN s USING (valid_to)", "valid_to"),
        ("SELECT id FROM e WHERE e.valid_to IS NULL", "valid_to"),
        ("SELECT id FROM e WHERE PERIOD_START(x) < NOW()", "alias of FROM"),
        ("SELECT id FROM e WHERE PERIOD_CONTAINS(e) ", "2 aliases"),
        ("SELECT COUNT(*) AS n FROM e WHERE COUNT(*) > 1", "select list or in HAVING"),
        ("SELECT * FROM e GROUP BY id", "beside GROUP BY"),
        ("SELECT id FROM e GROUP BY MOVING_WINDOW(INTERVAL 1 DAY)", "neither in GROUP BY"),
        ("SELECT 1 AS one FROM e GROUP BY MOVING_WINDOW(INTERVAL 1 DAY)", "names no column"),
        ("SELECT id FROM e GROUP BY id, MOVING_WINDOW(INTERVAL 1 DAY), MOVING_WINDOW(INTERVAL 2 DAYS)", "two moving"),
        ("SELECT id FROM e WHERE MOVING_WINDOW(INTERVAL 1 DAY)", "belongs in GROUP BY"),
        ("SELECT id FROM e GROUP BY id, NOW()", "the time"),
        ("SELECT SUM(dept) AS n FROM e", "not defined for STRING"),
        ("SELECT SUM(id, dept) AS n FROM e", "1 argument, not 2"),
        ("SELECT id FROM e GROUP BY ROLLUP (id), MOVING_WINDOW(INTERVAL 1 DAY)", "beside ROLLUP"),
        ("SELECT id, COUNT(*) OVER (PARTITION BY id) AS n FROM e", "a window function"),
        ("SELECT COUNT(NOW()) AS n FROM e", "a period in an aggregate"),
        ("SELECT id FROM e WHERE INTERVAL 1 MONTH > INTERVAL 1 DAY", "compared"),
        ("SELECT NOW() AS n FROM e", "select list"),
        ("SELECT id FROM e WHERE NOW() > TIMESTAMP '2000-01-01 00:00:00' + INTERVAL '1-12' YEAR TO MONTH", "1-12"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        bind_view(text, TABLES)


def test_a_query_may_read_the_bounds_that_a_view_may_not() -> None:
    query = bind("SELECT id, valid_from FROM e WHERE valid_to IS NULL", TABLES)
    assert [output.name for output in query.outputs] == ["id", "valid_from"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v.x, v.y FROM (VALUES (1, 'a'), (2, NULL)) AS v(x, y)",
        "SELECT id, CAST(NULL AS DATE) AS d, CAST(NULL AS DECIMAL(9, 2)) AS m FROM e",
        "SELECT id FROM e WHERE NULL",
    ],
)
def test_a_view_may_say_null_of_any_type(text: str) -> None:
    assert not_local(sequenced(bind_view(text, TABLES))) is None
