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
from weft.sql.rendering.render import query_sql

DECIMAL = DataType("DECIMAL", 10, 2)
ODD = table(9, "odd", {"x y": STRING, "n": INT, "f": FLOAT, "dec": DECIMAL, "bin": BINARY, "b": BOOLEAN, "born": DATE})
EVERY = {**TABLES, "odd": ODD}


def where(condition: str) -> str:
    """The condition as it is rendered."""
    return re.sub(r"\s+", " ", plan(f"SELECT n FROM odd WHERE {condition}", EVERY).text.split("WHERE ", 1)[1])


MEANT = {
    "a date cut out of an instant": (
        "born = CAST('1993-04-05 12:00:00' AS DATE)",
        "odd.born = DATE '1993-04-05'",
    ),
    "an interval of several units is one": (
        "ts - INTERVAL 1 DAY 2 HOURS > ts",
        "(odd.ts - (INTERVAL '1' DAY + INTERVAL '2' HOUR)) > odd.ts",
    ),
    "IN compares each in its own type": (
        "born IN (DATE '1993-04-05', TIMESTAMP '1993-04-05')",
        "((odd.born = DATE '1993-04-05') OR "
        "(CAST(odd.born AS TIMESTAMP) = TIMESTAMP '1993-04-05 00:00:00.000000+00:00'))",
    ),
    "IN with a time as Spark writes it": ("born IN ('1993-04-05')", "odd.born IN (DATE '1993-04-05')"),
    "a string read as a day, its time passed over": (
        "born < '1993-04-05 12:00:00+05:00'",
        "odd.born < DATE '1993-04-05'",
    ),
    "a day moved by days is a day": (
        "born + INTERVAL 1 WEEK = DATE '1993-04-05'",
        "CAST(CAST(odd.born AS TIMESTAMP) + INTERVAL '7' DAY AS DATE) = DATE '1993-04-05'",
    ),
    "a threshold that is a day moved by days": (
        "NOW() >= born + INTERVAL 1 DAY",
        "NOW() >= (CAST(odd.born AS TIMESTAMP) + INTERVAL '1' DAY)",
    ),
    "an instant out of a number, which may be beyond any sum": (
        "NOW() > TIMESTAMP_MICROS(n) + INTERVAL 1 DAY",
        "NOW() >= TRY_ADD(TRY_ADD(TIMESTAMP_MICROS(odd.n), INTERVAL '1' DAY), INTERVAL '1' MICROSECOND)",
    ),
    "a number right behind the point": ("f > .5", "odd.f > CAST('0.5' AS DECIMAL(38,18))"),
    "TRY_CAST": ("TRY_CAST(`x y` AS INT) = n", "TRY_CAST(odd.`x y` AS INT) = odd.n"),
    "a sign before a number is part of it": ("n > -2147483648", "odd.n > (-2147483648)"),
    "IF": ("IF(b, n, 0) = 1", "(CASE WHEN odd.b THEN odd.n ELSE 0 END) = 1"),
    "IS DISTINCT FROM": ("n IS DISTINCT FROM 1", "(NOT (odd.n <=> 1))"),
    "NOW() IS DISTINCT FROM": (
        "NOW() IS DISTINCT FROM ts",
        "(NOW() < odd.ts OR NOW() >= (odd.ts + INTERVAL '1' MICROSECOND) OR odd.ts IS NULL)",
    ),
    "a NULL that NOW() is compared with": ("NOW() >= NULL", "NOW() >= CAST(NULL AS TIMESTAMP)"),
    "a NULL as a condition": ("b AND NULL", "CAST(NULL AS BOOLEAN) AND odd.b"),
    "an interval of a row's own, which may be too long for any sum": (
        "NOW() - n * INTERVAL 1 DAY >= ts",
        "NOW() >= TRY_ADD(odd.ts, TRY_MULTIPLY(INTERVAL '1' DAY, odd.n))",
    ),
    "a negative decimal keeps its digits": (
        "dec > -1.2345678901234567890123456789012345",
        "odd.`dec` > CAST('-1.2345678901234567890123456789012345' AS DECIMAL(35,34))",
    ),
    "a negative decimal is a constant": ("dec > -1.5", "odd.`dec` > CAST('-1.5' AS DECIMAL(38,18))"),
    "many ORs in an expression": (
        f"CASE WHEN {' OR '.join(['n = 1'] * 300)} THEN b ELSE b END",
        f"CASE WHEN {' OR '.join(['(odd.n = 1)'] * 300)} THEN odd.b ELSE odd.b END",
    ),
}


@pytest.mark.parametrize("name", MEANT)
def test_the_meaning_of_each_construct(name: str) -> None:
    text, wanted = MEANT[name]
    assert where(text) == wanted


TYPES = {
    "f / n": DOUBLE,
    "f / f": DOUBLE,
    "dec * dec": DataType("DECIMAL", 21, 4),
    "CEIL(dec)": DataType("DECIMAL", 9, 0),
    "MOD(n, dec)": DECIMAL,
    "dec + 1": DataType("DECIMAL", 11, 2),
    "dec + n": DataType("DECIMAL", 13, 2),
    "ROUND(dec)": DataType("DECIMAL", 9, 0),
    "ROUND(dec, 1)": DataType("DECIMAL", 10, 1),
    "ROUND(dec, 9)": DataType("DECIMAL", 11, 2),
    "ROUND(dec, -12)": DataType("DECIMAL", 13, 0),
    "ROUND(n, 1)": INT,
    "EXTRACT(SECOND FROM ts)": DataType("DECIMAL", 8, 6),
    "SECOND(ts)": INT,
    "born + INTERVAL 1 DAY": DATE,
    "born - INTERVAL '1 week 1 day'": DATE,
    "born + (born - DATE '1993-04-05')": DATE,
    "born + IF(b, INTERVAL 1 DAY, INTERVAL 2 DAYS)": DATE,
    "born + INTERVAL 24 HOURS": TIMESTAMP,
    "born + 2 * INTERVAL 1 DAY": TIMESTAMP,
    "9223372036854775808": DataType("DECIMAL", 19, 0),
    ".5": DataType("DECIMAL", 1, 1),
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
    "a number as a day": ("CAST(n AS DATE) = born", "cannot be converted"),
    "bytes as a number": ("CAST(bin AS INT) = 1", "cannot be converted"),
    "bytes joined": ("bin || bin IS NULL", "takes strings"),
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
    "CASE WHEN NULL": ("CASE WHEN NULL THEN b ELSE b END", "Spark requires a condition"),
    "an endless interval": ("NOW() > ts + INTERVAL 'Infinity' DAY", "not a number of DAY"),
    "an interval that is no number": ("NOW() > ts + INTERVAL 'NaN' DAY", "not a number of DAY"),
    "an interval with an exponent": ("NOW() > ts + INTERVAL 1e3 SECONDS", "not a number of SECONDS"),
    "an interval with too much of each": (
        "ts + INTERVAL '1 25:99:99' DAY TO SECOND > ts",
        "25 for HOUR, but the greatest allowed value is 23",
    ),
    "60 seconds": (
        "ts + INTERVAL '1 23:59:60' DAY TO SECOND > ts",
        "60 for SECOND, but the greatest allowed value is 59",
    ),
    "60 minutes": ("ts + INTERVAL '30:60' HOUR TO MINUTE > ts", "60 for MINUTE, but the greatest allowed value is 59"),
    "half a day": ("ts + INTERVAL '1.5' DAY > ts", "only seconds can have a fraction"),
    "half an hour of a span": ("ts + INTERVAL '1 1.5' DAY TO HOUR > ts", "not an interval DAY TO HOUR"),
    "a comma between units": ("ts + INTERVAL '1 day, 2 hours' > ts", "not an interval"),
    "digits of another script": ("ts + INTERVAL '٣' DAY > ts", "not a number of DAY"),
    "two signs": ("ts + INTERVAL -'-1 12' DAY TO HOUR > ts", "one sign"),
    "times and strings in one IN": ("`x y` IN ('a', TIMESTAMP '1993-04-05')", "times as text"),
    "IN with a time that Spark writes otherwise": ("ts IN ('1993-04-05')", "times as text"),
    "a pattern that is none": ("`x y` RLIKE '('", "a ( is not closed"),
    "a group that the pattern lacks": ("REGEXP_EXTRACT(`x y`, 'a', 1) = 'a'", "refers to group 1, but 'a' has 0"),
    "the first group where there is none": ("REGEXP_EXTRACT(`x y`, 'a') = 'a'", "refers to group 1"),
    "a replacement by group 5": ("REGEXP_REPLACE(`x y`, 'a', '$5') = 'a'", "does not name a group"),
    "a replacement that ends in an escape": (r"REGEXP_REPLACE(`x y`, 'a', '\\') = 'a'", "does not name a group"),
    "TRY_CAST of a number to an instant": ("TRY_CAST(n AS TIMESTAMP) = ts", "cannot be converted"),
    "an instant without a zone": ("CAST(`x y` AS TIMESTAMP_NTZ) = ts", "the type TIMESTAMP_NTZ"),
    "a constant of a type beside a decimal": ("dec + 3L = 1", "explicit type is ambiguous next to a DECIMAL"),
    "EXTRACT of what Spark does not have": ("EXTRACT(WEEKOFYEAR FROM ts) = 1", "no such field"),
    "a number without end": ("f > 1e999", "not a valid number"),
    "digits that no number has": ("ROUND(f, 2000000000) = 1", "at most 38 digits, not 2,000,000,000"),
    "digits far before the point": ("ROUND(dec, -2000000000) = 1", "at most 38 digits"),
    "a part of a text beyond an INT": ("SUBSTRING(`x y`, 1, 3000000000) = 'a'", "from -2^31 to 2^31 - 1"),
    "the left of a text beyond an INT": ("LEFT(`x y`, 3000000000) = 'a'", "from -2^31 to 2^31 - 1"),
    "a part of a split beyond an INT": ("SPLIT_PART(`x y`, ',', 3000000000) = 'a'", "from -2^31 to 2^31 - 1"),
    "a padding without end": ("LPAD(`x y`, 2000000000) = 'a'", "at most 1,000"),
    "a repetition within another": ("REPEAT(REPEAT(`x y`, 1000), 1000) = 'a'", "repeats 1,000,000 times"),
    "a decimal of many digits": ("CAST(n AS DECIMAL(2000000000, 2)) = 1", "at most 38 digits"),
    "an interval beyond the calendar": ("ts > NOW() - INTERVAL 2000000000 DAYS", "3,652,059 days"),
    "an interval times a large number": ("ts > NOW() - INTERVAL 1 DAY * 1e300", "3,652,059 days"),
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
def test_a_bound_query_is_read_back(text: str) -> None:
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
    with pytest.raises(PlanMismatch, match="does not exist"):
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


@pytest.mark.parametrize(
    "joined", ["((msgs b JOIN users c ON c.name = b.sender))", "((msgs b) JOIN ((users c)) ON c.name = b.sender)"]
)
def test_more_parentheses_around_a_join_mean_the_same(joined: str) -> None:
    text = "SELECT a.msgid, c.name FROM msgs a LEFT JOIN {} ON b.inreplyto = a.msgid"
    assert plan(text.format(joined), TABLES) == plan(text.format("(msgs b JOIN users c ON c.name = b.sender)"), TABLES)
