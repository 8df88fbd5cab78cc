"""All reasons for which a text is refused are listed at once: each with its place, none twice, none that follows from
another one."""

from __future__ import annotations

import pytest

from netnews import TABLES, table
from weft.algebra.schema import BOOLEAN, DATE, INT, TIMESTAMP
from weft.errors import FormulaError, SqlError, SynopsisError, WeftError
from weft.planning.formula_plan import formula_synopsis
from weft.planning.plan import plan
from weft.planning.synopsis_plan import sql_synopsis
from weft.planning.view_plan import bound_view

# A text, and of each of its reasons a part of the message and the place, in the order of the text.
LISTED = {
    "select list and WHERE": (
        "SELECT nosuch, rand() AS r FROM msgs WHERE other = 1 AND sender = 3",
        (("'nosuch'", 8), ("RAND()", 16), ("'other'", 44), ("cannot be compared", 67)),
    ),
    "within one expression": (
        "SELECT UPPER(nosuch) || LOWER(other) AS x FROM msgs",
        (("'nosuch'", 14), ("'other'", 31)),
    ),
    "clauses": (
        "SELECT msgid FROM msgs TABLESAMPLE (10 PERCENT) FOR UPDATE",
        (("TABLESAMPLE", None), ("FOR UPDATE", None)),
    ),
    "columns of an unknown table follow from it": (
        "SELECT a.x, b.y, sender, q FROM msgs a JOIN nosuch b ON b.k = a.wrong",
        (("'a.x'", 10), ("no table 'nosuch'", 45), ("'a.wrong'", 65)),
    ),
    "both sides of UNION": (
        "SELECT nosuch FROM msgs UNION SELECT name FROM usrs",
        (("'nosuch'", 8), ("'usrs'", 48)),
    ),
    "GROUP BY and HAVING": (
        "SELECT sender, COUNT(*) AS n, rand() AS r FROM msgs GROUP BY uuid(), sender HAVING COUNT(*) > nosuch",
        (("UUID()", 62), ("RAND()", 31), ("'nosuch'", 95)),
    ),
    "a derived table": (
        "SELECT d.a, d.b, uuid() AS u FROM (SELECT wrong FROM msgs) d WHERE d.c > 3",
        (("UUID()", 18), ("'wrong'", 43)),
    ),
    "a name of WITH that is used twice is refused once": (
        "WITH w AS (SELECT wrong FROM msgs) SELECT a.x FROM w a JOIN w b ON a.k = b.k WHERE rand() < 1",
        (("'wrong'", 19), ("RAND()", 84)),
    ),
    "WITH RECURSIVE and what follows from it": (
        "WITH RECURSIVE r AS (SELECT msgid FROM msgs UNION ALL SELECT MAX(msgid) FROM r) SELECT uuid() AS u FROM r",
        (("an aggregate over r", None), ("UUID()", 88)),
    ),
    "subqueries": (
        "SELECT msgid FROM msgs m WHERE EXISTS (SELECT 1 FROM users u WHERE u.nosuch = m.other)"
        " AND sender NOT IN (SELECT wrong FROM users)",
        (("'u.nosuch'", 70), ("'m.other'", 81), ("'wrong'", 114)),
    ),
    "two branches of CASE": (
        "SELECT CASE WHEN a = 1 THEN b ELSE c END AS x FROM msgs",
        (("'a'", 18), ("'b'", 29), ("'c'", 36)),
    ),
    "BETWEEN with NOW() names a column once": (
        "SELECT msgid FROM msgs WHERE nosuch BETWEEN NOW() AND NOW() + INTERVAL 1 DAY AND uuid() = 'a'",
        (("'nosuch'", 30), ("UUID()", 82)),
    ),
    "answers that cannot be stored": (
        "SELECT INTERVAL 1 MONTH AS m, NULL AS nothing FROM msgs",
        (("type MONTHS", None), ("type NULL", None)),
    ),
    "ON of a LEFT JOIN and the select list": (
        "SELECT a.msgid, a.nosuch FROM msgs a LEFT JOIN users b ON b.wrong = a.sender",
        (("'a.nosuch'", 19), ("'b.wrong'", 61)),
    ),
}


def reasons(error: WeftError) -> list[tuple[str, str | None]]:
    return [(each.message, each.where) for each in error.reasons or (error,)]


@pytest.mark.parametrize("name", LISTED)
def test_all_reasons_are_listed(name: str) -> None:
    text, wanted = LISTED[name]
    with pytest.raises(SqlError) as caught:
        plan(text, TABLES)
    found = reasons(caught.value)
    assert len(found) == len(wanted), found
    for part, column in wanted:
        assert any(
            part in message and (column is None or where == f"line 1, column {column}") for message, where in found
        ), (part, column, found)
    places = [int((where or "column 1").rpartition(" ")[2]) for _, where in found if where]
    assert places == sorted(places)


def test_the_text_of_the_error_has_all_of_them_with_their_hints() -> None:
    with pytest.raises(SqlError) as caught:
        plan("SELECT nosuch FROM msgs FOR UPDATE", TABLES)
    message = str(caught.value)
    assert message.startswith("2 reasons:\n1. there is no column 'nosuch' (line 1, column 8)\n  The columns are")
    assert "\n2. FOR UPDATE is not allowed" in message
    assert "Remove it." in message


def test_one_reason_is_the_error_itself() -> None:
    with pytest.raises(SqlError) as caught:
        plan("SELECT nosuch FROM msgs", TABLES)
    assert (caught.value.reasons, caught.value.where) == ((), "line 1, column 8")


def test_views_and_synopses_list_theirs() -> None:
    with pytest.raises(SqlError) as caught:
        bound_view("SELECT nosuch, COUNT(*) AS n FROM msgs GROUP BY nosuch, PERIOD_START(x)", TABLES)
    assert any("append-only" in message for message, _ in reasons(caught.value))
    with pytest.raises(SqlError) as caught:
        sql_synopsis("SELECT a.nosuch FROM msgs a JOIN msgs b ON b.other = a.msgid FOR UPDATE", TABLES)
    assert len(caught.value.reasons) == 3


def test_names_of_with_that_double_are_refused_soon() -> None:
    """Each name is read once when it is refused, not once for each use: 2 to the power of 60 uses here."""
    levels = [f"w{n} AS (SELECT a.x FROM w{n - 1} a JOIN w{n - 1} b ON a.x = b.x)" for n in range(1, 61)]
    with pytest.raises(SqlError) as caught:
        plan(f"WITH w0 AS (SELECT x FROM nosuch), {', '.join(levels)} SELECT x FROM w60", TABLES)
    assert reasons(caught.value)[0][0] == "there is no table 'nosuch'"


def test_formulas_list_the_reasons_of_both_sides() -> None:
    tables = {
        "p": table(1, "p", {"a": INT}),
        "q": table(2, "q", {"at": TIMESTAMP, "ok": BOOLEAN}),
        "r": table(3, "r", {"b": DATE}),
    }
    with pytest.raises(FormulaError) as caught:
        formula_synopsis("nosuch(x) AND (p(x, y) OR other(x))", "monpoly", tables)
    assert [each.where for each in caught.value.reasons] == [f"line 1, column {n}" for n in (1, 16, 27)]
    with pytest.raises(FormulaError) as of_types:
        formula_synopsis("q(x, y) AND r(x)", "monpoly", tables)
    assert len(of_types.value.reasons) == 3


def test_synopses_list_all_tables_that_they_cannot_read() -> None:
    text = "SELECT a.name FROM staff a JOIN staff b ON a.room = b.room UNION SELECT s.name FROM staff s"
    with pytest.raises(SynopsisError) as caught:
        sql_synopsis(text, TABLES)
    assert caught.value.message == "this query has no synopsis: staff is a tracked table, whose rows end"
