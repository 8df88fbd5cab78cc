"""Texts that mean what they say: types, constants, names, and the text that an installed query keeps."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from netnews import TABLES, table
from weft.algebra.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    Column,
    DataType,
    TableSchema,
)
from weft.algebra.stored import stored
from weft.errors import PlanMismatch, SqlError
from weft.planning.form import restored_plan, signature, stored_form
from weft.planning.plan import for_one, plan
from weft.sql.branch import query_sql

DECIMAL = DataType("DECIMAL", 10, 2)
ODD = table(9, "odd", {"x y": STRING, "n": INT, "f": FLOAT, "dec": DECIMAL, "bin": BINARY, "b": BOOLEAN, "born": DATE})
EVERY = {**TABLES, "odd": ODD}


def where(condition: str) -> str:
    """The condition as it is rendered."""
    return re.sub(r"\s+", " ", plan(f"SELECT n FROM odd WHERE {condition}", EVERY).text.split("WHERE ", 1)[1])


MEANT = {
    "a date cut out of an instant": (
        "born = CAST('1993-04-05 12:00:00' AS DATE)",
        "odd.born = CAST(TIMESTAMP '1993-04-05 12:00:00.000000+00:00' AS DATE)",
    ),
    "an interval of several units is one": (
        "ts - INTERVAL 1 DAY 2 HOURS > ts",
        "(odd.ts - (INTERVAL '1' DAY + INTERVAL '2' HOUR)) > odd.ts",
    ),
    "IN compares each in its own type": (
        "`x y` IN ('a', TIMESTAMP '1993-04-05')",
        "((odd.`x y` = 'a') OR (CAST(odd.`x y` AS TIMESTAMP) = TIMESTAMP '1993-04-05 00:00:00.000000+00:00'))",
    ),
    "IF": ("IF(b, n, 0) = 1", "(CASE WHEN odd.b THEN odd.n ELSE 0 END) = 1"),
    "IS DISTINCT FROM": ("n IS DISTINCT FROM 1", "(NOT (odd.n <=> 1))"),
    "NOW() IS DISTINCT FROM": (
        "NOW() IS DISTINCT FROM ts",
        "(NOW() < odd.ts OR NOW() >= (odd.ts + INTERVAL '1' MICROSECOND) OR odd.ts IS NULL)",
    ),
    "a NULL that NOW() is compared with": ("NOW() >= NULL", "NOW() >= CAST(NULL AS TIMESTAMP)"),
    "a NULL as a condition": (
        "CASE WHEN NULL THEN b ELSE b END",
        "CASE WHEN CAST(NULL AS BOOLEAN) THEN odd.b ELSE odd.b END",
    ),
    "an interval of a row's own, which may be too long for any sum": (
        "NOW() - n * INTERVAL 1 DAY >= ts",
        "NOW() >= TRY_ADD(odd.ts, TRY_MULTIPLY(INTERVAL '1' DAY, odd.n))",
    ),
    "a negative decimal is a constant": ("dec > -1.5", "odd.`dec` > CAST('-1.5' AS DECIMAL(38,18))"),
    "many ORs in an expression": (
        f"CASE WHEN {' OR '.join(['n = 1'] * 300)} THEN b ELSE b END",
        f"CASE WHEN {' OR '.join(['(odd.n = 1)'] * 300)} THEN odd.b ELSE odd.b END",
    ),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_is_meant(name: str) -> None:
    text, wanted = MEANT[name]
    assert where(text) == wanted


TYPES = {
    "f / n": DOUBLE,
    "f / f": DOUBLE,
    "dec * dec": DataType("DECIMAL", 21, 4),
    "CEIL(dec)": DataType("DECIMAL", 9, 0),
    "MOD(n, dec)": DECIMAL,
    "dec + NULL": DataType("DECIMAL", 11, 2),
    "NULL + NULL": DOUBLE,
    "ABS(NULL)": DOUBLE,
    "IF(b, n, dec)": DataType("DECIMAL", 12, 2),
    "CAST('1993-04-05 12:00' AS DATE)": DATE,
    "CAST('1993-04-05' AS TIMESTAMP)": TIMESTAMP,
}


@pytest.mark.parametrize("text", TYPES)
def test_the_type_of_an_answer_is_spark_s(text: str) -> None:
    assert plan(f"SELECT {text} AS c FROM odd", EVERY).query.types == (TYPES[text],)


NEVER_RUN = {
    "SUBSTRING of bytes": ("SUBSTRING(bin, 1) = 'a'", "TEXT"),
    "SUBSTRING from a day on": ("SUBSTRING(`x y`, born) = 'a'", "INTEGRAL"),
    "SHA2 of a number": ("SHA2(n, 256) = 'a'", "STRING"),
    "UNIX_MICROS of a day": ("UNIX_MICROS(born) = 1", "TIMESTAMP"),
    "NULLIF of two kinds": ("NULLIF(n, 'a') = 1", "no common type"),
    "a number as a day": ("CAST(n AS DATE) = born", "never converted"),
    "bytes as a number": ("CAST(bin AS INT) = 1", "never converted"),
    "bytes joined": ("bin || bin IS NULL", "joins strings"),
    "a pattern out of a row": ("REGEXP_EXTRACT(`x y`, `x y`) = 'a'", "a constant"),
    "RLIKE a column": ("`x y` RLIKE `x y`", "a constant"),
    "digits out of a row": ("ROUND(dec, n) = 1", "a constant"),
    "part 0": ("SPLIT_PART(`x y`, ',', 0) = 'a'", "other than 0"),
    "LIKE with half an escape": (r"`x y` LIKE 'a\\b'", "not a pattern"),
    "LIKE that ends in an escape": (r"`x y` LIKE 'a\\'", "not a pattern"),
    "39 digits": (f"dec > 0.{'1' * 39}", "38 digits"),
    "a DECIMAL of 39 digits": ("CAST(n AS DECIMAL(39, 2)) = 1", "38 digits"),
    "an interval of millions of years": ("NOW() > ts + INTERVAL 99999999999 DAYS", "days long"),
    "an interval grown so": ("NOW() > ts + 9999999 * INTERVAL 9 DAYS", "days long"),
    "minus TRUE": ("-TRUE", "takes a number"),
    "minus a day": ("-DATE '1993-04-05' = born", "takes a number"),
    "IN nothing": ("n IN ()", "at least one"),
    "NOW() IN nothing": ("NOW() IN ()", "at least one"),
    "IN (SELECT …) IS NULL": ("(n IN (SELECT age FROM users)) IS NULL", "used as a value"),
    "CASE of IN (SELECT …)": ("CASE WHEN n IN (SELECT age FROM users) THEN b END", "used as a value"),
    "a deep sum": (f"n = {' + '.join(['1'] * 200)}", "64"),
    "many signs": (f"n = {'- ' * 90}n", "64"),
    "many thresholds": (" OR ".join(f"NOW() = ts + INTERVAL {n} DAYS" for n in range(40)), "81 tables and comparisons"),
}


@pytest.mark.parametrize("name", NEVER_RUN)
def test_what_spark_would_not_run_is_refused_at_once(name: str) -> None:
    text, reason = NEVER_RUN[name]
    with pytest.raises(SqlError, match=re.escape(reason)):
        plan(f"SELECT n FROM odd WHERE {text}", EVERY)


NO_NAMES = ["SELECT n FROM odd@v1", "SELECT n:f FROM odd", "FROM odd", "SELECT n FROM odd AS odd@v1"]


@pytest.mark.parametrize("text", NO_NAMES)
def test_nothing_of_a_text_is_passed_over(text: str) -> None:
    with pytest.raises(SqlError):
        plan(text, EVERY)


GOLDEN = [
    part.partition("\n")[2].strip()
    for path in sorted((Path(__file__).parents[2] / "golden" / "queries").glob("*.sql"))
    if path.stem != "refused"
    for part in re.split(r"\n\n(?=-- )", path.read_text().strip())
]
STARRED = [
    "SELECT * FROM odd -- é 😀 * \n",
    "SELECT /* 😀 * */ o.*, m.msgid FROM odd AS o, msgs m WHERE o.ts > m.ts - INTERVAL 1 DAY 2 HOURS",
    "FROM odd SELECT *",
    "(SELECT `x y`, o.n AS k, u.* FROM odd o JOIN users u ON u.name = o.`x y`) ;",
    "SELECT\n  * /* all */\nFROM users a WHERE EXISTS (SELECT * FROM users b WHERE a.name = b.name)",
    "SELECT name, age * 2 AS twice FROM users",
]


@pytest.mark.parametrize("text", [*STARRED, *GOLDEN])
def test_what_was_bound_is_what_is_read_back(text: str) -> None:
    given = plan(text, EVERY)
    form = stored_form(given)
    assert restored_plan(form.body, form.signature, EVERY.values()) == given.shape
    wider = [with_columns(table, *(f"t{n}" for n in range(1, 9)), "c1", "msgid") for table in EVERY.values()]
    later = restored_plan(form.body, form.signature, wider)
    assert stored(later.lifted) == stored(given.shape.lifted)
    for event in later.branches:
        for_one(event, given.values, {}, whole=False, names=given.names)


def with_columns(table: TableSchema, *names: str) -> TableSchema:
    """The table as ``--evolve`` leaves it."""
    last = max(column.id for column in table.columns)
    more = [name for name in names if table.column(name) is None]
    added = tuple(Column(last + n, name, STRING) for n, name in enumerate(more, 1))
    return replace(table, columns=(*table.columns, *added))


def test_a_column_that_comes_later_changes_no_query() -> None:
    """``ref = msgid`` means the message outside; a column ``msgid`` of replies would be nearer."""
    replies = TableSchema(9, "replies", (Column(1, "ref", STRING), Column(2, "ts", TIMESTAMP)))
    tables = {"msgs": TABLES["msgs"], "replies": replies}
    text = "SELECT m.subject FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM replies r WHERE ref = msgid)"
    form = stored_form(plan(text, tables))
    evolved = {**tables, "replies": with_columns(replies, "msgid")}
    assert signature(plan(text, evolved)) != form.signature
    kept = restored_plan(form.body, form.signature, evolved.values())
    assert "t2.ref = t1.msgid" in query_sql(kept.lifted)


def test_a_plan_that_reads_back_as_another_query_is_refused() -> None:
    form = stored_form(plan("SELECT msgid FROM msgs WHERE sender = 'a'", TABLES))
    for damaged in (form.body.replace('"="', '"<>"'), form.body.replace('"format":1', '"format":7'), "{}", "[]", "x"):
        with pytest.raises(PlanMismatch):
            restored_plan(damaged, form.signature, TABLES.values())
    gone = [table for name, table in TABLES.items() if name != "msgs"]
    with pytest.raises(PlanMismatch, match="not there"):
        restored_plan(form.body, form.signature, gone)


SHARING = {
    "constants": ("sender = 'a'", "sender = 'b'"),
    "the order of conditions": (
        "sender = 'a' AND m.ts < NOW() - INTERVAL 1 DAY AND subject IS NULL",
        "subject IS NULL AND sender = 'b' AND m.ts < NOW() - INTERVAL 2 DAYS",
    ),
    "the length of a list": ("sender IN ('a', 'b')", "sender IN ('x', 'y', 'z', 'y')"),
    "a decimal's digits": ("LENGTH(sender) > 1.5", "LENGTH(sender) > 12.25"),
    "order within a subquery": (
        "EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid AND r.sender = 'a')",
        "EXISTS (SELECT 1 FROM msgs q WHERE q.sender = 'b' AND q.inreplyto = m.msgid)",
    ),
}


@pytest.mark.parametrize("name", SHARING)
def test_what_makes_no_plan_of_its_own(name: str) -> None:
    first, second = (plan(f"SELECT m.msgid FROM msgs m WHERE {where}", TABLES) for where in SHARING[name])
    assert signature(first) == signature(second)
    assert first.values != second.values
