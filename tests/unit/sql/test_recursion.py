"""WITH RECURSIVE: what is refused, with the reason and what to write instead, and what a plan of it is."""

from __future__ import annotations

from typing import Final

import pytest

from netnews import TABLES
from weft.algebra.relation import Recursive
from weft.algebra.traverse import scans, walk
from weft.errors import SqlError
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import Plan, plan
from weft.sql.lower.query import bind, bind_view

AROUND: Final = "WITH RECURSIVE t AS (SELECT msgid FROM msgs UNION ALL {}) SELECT msgid FROM t"
THREAD: Final = (
    "WITH RECURSIVE thread(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL UNION ALL "
    "SELECT m.msgid, t.root FROM msgs m JOIN thread t ON m.inreplyto = t.msgid) "
)
REFUSED: Final = {
    "a recursion that reads itself twice": (
        "SELECT a.msgid FROM t a JOIN t b ON a.msgid = b.msgid",
        "not linear",
        "Write t once",
    ),
    "an aggregate in a recursion": (
        "SELECT MAX(msgid) AS m FROM t",
        "an aggregate over t",
        "above the recursion",
    ),
    "GROUP BY in a recursion": (
        "SELECT msgid FROM t GROUP BY msgid",
        "GROUP BY over t",
        "FROM t …",
    ),
    "a window function in a recursion": (
        "SELECT msgid FROM (SELECT msgid, ROW_NUMBER() OVER (ORDER BY msgid) AS n FROM t) x",
        "a window function over t",
        "above the recursion",
    ),
    "LIMIT in a recursion": (
        "(SELECT msgid FROM t LIMIT 3)",
        "LIMIT over t",
        "FROM t …",
    ),
    "LIMIT of a recursion": (
        "SELECT msgid FROM t LIMIT 3",
        "LIMIT over t",
        "FROM t …",
    ),
    "DISTINCT in a recursion with UNION ALL": (
        "SELECT DISTINCT msgid FROM t",
        "SELECT DISTINCT over t",
        "UNION instead of UNION ALL",
    ),
    "a recursion under NOT EXISTS": (
        "SELECT msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.msgid = m.inreplyto)",
        "t in a subquery",
        "NOT EXISTS (SELECT … FROM t …) in the SELECT after WITH",
    ),
    "a recursion under IN": (
        "SELECT msgid FROM msgs m WHERE m.inreplyto IN (SELECT msgid FROM t)",
        "t in a subquery",
        "Join the recursion",
    ),
    "a recursion in EXCEPT": (
        "SELECT x.msgid FROM (SELECT msgid FROM msgs EXCEPT SELECT msgid FROM t) x",
        "t in EXCEPT",
        "Write a condition",
    ),
    "a recursion on the inner side of LEFT JOIN": (
        "SELECT m.msgid FROM msgs m LEFT JOIN t ON t.msgid = m.inreplyto",
        "inner side of LEFT JOIN",
        "FROM t LEFT JOIN",
    ),
    "a recursion on the inner side of RIGHT JOIN": (
        "SELECT m.msgid FROM t RIGHT JOIN msgs m ON t.msgid = m.inreplyto",
        "inner side of RIGHT JOIN",
        "FROM t LEFT JOIN",
    ),
    "a recursion under LEFT SEMI JOIN": (
        "SELECT m.msgid FROM msgs m LEFT SEMI JOIN t ON t.msgid = m.inreplyto",
        "inner side of LEFT SEMI JOIN",
        "Write JOIN",
    ),
    "a recursion of another type": (
        "SELECT 1 AS one FROM t",
        "STRING in the first rows, but INT in the step",
        "CAST(… AS STRING)",
    ),
    "a recursion of another width": (
        "SELECT msgid, 1 AS one FROM t",
        "1 columns, but the step has 2",
        "same number",
    ),
    "a step with rows that do not read the recursion": (
        "SELECT x.msgid FROM (SELECT msgid FROM t UNION ALL SELECT msgid "
        "FROM users u JOIN msgs m ON m.sender = u.name) x",
        "not linear",
        "Write t once",
    ),
    "first rows that read the recursion": (
        "WITH RECURSIVE t AS (SELECT msgid FROM t UNION SELECT msgid FROM msgs) SELECT msgid FROM t",
        "t before UNION",
        "UNION ALL SELECT … FROM t JOIN",
    ),
    "a recursion without first rows": (
        "WITH RECURSIVE t AS (SELECT msgid FROM t) SELECT msgid FROM t",
        "t in its own query",
        "UNION ALL SELECT",
    ),
}
"""Maps a case to a step (or a whole text), a part of the message, and a part of the hint."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why_and_what_to_write(name: str) -> None:
    step, message, hint = REFUSED[name]
    with pytest.raises(SqlError) as caught:
        plan(step if step.startswith("WITH") else AROUND.format(step), TABLES)
    (found,) = caught.value.reasons or (caught.value,)
    assert isinstance(found, SqlError) and message in found.message and found.where is not None
    assert hint in str(found.hint), found.hint


def test_views_refuse_it() -> None:
    with pytest.raises(SqlError, match="a refresh of a view computes what the changes of tables change in one step"):
        bind_view(THREAD + "SELECT msgid FROM thread", {})


STANDING: Final = {
    "a thread": THREAD + "SELECT msgid, root FROM thread",
    "UNION": THREAD.replace("UNION ALL", "UNION") + "SELECT root, COUNT(*) AS n FROM thread GROUP BY root",
    "used twice": THREAD + "SELECT a.msgid FROM thread a JOIN thread b ON a.root = b.msgid",
    "NOW and NOT EXISTS": THREAD.replace(
        ") SELECT",
        " AND m.ts < NOW() - INTERVAL 1 DAY AND NOT EXISTS (SELECT 1 FROM users u WHERE u.name = m.sender)) SELECT",
    )
    + "SELECT msgid FROM thread",
    "the outer side of a join": AROUND.format("SELECT m.msgid FROM t LEFT JOIN msgs m ON m.inreplyto = t.msgid"),
    "a step in a derived table": AROUND.format(
        "SELECT d.msgid FROM (SELECT m.msgid FROM msgs m JOIN t ON m.inreplyto = t.msgid) AS d"
    ),
    "not recursive": "WITH RECURSIVE t AS (SELECT msgid FROM msgs) SELECT msgid FROM t",
}


@pytest.mark.parametrize("name", STANDING)
def test_a_plan_reads_back_and_shows_a_text_of_the_same_plan(name: str) -> None:
    found = plan(STANDING[name], TABLES)
    form = stored_form(found)
    assert restored_plan(form.body, form.signature, TABLES.values()).lifted == found.shape.lifted
    assert found.branches and recursions(plan(found.text, TABLES)) == recursions(found)


def recursions(found: Plan) -> int:
    return sum(isinstance(part, Recursive) for part in walk(found.query))


def test_equal_recursions_of_different_queries_are_one_state() -> None:
    states = {
        scan.table.name
        for top in ("SELECT msgid FROM thread", "SELECT x.root FROM thread x")
        for scan in scans(plan(THREAD + top, TABLES).standing)
    }
    assert len(states) == 1


def test_columns_after_with_rename_equal_columns() -> None:
    query = bind("WITH t(a, b) AS (SELECT msgid, msgid FROM msgs) SELECT a, b FROM t", TABLES)
    assert [output.name for output in query.outputs] == ["a", "b"]
