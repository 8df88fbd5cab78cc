"""What people type who come from other databases: taken, and as another text that means the same, or refused with what
to write instead."""

from __future__ import annotations

import re

import pytest

from netnews import table
from weft.algebra.schema import DATE, INT, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.planning.form import signature
from weft.planning.plan import plan
from weft.sql.functions import FUNCTIONS
from weft.sql.lower.advice import ADVICE, advice
from weft.sql.lower.scalar import NOW_NAMES

ORDERS = {
    "id": INT,
    "customer": STRING,
    "status": STRING,
    "total": DataType("DECIMAL", 10, 2),
    "placed": TIMESTAMP,
    "due": DATE,
}
PAYMENTS = {"order_id": INT, "amount": DataType("DECIMAL", 10, 2), "paid": TIMESTAMP, "note": STRING}
TABLES = {"orders": table(1, "orders", ORDERS), "payments": table(2, "payments", PAYMENTS)}
ABSENT = "LEFT JOIN payments p ON p.order_id = o.id"

TAKEN = {
    "placed < DATEADD(day, -1, GETDATE())": "NOW() + INTERVAL -1 DAY > placed",
    "DATEDIFF(hour, placed, GETDATE()) > 24": "NOW() >= placed + INTERVAL 25 HOURS",
    "TIMESTAMPDIFF(HOUR, placed, NOW()) > 24": "NOW() >= placed + INTERVAL 25 HOURS",
    "placed > NOW() - INTERVAL '1 day'": "NOW() < placed + INTERVAL 1 DAY",
    "placed > CURRENT_TIMESTAMP - INTERVAL 1 DAY": "NOW() < placed + INTERVAL 1 DAY",
    "CURDATE() > due": "CURRENT_DATE > due",
    "DATE(NOW()) > due": "CURRENT_DATE > due",
    "placed < '2024-01-01'::timestamp": "placed < TIMESTAMP '2024-01-01'",
    "customer ILIKE '%smith%'": "customer ILIKE '%smith%'",
    "customer REGEXP '^A'": "customer RLIKE '^A'",
    "status == 'open' AND total != 5": "status = 'open' AND total <> 5",
    'status = "open"': "status = 'open'",
    "NVL(status, 'x') = 'x'": "NVL(status, 'x') = 'x'",
    "id NOT IN (SELECT order_id FROM payments WHERE order_id IS NOT NULL) AND id > 3": (
        "id > 3 AND NOT id IN (SELECT order_id FROM payments WHERE order_id IS NOT NULL)"
    ),
}
"""Conditions on orders, and the same in other words."""

# (text, what is named, what to write)
REFUSED = (
    ("SELECT FROM orders", "SELECT without columns", "SELECT *"),
    ("SELECT TOP 10 * FROM orders", "TOP", "LIMIT 10"),
    ("SELECT id FROM orders FETCH FIRST 5 ROWS ONLY", "FETCH", "LIMIT 5"),
    ("SELECT id FROM orders ORDER BY placed DESC", "ORDER BY placed", "SELECT id, placed FROM orders"),
    ("SELECT id FROM orders HAVING id > 3", "HAVING", "SELECT id FROM orders WHERE id > 3"),
    ("SELECT customer, LISTAGG(status, ',') FROM orders", "LISTAGG()", "ARRAY_AGG(x)"),
    ("SELECT customer, GROUP_CONCAT(status) FROM orders", "GROUP_CONCAT()", "ARRAY_AGG(x)"),
    ("SELECT DISTINCT ON (customer) id FROM orders", "DISTINCT ON", "QUALIFY"),
    ("SELECT id FROM orders JOIN payments USING (id)", "USING", "ON a.x = b.y"),
    ("SELECT id FROM orders WHERE (id, total) NOT IN (SELECT order_id, amount FROM payments)", "IN with", "NOT EXISTS"),
    ("SELECT id FROM orders OUTER APPLY f(id)", "LATERAL", "LATERAL (SELECT"),
    ("SELECT id FROM orders WHERE placed < GETDATE() - 1", "TIMESTAMP - INT", "INTERVAL 1 DAY"),
    ("SELECT id FROM orders WHERE placed > NOW() - '1 day'::interval", "INTERVAL as a type", "INTERVAL '1 day'"),
    ("SELECT id FROM orders WHERE MONTH(placed) = MONTH(NOW())", "MONTH of NOW()", "DATE_TRUNC('MONTH', NOW())"),
    ("SELECT id FROM orders WHERE placed > NOW() - INTERVAL '1 month 1 day'", "of months and of days", "two intervals"),
    ("SELECT SESSION_WINDOW(placed, '5 minutes') AS s FROM orders", "SESSION_WINDOW()", "NOT EXISTS"),
    (
        "SELECT id FROM orders WHERE TIMESTAMPDIFF(MONTH, NOW(), placed) > 10",
        "MONTHS",
        "NOW() <= DATEADD(MONTH, -11, ts)",
    ),
    ("SELECT id FROM orders WHERE TIMESTAMPDIFF(YEAR, NOW(), placed) < 2", "YEARS", "NOW() > DATEADD(YEAR, -2, ts)"),
    ("SELECT id FROM orders WHERE MONTHS_BETWEEN(NOW(), placed) > 10", "NOW()", "NOW() > DATEADD(MONTH, 10, ts)"),
    ("SELECT id FROM orders WHERE placed < NOW() - '30 days'", "TIMESTAMP - STRING", "ts - INTERVAL 30 DAYS"),
    ("SELECT id FROM orders WHERE due < DATE('now', '-7 days')", "1 argument, not 2", "CURRENT_DATE - INTERVAL 7 DAYS"),
    ("SELECT LPAD(id, 3, '0') AS x FROM orders", "STRING, not INT", "CAST(id AS STRING)"),
    ("SELECT LPAD(status, id) AS x FROM orders", "a constant as argument 2", "as a number"),
    ("SELECT OVERLAY(status PLACING 'x' FROM 1) AS x FROM orders", "OVERLAY PLACING", "CONCAT"),
    ("SELECT FORMAT_NUMBER(id, 2) AS x FROM orders", "FORMAT_NUMBER", "ROUND"),
    ("SELECT id FROM orders WHERE ISODOW(placed) = 1", "ISODOW", "WEEKDAY(ts)"),
    ("SELECT DAYNAME(placed) AS x FROM orders", "DAYNAME", "DATE_FORMAT(ts, 'EEEE')"),
    ("SELECT BROUND(total) AS x FROM orders", "BROUND", "ROUND(value, digits)"),
    ("SELECT id FROM orders WHERE placed < DATE_SUB(NOW(), INTERVAL 1 DAY)", "DATE_SUB", "NOW() - INTERVAL '1' DAY"),
    ("SELECT id FROM orders WHERE placed < DATE_ADD(NOW(), INTERVAL 2 HOUR)", "DATE_ADD", "NOW() + INTERVAL '2' HOUR"),
    ("SELECT id FROM orders WHERE placed < TIMESTAMP_SUB(NOW(), INTERVAL 1 DAY)", "TIMESTAMP_SUB", "NOW() - INTERVAL"),
    ("SELECT id FROM orders WHERE TIMESTAMP_DIFF(NOW(), placed, HOUR) > 24", "TIMESTAMP_DIFF", "DATEDIFF(HOUR"),
    ("SELECT id FROM orders WHERE DATE_DIFF(CURRENT_DATE(), due, DAY) > 3", "DATE_DIFF", "DATE_DIFF(DAY, start, end)"),
    ("SELECT id FROM orders WHERE AGE(placed) > INTERVAL '1 day'", "AGE()", "DATEDIFF(HOUR"),
    ("SELECT id FROM orders WHERE placed < SYSDATE - 1", "SYSDATE", "NOW()"),
    ("SELECT id FROM orders WHERE placed < SYSDATETIME()", "SYSDATETIME()", "NOW()"),
    ("SELECT id FROM orders WHERE placed < UTC_TIMESTAMP()", "UTC_TIMESTAMP()", "NOW()"),
    ("SELECT id FROM orders WHERE UNIX_TIMESTAMP() - UNIX_TIMESTAMP(placed) > 60", "UNIX_TIMESTAMP", "NOW() - ts >"),
    ("SELECT id FROM orders WHERE EXTRACT(EPOCH FROM placed) > 3600", "EXTRACT(EPOCH", "UNIX_TIMESTAMP(ts)"),
    ("SELECT DATE_PART('hour', placed) AS h FROM orders", "DATE_PART()", "EXTRACT(HOUR FROM ts)"),
    ("SELECT TRUNC(placed) AS d FROM orders", "TRUNC()", "DATE_TRUNC('DAY', ts)"),
    ("SELECT DATE_TRUNC(placed, DAY) AS d FROM orders", "DATE_TRUNC", "DATE_TRUNC('DAY', ts)"),
    ("SELECT TIME_BUCKET('1 day', placed) AS d FROM orders", "TIME_BUCKET()", "DATE_TRUNC('DAY', ts)"),
    ("SELECT TO_CHAR(placed, 'YYYY-MM-DD') AS s FROM orders", "TO_CHAR()", "DATE_FORMAT(ts, 'yyyy-MM-dd')"),
    ("SELECT STRFTIME('%Y', placed) AS s FROM orders", "STRFTIME()", "DATE_FORMAT(ts, 'yyyy-MM-dd')"),
    ("SELECT STR_TO_DATE(status, '%Y') AS s FROM orders", "STR_TO_DATE()", "TO_DATE(text, 'yyyy-MM-dd')"),
    ("SELECT FROM_UNIXTIME(id) AS s FROM orders", "FROM_UNIXTIME()", "CAST(seconds AS TIMESTAMP)"),
    ("SELECT id FROM orders WHERE customer ~ '^A'", "~", "RLIKE"),
    ("SELECT id FROM orders WHERE customer ~* '^A'", "~*", "RLIKE"),
    ("SELECT id FROM orders WHERE customer SIMILAR TO 'A%'", "SIMILAR TO", "RLIKE"),
    ("SELECT id FROM orders WHERE REGEXP_MATCHES(customer, '^A')", "REGEXP_MATCHES()", "RLIKE"),
    ("SELECT id FROM orders WHERE ISNULL(status, 'x') = 'x'", "ISNULL", "COALESCE"),
    ("SELECT IIF(total > 5, 'a', 'b') AS s FROM orders", "IIF()", "IF(condition, a, b)"),
    ("SELECT DECODE(status, 'a', 1, 0) AS s FROM orders", "DECODE()", "CASE WHEN"),
    ("SELECT CONVERT(VARCHAR, id) AS s FROM orders", "CONVERT()", "CAST(value AS STRING)"),
    ("SELECT TRY_CONVERT(INT, customer) AS c FROM orders", "TRY_CONVERT()", "TRY_CAST"),
    ("SELECT SAFE_CAST(customer AS INT) AS s FROM orders", "SAFE_CAST()", "TRY_CAST"),
    ("SELECT SAFE_DIVIDE(total, id) AS s FROM orders", "SAFE_DIVIDE()", "TRY_DIVIDE"),
    ("SELECT CAST(customer AS UNSIGNED) AS c FROM orders", "UNSIGNED", "BIGINT"),
    ("SELECT CHARINDEX('a', customer) AS s FROM orders", "CHARINDEX()", "INSTR"),
    ("SELECT STRPOS(customer, 'a') AS s FROM orders", "STRPOS()", "INSTR"),
    ("SELECT LEN(customer) AS s FROM orders", "LEN()", "LENGTH"),
    ("SELECT SUBSTRING(customer FROM 1 FOR 3) AS s FROM orders", "SUBSTRING FROM", "SUBSTRING(text"),
    ("SELECT customer + ' ' + status AS c FROM orders", "STRING + STRING", "||"),
    ("SELECT [id] FROM orders", "[…]", "backquotes"),
    ("SELECT * EXCEPT (total) FROM orders", "EXCEPT", "List the columns"),
    ("SELECT id FROM public.orders", "public.orders", "Write orders"),
    ("SELECT id FROM orders WITH (NOLOCK)", "a hint", "Remove it"),
    ("SELECT id FROM orders FOR UPDATE", "FOR UPDATE", "Remove it"),
    ("SELECT id FROM orders TABLESAMPLE (10 PERCENT)", "TABLESAMPLE", "HASH(id)"),
    ("SELECT id INTO x FROM orders", "INTO", "weft install"),
    ("SELECT id FROM orders WHERE RAND() < 0.1", "RAND()", "key"),
    ("SELECT UUID() AS u FROM orders", "UUID()", "key"),
    ("SELECT id FROM orders WHERE id = ?", "a parameter", "value itself"),
    ("SELECT id FROM orders WHERE id = @id", "a parameter", "value itself"),
    ("SELECT UNNEST(status) AS u FROM orders", "UNNEST()", "LATERAL EXPLODE"),
    ("SELECT id FROM orders WHERE 'x' IN status", "IN without parentheses", "ARRAY_CONTAINS"),
    ("SELECT TRANSFORM(status, s -> UPPER(s)) AS s FROM orders", "TRANSFORM", "EXISTS(tags, t -> t = 'x')"),
    ("SELECT id FROM orders LATERAL VIEW EXPLODE(status) s AS one", "EXPLODE takes an ARRAY", "FROM_JSON"),
    ("SELECT id FROM orders WHERE status IN ()", "IN takes", "IN (1, 2)"),
    ("SELECT id FROM orders WHERE", "missing", "SELECT"),
    ("SELECT id FROM orders WHERE when > placed", "near 'when'", "with backquotes: `when`"),
    ("SELEC id FROM orders", "'FROM' is unexpected", "SELECT"),
    ("SELECT id FROM orders WHERE status = 'open", "is not closed", "SELECT"),
    ("-- nothing", "no statement", "SELECT"),
    ("UPDATE orders SET status = 'x'", "UPDATE", "SELECT"),
)
PARSERS_WORDS = re.compile(
    r"[Tt]oken|Expecting|Required keyword|Invalid expression|sqlglot|<class|\b[A-Z][a-z]+[A-Z]\w*"
)


@pytest.mark.parametrize("condition", TAKEN)
def test_accepted_texts_have_their_usual_meaning(condition: str) -> None:
    found, same = (plan(f"SELECT id FROM orders WHERE {each}", TABLES).text for each in (condition, TAKEN[condition]))
    assert found == same


@pytest.mark.parametrize(("text", "construct", "instead"), REFUSED)
def test_a_refusal_says_what_to_write(text: str, construct: str, instead: str) -> None:
    with pytest.raises(SqlError) as caught:
        plan(text, TABLES)
    message, hint = str(caught.value), caught.value.hint or ""
    assert construct in message
    assert instead in hint
    assert not PARSERS_WORDS.search(message), message


def test_sixty_and_more_were_tried() -> None:
    assert len({*TAKEN, *(text for text, _, _ in REFUSED)}) > 90


ANTI = {
    f"SELECT o.id FROM orders o {ABSENT} WHERE p.order_id IS NULL": (
        "SELECT o.id FROM orders o LEFT ANTI JOIN payments p ON p.order_id = o.id"
    ),
    "SELECT o.id FROM orders o LEFT OUTER JOIN payments AS p ON o.id = p.order_id AND p.amount > 5 "
    "WHERE o.total > 5 AND (p.amount IS NULL AND p.note IS NULL) AND o.placed < NOW() - INTERVAL 48 HOURS": (
        "SELECT o.id FROM orders o LEFT ANTI JOIN payments p ON o.id = p.order_id AND p.amount > 5 "
        "WHERE o.total > 5 AND o.placed < NOW() - INTERVAL 48 HOURS"
    ),
    "SELECT o.id FROM orders o LEFT JOIN payments p ON p.order_id <=> o.id AND p.order_id IS NOT NULL "
    "WHERE p.order_id IS NULL": (
        "SELECT o.id FROM orders o LEFT ANTI JOIN payments p ON p.order_id <=> o.id AND p.order_id IS NOT NULL"
    ),
    "SELECT o.id FROM orders o LEFT JOIN payments p USING (ts) LEFT JOIN payments q ON q.order_id = o.id "
    "WHERE q.order_id IS NULL AND p.ts IS NULL AND EXISTS (SELECT 1 FROM payments p WHERE p.note = o.status)": (
        "SELECT o.id FROM orders o LEFT ANTI JOIN payments p USING (ts) LEFT ANTI JOIN payments q ON q.order_id = o.id "
        "WHERE EXISTS (SELECT 1 FROM payments p_2 WHERE p_2.note = o.status)"
    ),
}


@pytest.mark.parametrize("text", ANTI)
def test_rows_without_a_partner_are_an_anti_join(text: str) -> None:
    assert signature(plan(text, TABLES)) == signature(plan(ANTI[text], TABLES))


def test_an_anti_join_in_with_is_one_wherever_it_is_named() -> None:
    late = f"WITH late AS (SELECT o.id FROM orders o {ABSENT} WHERE p.order_id IS NULL) "
    assert plan(f"{late} SELECT a.id FROM late a JOIN late b ON b.id = a.id", TABLES).branches


def test_advice_is_accepted() -> None:
    """A function that a piece of advice names is one."""
    others = {
        "row_number",
        "count",
        "median",
        "array_agg",
        "collect_set",
        "explode",
        "if",
        "split",
        "cast",
        "try_cast",
        "exists",
        "extract",
        "concat",
        *NOW_NAMES,
    }
    for name, text in ADVICE.items():
        called = {each.lower() for each in re.findall(r"\b([A-Z_]{2,})\(", text)}
        assert called <= {*FUNCTIONS, *others, "decimal", "in"}, name
    assert not FUNCTIONS.keys() & ADVICE.keys() - {"date", "date_add", "date_sub", "unix_timestamp", "isnull"}
    assert advice("SYSDATE") == advice("sysdate")


@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("placed > NOW() - INTERVAL '1 month 1 day'", 55),
        ("NOW() > placed + INTERVAL '1 year 1 day'", 55),
        ("id > 3 + WEIRD(placed)", 39),
    ],
)
def test_a_refused_interval_has_its_place(condition: str, column: int) -> None:
    with pytest.raises(SqlError) as refused:
        plan(f"SELECT id FROM orders WHERE {condition}", TABLES)
    line, _, found = (refused.value.where or "").partition(", column ")
    assert line == "line 1"
    assert abs(int(found) - column) <= 2


@pytest.mark.parametrize(
    "written", ["TIMESTAMPDIFF(MONTH, NOW(), placed) > 10", "TIMESTAMPDIFF(YEAR, NOW(), placed) < 2"]
)
def test_advice_for_months_is_accepted(written: str) -> None:
    with pytest.raises(SqlError) as refused:
        plan(f"SELECT id FROM orders WHERE {written}", TABLES)
    advised = (refused.value.hint or "").partition(": ")[2].removesuffix(".").replace("ts", "placed")
    plan(f"SELECT id FROM orders WHERE {advised}", TABLES)


def test_a_name_that_is_only_a_little_alike_is_not_meant() -> None:
    with pytest.raises(SqlError) as refused:
        plan("SELECT ISO_WEEK_DAY(placed) AS d FROM orders", TABLES)
    assert "Did you mean" not in (refused.value.hint or "")


def test_each_piece_of_advice_is_whole_sentences() -> None:
    cut = [text for text in ADVICE.values() if text != text.strip() or not text.endswith(".")]
    assert not cut
