"""Outer joins in views: at every instant, a view has the rows that DuckDB finds over the rows that hold then."""

from __future__ import annotations

import random
from typing import Final

import pytest

from temporal_values import Histories, Period, Value, tracked
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import SqlError
from weft.sql.lower.query import bind_view

LAST: Final = 6
HISTORIES: Final = 8
TABLES: Final = [tracked(number, name, k="INT", n="INT") for number, name in enumerate("abc", 1)]
TEXTS: Final = (
    "SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT a.k, a.n, b.k AS bk FROM a LEFT JOIN b ON a.k = b.k AND b.n > 0",
    "SELECT b.k, a.n FROM a RIGHT JOIN b ON a.k < b.n",
    "SELECT a.k, b.k AS bk FROM a FULL JOIN b ON a.k = b.k AND a.n = b.n",
    "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL",
    "SELECT a.k, b.n FROM a FULL JOIN b ON a.k = b.k WHERE a.n = 1 OR b.n IS NULL",
    "SELECT k, a.n, b.n AS bn FROM a FULL JOIN b USING (k)",
    "SELECT a.k, b.n, c.n AS cn FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.n = c.n",
    "SELECT a.k, c.n FROM a LEFT JOIN b ON a.k = b.k JOIN c ON c.n = a.n WHERE b.k IS NULL",
    "SELECT a.k FROM a WHERE NOT EXISTS (SELECT 1 FROM b LEFT JOIN c ON b.n = c.n WHERE b.k = a.k AND c.k IS NULL)",
    "SELECT a.n, COUNT(*) AS rows, COUNT(b.k) AS pairs, SUM(b.n) AS s FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.n",
    "SELECT COUNT(*) AS rows, COUNT(a.k) AS own FROM a FULL JOIN b ON a.k = b.k",
    "SELECT a.k, d.rows FROM a LEFT JOIN (SELECT k, COUNT(*) AS rows FROM b GROUP BY k) AS d ON d.k = a.k",
)


def history(chance: random.Random) -> list[tuple[int | None, int | None, int, int | None]]:
    """Return rows with periods between 0 and ``LAST``.  Equal rows have separate periods."""
    rows = []
    drawn = [(chance.choice((None, 1, 2)), chance.choice((None, 0, 1, 2))) for _ in range(4)]
    for k, n in dict.fromkeys(drawn):  # a set has another order in each process
        start = chance.randrange(LAST)
        rows.append((k, n, start, chance.choice((None, chance.randint(start + 1, LAST)))))
    return rows


def holds(periods: list[Period], instant: int) -> bool:
    return any(start <= instant and (end is None or instant < end) for start, end in periods)


@pytest.mark.parametrize("text", TEXTS)
def test_an_outer_join_is_what_its_text_says_at_every_instant(text: str) -> None:
    chance, home, padded, changes = random.Random(TEXTS.index(text)), Histories(TABLES), 0, 0
    relation = sequenced(bind_view(text, home.tables))
    home.connection.execute("CREATE SCHEMA snapshot")
    for table in TABLES:
        there = "valid_from <= getvariable('now') AND (valid_to IS NULL OR valid_to > getvariable('now'))"
        home.connection.execute(
            f"CREATE VIEW snapshot.{table.name} AS SELECT k, n FROM main.{table.name} WHERE {there}"
        )
    for _ in range(HISTORIES):
        rows = {table.name: history(chance) for table in TABLES}
        home.load(rows)
        value: Value = home.value(relation, LAST)
        before = None
        home.connection.execute("USE snapshot")
        for instant in range(LAST + 1):
            home.connection.execute(f"SET VARIABLE now = make_timestamp({instant})")
            expected = {*home.connection.execute(text).fetchall()}
            assert {row for row, periods in value.items() if holds(periods, instant)} == expected, (instant, rows)
            changes, before = changes + (before not in (None, expected)), expected
            padded += any(None in row for row in expected)
        home.connection.execute("USE main")
    assert changes > HISTORIES and (padded or "JOIN c ON c.n = a.n" in text or "EXISTS" in text or "COUNT" in text)


def test_a_condition_on_periods_may_stand_in_on() -> None:
    home = Histories(TABLES)
    home.load({"a": [(1, 1, 0, 3), (2, 2, 2, None)], "b": [(1, 7, 1, 2), (2, 8, 2, None)], "c": []})
    found = home.view("SELECT a.k, b.n FROM a LEFT JOIN b ON a.k = b.k AND PERIOD_END(b) >= NOW()", 5)
    assert found == {(1, None): [(0, 3)], (2, 8): [(2, None)]}


def test_a_view_has_two_outer_joins_in_one_from() -> None:
    text = "SELECT a.k FROM a LEFT JOIN b USING (k) LEFT JOIN c USING (k) FULL JOIN a AS d USING (k)"
    with pytest.raises(SqlError, match="a third outer join"):
        bind_view(text, {table.name: table for table in TABLES})


@pytest.mark.parametrize("alias", ["a", "b"])
def test_a_row_of_an_outer_join_has_no_period_of_one_table(alias: str) -> None:
    text = f"SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE PERIOD_START({alias}) >= NOW() - INTERVAL 1 DAY"
    with pytest.raises(SqlError, match="a row of an outer join may have no row of this table"):
        bind_view(text, {table.name: table for table in TABLES})
