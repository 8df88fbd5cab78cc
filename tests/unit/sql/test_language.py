"""Texts that mean what they say: types, constants, names, and the text that an installed query keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from netnews import TABLES, table
from weft.algebra.schema import BINARY, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.planning.plan import plan
from weft.sql.lower import expanded

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
    "a negative decimal is a constant": ("dec > -1.5", "odd.`dec` > CAST('-1.5' AS DECIMAL(2,1))"),
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
def test_the_text_that_is_kept_means_the_same(text: str) -> None:
    given = plan(text, EVERY)
    kept = expanded(text, EVERY)
    assert plan(kept, EVERY).query == given.query
    assert re.search(r"SELECT\s+\*", kept.replace("(SELECT *", "")) is None


def test_a_text_without_a_star_is_kept_as_it_is() -> None:
    text = "SELECT m.msgid /* of */ FROM msgs m WHERE ts < NOW() - INTERVAL 1 DAY 2 HOURS"
    assert expanded(text, TABLES) == text
