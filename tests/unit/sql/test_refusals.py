"""What is outside of the language is refused with its construct, its place and the reason (and often what to write
instead)."""

from __future__ import annotations

import random
import re

import pytest

from hostile_texts import HOSTILE
from netnews import TABLES
from weft.errors import SqlError, WeftError
from weft.planning.form import signature
from weft.planning.plan import for_one, plan
from weft.sql.functions import VOLATILE
from weft.sql.lower.advice import advice

# (text, what the message names, a word of the reason, line and column or None)
OUTSIDE = {
    "APPROX_COUNT_DISTINCT": (
        "SELECT APPROX_COUNT_DISTINCT(sender) AS n FROM msgs",
        "APPROX_COUNT_DISTINCT()",
        "COUNT(DISTINCT x)",
        "line 1, column 8",
    ),
    "NOW() on both sides": ("SELECT msgid FROM msgs WHERE NOW() - ts > NOW() - date", "both sides", "ts < due", None),
    "ALL as a value": (
        "SELECT name, age > ALL (SELECT id FROM reminders) AS b FROM users",
        "used as a value",
        "EXISTS (SELECT 1",
        None,
    ),
    "FIRST": ("SELECT sender, FIRST(subject) FROM msgs GROUP BY sender", "FIRST()", "MIN_BY(x, ts)", None),
    "MODE": ("SELECT MODE(sender) FROM msgs", "MODE()", "an order of rows", None),
    "PERCENTILE": ("SELECT PERCENTILE(ts, 0.5) FROM msgs", "PERCENTILE()", "MEDIAN", None),
    "ORDER BY in an array": (
        "SELECT ARRAY_AGG(sender ORDER BY ts) FROM msgs",
        "ORDER BY in ARRAY_AGG()",
        "ascending",
        None,
    ),
    "an aggregate of an aggregate": (
        "SELECT MAX(COUNT(*)) FROM msgs",
        "COUNT() here",
        "derived table: SELECT MAX(n) FROM (SELECT COUNT(*) AS n",
        None,
    ),
    "a name in double quotes": (
        """SELECT msgid FROM msgs WHERE "sender" = 'anna'""",
        '"sender"',
        "Write `sender` for the column, or 'sender' for the string",
        "line 1, column 30",
    ),
    "a name in double quotes after ORDER BY": (
        'SELECT msgid FROM msgs ORDER BY "sender" LIMIT 3',
        '"sender"',
        "Write `sender` for the column, or 'sender' for the string",
        "line 1, column 33",
    ),
    "a join in parentheses with USING": (
        "SELECT a.msgid FROM msgs a LEFT JOIN (msgs b LEFT JOIN msgs c USING (msgid)) ON a.msgid = b.msgid",
        "this join in parentheses",
        "Write ON",
        None,
    ),
    "IN as a value in ON of an outer join": (
        "SELECT m.msgid FROM msgs m LEFT JOIN msgs r ON (m.sender IN (SELECT name FROM users)) IS NULL",
        "IN (SELECT …) used as a value",
        "this ON takes it only as a condition of its own",
        None,
    ),
    "EXISTS in VALUES": (
        "SELECT v.a FROM VALUES (EXISTS (SELECT 1 FROM msgs)) AS v(a)",
        "EXISTS used as a value",
        "VALUES takes no subqueries",
        None,
    ),
    "nine INs as values": (
        f"SELECT {', '.join(f'sender IN (SELECT name FROM users WHERE age={n}) AS c{n}' for n in range(9))} FROM msgs",
        "at most 64 are allowed",
        "as a value, IN counts it up to seven times",
        None,
    ),
    "a join between a table and its ON": (
        "SELECT a.msgid FROM msgs a LEFT JOIN msgs b JOIN users c ON b.sender = c.name ON a.msgid = b.inreplyto",
        "a join between a table and its ON",
        "Write parentheses",
        "line 1, column 38",
    ),
    "an aggregate in WHERE": ("SELECT sender FROM msgs WHERE COUNT(*) > 1", "COUNT() here", "HAVING", None),
    "an aggregate in GROUP BY": (
        "SELECT COUNT(*) AS n FROM msgs GROUP BY n",
        "GROUP BY of an aggregate",
        "derived",
        None,
    ),
    "NOW in an aggregate": (
        "SELECT MAX(NOW()) AS n FROM msgs",
        "NOW() in an aggregate",
        "CASE, FILTER or WHERE",
        None,
    ),
    "a column outside GROUP BY": ("SELECT sender, subject FROM msgs GROUP BY sender", "subject", "MIN or MAX", None),
    "a number beyond the list": ("SELECT sender FROM msgs GROUP BY 2", "GROUP BY 2", "1 items", None),
    "CUBE of seven": (
        "SELECT COUNT(*) FROM msgs GROUP BY CUBE (sender, subject, msgid, ts, newsgroup, inreplyto, YEAR(ts))",
        "128 grouping sets",
        "GROUPING SETS",
        None,
    ),
    "GROUPING without sets": ("SELECT GROUPING(sender) FROM msgs GROUP BY sender", "GROUPING()", "ROLLUP", None),
    "MOVING_WINDOW": (
        "SELECT sender, COUNT(*) FROM msgs GROUP BY sender, MOVING_WINDOW(INTERVAL 1 DAY)",
        "MOVING_WINDOW()",
        "Only tracked tables record periods",
        None,
    ),
    "SESSION_WINDOW": (
        "SELECT COUNT(*) FROM msgs GROUP BY SESSION_WINDOW(ts, '5 minutes')",
        "SESSION_WINDOW()",
        "",
        None,
    ),
    "HAVING": ("SELECT sender FROM msgs HAVING sender > 'a'", "HAVING", "nothing is aggregated", None),
    "an aggregate over other outer rows than equal ones": (
        "SELECT msgid FROM msgs m\nWHERE EXISTS (SELECT COUNT(*) FROM msgs r WHERE r.ts > m.ts HAVING COUNT(*) > 2)",
        "m.ts in an aggregated subquery",
        "by =",
        "line 2, column 22",
    ),
    "OUTER JOIN": ("SELECT 1 AS x FROM msgs a OUTER JOIN users b ON TRUE", "OUTER JOIN", "LEFT", None),
    "ASOF JOIN": ("SELECT 1 AS x FROM msgs a ASOF JOIN users b ON TRUE", "ASOF JOIN", "Spark", None),
    "UNION of other widths": ("SELECT msgid FROM msgs UNION SELECT name, age FROM users", "UNION", "columns", None),
    "UNION of other types": ("SELECT msgid FROM msgs UNION SELECT age FROM users", "UNION", "CAST", None),
    "UNION BY NAME": ("SELECT msgid FROM msgs UNION BY NAME SELECT name AS msgid FROM users", "BY NAME", "order", None),
    "NOW in a derived table's list": (
        "SELECT n FROM (SELECT NOW() AS n FROM msgs) d",
        "NOW() in the select list",
        "every",
        None,
    ),
    "a CTE twice": (
        "WITH s AS (SELECT 1 AS a FROM msgs), s AS (SELECT 2 AS a FROM msgs) SELECT a FROM s",
        "'s' twice",
        "another name",
        None,
    ),
    "a CTE of itself": ("WITH s AS (SELECT * FROM s) SELECT * FROM s", "no table 's'", "", None),
    "CTEs that double": (
        "WITH a AS (SELECT msgid FROM msgs), b AS (SELECT x.msgid FROM a x, a y), c AS (SELECT x.msgid FROM b x, b y), "
        "d AS (SELECT x.msgid FROM c x, c y), e AS (SELECT x.msgid FROM d x, d y), "
        "f AS (SELECT x.msgid FROM e x, e y), g AS (SELECT x.msgid FROM f x, f y), h AS (SELECT x.msgid FROM g x, g y) "
        "SELECT x.msgid FROM h x, h y",
        "more than",
        "Split the query",
        None,
    ),
    "a row outside seen from a derived table": (
        "SELECT msgid FROM msgs m WHERE EXISTS (SELECT 1 FROM (SELECT name FROM users WHERE name = m.sender) d)",
        "no column 'm.sender'",
        "",
        None,
    ),
    "ORDER BY of a union": (
        "SELECT msgid FROM msgs UNION SELECT name FROM users ORDER BY 2",
        "ORDER BY",
        "the answer has 1 column",
        None,
    ),
    "NOW in VALUES": ("SELECT * FROM VALUES (NOW()) AS v(a)", "NOW() in VALUES", "every microsecond", None),
    "VALUES of unequal rows": ("SELECT * FROM VALUES (1), (1, 2) AS v(a)", "VALUES", "number of columns", None),
    "VALUES of NULLs": ("SELECT * FROM VALUES (NULL) AS v(a)", "NULLs", "CAST", None),
    "names for other columns": (
        "SELECT * FROM (SELECT msgid FROM msgs) AS d(a, b)",
        "2 column names for 1 column",
        "",
        None,
    ),
    "no columns": ("SELECT FROM msgs", "SELECT without columns", "SELECT *", None),
    "no columns in EXISTS": (
        "SELECT msgid FROM msgs WHERE EXISTS (SELECT FROM users)",
        "without columns",
        "SELECT 1",
        None,
    ),
    "an empty row": ("VALUES ()", "an empty row", "no column", None),
    "a name of Weft's for a derived column": (
        "SELECT * FROM (SELECT msgid FROM msgs) AS q(_instant)",
        "'_instant'",
        "reserved",
        None,
    ),
    "one name for two derived columns": (
        "SELECT q.a FROM (SELECT msgid, ts FROM msgs) AS q(a, a)",
        "'a'",
        "Rename",
        None,
    ),
    "USING beside another owner": (
        "SELECT name FROM users a JOIN staff b USING (name) JOIN users c ON c.age = a.age",
        "it is in a with b, c",
        "alias.column",
        None,
    ),
    "USING of several owners": (
        "SELECT a.age FROM users a JOIN users b ON TRUE JOIN staff c USING (name)",
        "it is in a, b",
        "alias",
        None,
    ),
    "ORDER BY": ("SELECT msgid FROM msgs ORDER BY ts", "ORDER BY", "columns of the answer", "line 1, column 33"),
    "ORDER BY in a subquery": ("SELECT msgid FROM (SELECT msgid FROM msgs ORDER BY 1) m", "ORDER BY", "sets", None),
    "subquery with several rows": (
        "SELECT msgid FROM msgs WHERE ts > (SELECT ts FROM users)",
        "several rows",
        "LIMIT 1",
        "line 1, column 43",
    ),
    "ANY as a value": ("SELECT sender = ANY (SELECT name FROM users) AS c FROM msgs", "ANY", "a condition", None),
    "NOT IN with several columns": (
        "SELECT msgid FROM msgs WHERE (sender, ts) NOT IN (SELECT name, ts FROM users)",
        "NOT IN with several columns",
        "NOT EXISTS",
        None,
    ),
    "IN with another number of columns": (
        "SELECT msgid FROM msgs WHERE (sender, ts) IN (SELECT name FROM users)",
        "the subquery of IN has 1",
        "not 2",
        None,
    ),
    "WITHIN GROUP": (
        "SELECT sender, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY LENGTH(body)) AS p FROM msgs GROUP BY sender",
        "WITHIN GROUP",
        "MEDIAN(x)",
        None,
    ),
    "NOW in the select list": (
        "SELECT msgid, NOW() AS n FROM msgs",
        "NOW() in the select list",
        "every microsecond",
        "line 1",
    ),
    "NOW in a function": (
        "SELECT msgid FROM msgs WHERE MONTH(NOW()) = 4",
        "MONTH of NOW()",
        "without end",
        None,
    ),
    "NOW on both sides": (
        "SELECT msgid FROM msgs WHERE NOW() - ts > NOW() - date",
        "NOW() on both sides",
        "one side",
        None,
    ),
    "NOW in a list with text": (
        "SELECT msgid FROM msgs WHERE NOW() IN (ts, '1993-04-05')",
        "IN compares a mixture of strings and times as text",
        "TIMESTAMP '1993-04-05 12:00:00'",
        None,
    ),
    "NOW in IN (SELECT)": (
        "SELECT msgid FROM msgs WHERE NOW() IN (SELECT whenToRemind FROM reminders)",
        "NOW() compared by IN (SELECT …)",
        "EXISTS",
        None,
    ),
    "CURRENT_DATE as a value": ("SELECT CURRENT_DATE() AS d FROM msgs", "NOW() in the select list", "every", None),
    "months to NOW": (
        "SELECT msgid FROM msgs WHERE TIMESTAMPDIFF(MONTH, NOW(), date) > 2",
        "MONTHS from NOW()",
        "NOW() <= DATEADD(MONTH, -3, ts)",
        None,
    ),
    "days between NOW and NOW": ("SELECT msgid FROM msgs WHERE DATEDIFF(NOW(), NOW()) = 0", "NOW()", "compared", None),
    "a row's own hours since": (
        "SELECT msgid FROM msgs, users WHERE TIMESTAMPDIFF(HOUR, msgs.ts, NOW()) > age",
        "HOURS",
        "INTERVAL 36 HOURS",
        None,
    ),
    "days of another type": ("SELECT msgid FROM msgs WHERE DATEDIFF(NOW(), ts) > 1.5", "DATEDIFF", "whole", None),
    "the unit behind": (
        "SELECT DATE_TRUNC(ts, 'day') AS d FROM msgs",
        "a unit in quotes",
        "DATE_TRUNC('DAY', ts)",
        None,
    ),
    "DATE_ADD of an interval": (
        "SELECT DATE_ADD(ts, INTERVAL 1 DAY) AS d FROM msgs",
        "DATE_ADD with an INTERVAL",
        "Write ts + INTERVAL '1' DAY",
        None,
    ),
    "a format of weeks": ("SELECT DATE_FORMAT(ts, 'YYYY') AS y FROM msgs", "'YYYY'", "yyyy", None),
    "a format with an open quote": ('SELECT DATE_FORMAT(ts, "a\'") AS y FROM msgs', "quote", "not closed", None),
    "a long padding": ("SELECT LPAD(msgid, 5000) AS y FROM msgs", "1,000", "any size", None),
    "a padding of a row": ("SELECT RPAD(name, age) AS y FROM users", "a constant", "known", None),
    "a part of a column": ("SELECT m.subject.a.b AS y FROM msgs m", "two parts", "(m.subject, '$.a.b')", None),
    "rand": (
        "SELECT msgid FROM msgs WHERE rand() < 0.5",
        "RAND()",
        "a different value at every call",
        "line 1, column 30",
    ),
    "uuid": ("SELECT uuid() AS u FROM msgs", "UUID()", "a different value", None),
    "months and days": (
        "SELECT msgid FROM msgs WHERE NOW() > ts + INTERVAL '1 month 2 days'",
        "an INTERVAL of months and of days",
        "Add two intervals",
        None,
    ),
    "no FROM": ("SELECT 1 AS one", "SELECT without FROM", "names no table", None),
    "two columns of one name": ("SELECT msgid, sender AS msgid FROM msgs", "'msgid'", "AS", None),
    "a column of Weft's": ("SELECT msgid AS _ordinal FROM msgs", "'_ordinal'", "reserved for Weft", None),
    "TABLESAMPLE": ("SELECT msgid FROM msgs TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", "sample", None),
    "SELECT * EXCEPT": ("SELECT * EXCEPT (body) FROM msgs", "EXCEPT", "", None),
    "BETWEEN SYMMETRIC": ("SELECT msgid FROM msgs WHERE ts BETWEEN SYMMETRIC ts AND ts", "SYMMETRIC", "Spark", None),
    "ESCAPE of two characters": ("SELECT 1 AS x FROM msgs WHERE sender LIKE 'a' ESCAPE '!!'", "ESCAPE", "one", None),
    "ESCAPE of a column": ("SELECT 1 AS x FROM msgs WHERE sender LIKE msgid ESCAPE '!'", "ESCAPE", "constant", None),
    "half an ESCAPE": ("SELECT 1 AS x FROM msgs WHERE sender LIKE 'a!b' ESCAPE '!'", "'a!b'", "before %", None),
    "RLIKE ESCAPE": ("SELECT 1 AS x FROM msgs WHERE sender RLIKE 'a' ESCAPE '!'", "", "", None),
    "LIKE ANY": ("SELECT msgid FROM msgs WHERE sender LIKE ANY ('a', 'b')", "LIKE ANY", "one by one", None),
    "an array": ("SELECT msgid FROM msgs WHERE ARRAY(1)[0] = 1", "[…]", "SPLIT", None),
    "a struct": ("SELECT STRUCT(msgid) AS s FROM msgs", "STRUCT", "", None),
    "a type that is not stored": ("SELECT CAST(msgid AS ARRAY<INT>) AS a FROM msgs", "the type", "plain", None),
    "months as an answer": ("SELECT INTERVAL 3 MONTHS AS m FROM msgs", "MONTHS", "cannot be stored", None),
    "NULL as an answer": ("SELECT NULL AS x FROM msgs", "NULL", "cannot be stored", None),
    "a condition that is none": ("SELECT msgid FROM msgs WHERE sender", "expected a condition", "STRING", None),
    "types that do not fit": ("SELECT msgid FROM msgs WHERE sender = 3", "cannot be compared", "CAST", None),
    "no timestamp": ("SELECT msgid FROM msgs WHERE ts > 'yesterday'", "'yesterday'", "TIMESTAMP '", None),
    "no such day": ("SELECT msgid FROM msgs WHERE ts > TIMESTAMP '1993-02-30'", "1993-02-30", "", None),
    "an ambiguous column": ("SELECT ts FROM msgs, users", "'ts'", "alias.column", None),
    "one alias twice": ("SELECT 1 AS x FROM msgs a, users a", "'a'", "alias", None),
    "wrong number of arguments": ("SELECT UPPER(sender, 1) AS x FROM msgs", "UPPER", "1 argument, not 2", None),
    "not SQL": ("SELEC msgid FROM msgs", "", "", None),
    "half of a query": ("SELECT msgid FROM msgs WHERE", "", "", None),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_constructs_outside_the_language_are_refused(name: str) -> None:
    text, construct, reason, where = OUTSIDE[name]
    with pytest.raises(SqlError) as caught:
        plan(text, TABLES)
    message = str(caught.value)
    assert construct in message
    assert reason in message
    if where is not None:
        assert (caught.value.where or "").startswith(where)


@pytest.mark.parametrize(
    "joined",
    [
        "(msgs b) AS z ON a.msgid = z.inreplyto",
        "(msgs b JOIN users c ON b.sender = c.name) AS z ON a.msgid = z.inreplyto",
        "((msgs b JOIN users c ON b.sender = c.name) AS z) ON a.msgid = z.inreplyto",
        "(msgs b) JOIN users c ON b.sender = c.name ON a.msgid = b.inreplyto",
        "(SELECT * FROM msgs) b JOIN users c ON b.sender = c.name ON a.msgid = b.inreplyto AND c.age > 3",
    ],
)
def test_a_refused_join_has_one_reason_and_a_hint(joined: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(f"SELECT a.msgid FROM msgs a LEFT JOIN {joined}", TABLES)
    assert " reasons:" not in str(caught.value)
    assert "not part of the language" not in str(caught.value)
    assert caught.value.hint


MISSPELT = {
    "table": ("SELECT msgid FROM mgs", "msgs"),
    "table in a subquery": ("SELECT msgid FROM msgs WHERE EXISTS (SELECT 1 FROM reminder)", "reminders"),
    "column": ("SELECT newsgrop FROM msgs", "newsgroup"),
    "qualified column": ("SELECT m.sendr FROM msgs AS m", "sender"),
    "alias": ("SELECT mm.sender FROM msgs AS m", "m"),
    "column of an outer table": (
        "SELECT msgid FROM msgs AS m WHERE EXISTS (SELECT 1 FROM users WHERE name = m.sendr)",
        "sender",
    ),
    "function": ("SELECT UPER(sender) AS s FROM msgs", "upper"),
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_name_gets_a_suggestion(name: str) -> None:
    text, meant = MISSPELT[name]
    with pytest.raises(SqlError) as caught:
        plan(text, TABLES)
    assert re.search(rf"Did you mean .*\b{meant}\b", caught.value.hint or "")
    assert (caught.value.where or "").startswith("line 1, column ")


def test_the_place_of_a_misspelt_name_is_its_own() -> None:
    with pytest.raises(SqlError) as caught:
        plan("SELECT msgid\nFROM msgs\nWHERE newsgrop = 'a'", TABLES)
    assert caught.value.where == "line 3, column 7"


def test_functions_whose_values_vary_have_a_replacement() -> None:
    assert [name for name in sorted(VOLATILE) if advice(name) is None] == []


def test_there_are_enough_hostile_texts() -> None:
    assert len(HOSTILE) >= 150


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timeout(20)
def test_hostile_texts_are_refused(name: str) -> None:
    with pytest.raises(SqlError):
        plan(HOSTILE[name], TABLES)


VALID = [
    "SELECT msgid, sender FROM msgs WHERE newsgroup LIKE 'comp.sys.%' AND NOT (sender = 'a' OR subject IS NULL)",
    "SELECT m.msgid FROM msgs AS m WHERE NOW() > m.ts + INTERVAL 4 WEEKS AND NOT EXISTS (SELECT 1 FROM msgs AS r "
    "WHERE r.inreplyto = m.msgid)",
    "SELECT a.msgid FROM msgs a JOIN msgs b ON a.inreplyto = b.msgid WHERE b.inreplyto NOT IN (SELECT c.msgid FROM "
    "msgs c WHERE c.ts BETWEEN NOW() - INTERVAL '1 day 2 hours' AND NOW()) OR COALESCE(a.sender, 'x') IN ('a', NULL)",
    "SELECT CASE WHEN age * 2 >= 3.5 THEN UPPER(name) ELSE '' END AS n FROM users WHERE born < DATE '1993-04-05'",
]
WORDS = """ SELECT | FROM | WHERE | AND | OR | NOT | IN | EXISTS | BETWEEN | LIKE | IS | NULL | NOW() | INTERVAL | CASE
| WHEN | END | AS | JOIN | ON | UNION | LIMIT 1| 1e999 | 99999999999999999999 | 0x1F | .5. | 1..2 | '\\\\' | X'0'
| INTERVAL '1' | INTERVAL 1e9 DAYS | TIMESTAMP '9999-99-99' | DATE 'x' | CAST( | b'1' | r'\\\\' | -- | /* | */
| INTERVAL 99999999999999 WEEKS | TIMESTAMP '9999-12-31' + INTERVAL 999999 DAYS | INTERVAL '1:2' HOUR TO MINUTE """
PIECES = [*"()',;*=<>!-+/\\`\"[]{}.:$@#%&|~^?\n\t\x00é—𝕏", *WORDS.split("|")]


@pytest.mark.parametrize("seed", range(4))
def test_a_spoilt_query_is_taken_or_refused_but_never_breaks(seed: int) -> None:
    """Whatever is typed, Weft answers with a plan and its SQL, or with an error of its own."""
    chance = random.Random(seed)
    for _ in range(400):
        text = chance.choice(VALID)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text) + 1)
            until = min(len(text), at + chance.choice([0, 0, 1, 5, 20]))
            text = text[:at] + chance.choice([*PIECES, ""]) + text[until:]
        try:
            found = plan(text, TABLES)
            assert signature(found)
            for event in found.branches:
                for_one(event, found.values, {}, whole=False)
            assert found.text
        except WeftError:
            continue
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {text!r}") from error
