"""The texts that hints offer have the rows of the refused texts, NULLs and empty tables included.

SQLite answers both: it has the window functions and scalar subqueries that Weft refuses.
"""

from __future__ import annotations

import re
import shlex
import sqlite3

import pytest

from netnews import table
from weft.algebra.schema import INT, STRING
from weft.errors import SqlError
from weft.planning.plan import standing_plan

TABLES = {
    each.name: each
    for each in (
        table(1, "s", {"k": STRING, "x": INT}),
        table(2, "o", {"k": STRING, "x": INT}),
        table(3, "e", {"k": STRING, "x": INT}),
    )
}
ROWS = {
    "s": [
        ("a", 1, 1),
        ("a", 3, 2),
        ("a", None, 3),
        ("b", 3, 4),
        ("b", 2, 5),
        (None, 7, 6),
        (None, 9, 7),
        ("c", None, 8),
    ],
    "o": [("a", 3, 1), ("a", 2, 2), ("b", None, 3), ("b", 1, 4), ("d", None, 5)],
    "e": [],
}
OFFERED = re.compile(r"""weft install NAME ("[^"]*"|'(?:[^']|'"'"')*')""")
COMPARED = [
    f"SELECT k, x FROM s WHERE x {sign} (SELECT {function}(x) FROM {of})"
    for sign in ("<", "<=", ">", ">=", "=", "<>")
    for function in ("MIN", "MAX")
    for of in ("s", "o", "e")
]
COUNTED = [
    f"SELECT k, x FROM s WHERE (SELECT COUNT({what}) FROM o WHERE o.k = s.k) {sign}"
    for what in ("*", "x", "DISTINCT x")
    for sign in ("= 0", "> 0", ">= 1", "< 1", "<> 0")
]
OTHERS = [
    "SELECT k, x FROM s WHERE x IS NULL OR x >= (SELECT MAX(x) FROM o WHERE o.k = s.k)",
    "SELECT k, x, x - FIRST_VALUE(x) OVER (PARTITION BY k ORDER BY ts) AS d FROM s WHERE k IS NOT NULL",
    "SELECT * FROM (SELECT k, x, LAG(x) OVER (PARTITION BY k ORDER BY ts) AS before FROM s) AS d WHERE before < x",
    "SELECT x - LAG(x) OVER (PARTITION BY k ORDER BY ts) AS d, k FROM s WHERE x > 1 AND k = 'a' OR k = 'b'",
    "SELECT k, x, LEAD(x) OVER (PARTITION BY k ORDER BY ts DESC) AS before FROM s WHERE k = 'b'",
]


@pytest.fixture(scope="module")
def answered() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for name, rows in ROWS.items():
        database.execute(f"CREATE TABLE {name} (k TEXT, x INTEGER, ts INTEGER)")
        database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    return database


def offered(text: str) -> str:
    with pytest.raises(SqlError) as refused:
        standing_plan(text, TABLES)
    found = OFFERED.search(str(refused.value.hint))
    assert found is not None, refused.value.hint
    (text,) = shlex.split(found[1])
    standing_plan(text, TABLES)
    return text


@pytest.mark.parametrize("text", COMPARED + COUNTED + OTHERS)
def test_an_offered_text_has_the_rows_of_the_refused_one(text: str, answered: sqlite3.Connection) -> None:
    expected = set(answered.execute(text))
    if "LAG(" in text or "LEAD(" in text:  # the hint says that a row with none beside it is no answer
        expected = {row for row in expected if None not in row}
    found = set(answered.execute(offered(text)))
    if "LAG(" in text or "LEAD(" in text:
        found = {row for row in found if None not in row}
    assert found == expected


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "=", "<>"])
@pytest.mark.parametrize("of", ["s", "o", "e"])
def test_all_is_unknown_beside_a_null(sign: str, of: str, answered: sqlite3.Connection) -> None:
    values = [x for _, x, _ in ROWS[of]]
    python = {"=": "==", "<>": "!="}.get(sign, sign)
    expected = {
        (k, x)
        for k, x, _ in ROWS["s"]
        if all(x is not None and y is not None and eval(f"{x} {python} {y}") for y in values)
    }
    assert set(answered.execute(offered(f"SELECT k, x FROM s WHERE x {sign} ALL (SELECT x FROM {of})"))) == expected


@pytest.mark.parametrize("sign", ["=", "<>"])
def test_the_first_row_of_each_group_keeps_the_condition(sign: str, answered: sqlite3.Connection) -> None:
    text = (
        "SELECT * FROM (SELECT k, x, ts, RANK() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM s "
        f"WHERE k {sign} 'a' AND x IS NOT NULL) AS d WHERE n = 1"
    )
    assert set(answered.execute(offered(text))) == {row[:3] for row in answered.execute(text)}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM s WHERE NOT (x < (SELECT MAX(x) FROM o))",
        "SELECT k FROM s WHERE x > (SELECT x FROM o ORDER BY ts DESC LIMIT 1)",
        "SELECT k FROM s WHERE x > (SELECT x FROM o UNION SELECT x FROM e)",
        "SELECT k, LAST_VALUE(x) OVER (PARTITION BY k ORDER BY ts) AS last FROM s",
    ],
)
def test_no_text_is_offered_where_exists_means_something_else(text: str) -> None:
    with pytest.raises(SqlError) as refused:
        standing_plan(text, TABLES)
    hints = " ".join(reason.hint or "" for reason in refused.value.reasons or (refused.value,))
    assert "not supported today" in hints
    assert "EXISTS(SELECT" not in hints


@pytest.mark.parametrize("text", ["SELECT k, SUM(x) FROM s GROUP BY k LIMIT 3", "SELECT k FROM s GROUP BY k LIMIT 3"])
def test_the_hint_for_limit_offers_no_text_that_is_refused_for_its_groups(text: str) -> None:
    with pytest.raises(SqlError) as refused:
        standing_plan(text, TABLES)
    assert "LIMIT" in refused.value.message
    assert "weft install" not in str(refused.value.hint)
