"""The page docs/reference/constructs.md: every construct of SQL, whether it stands, and what to write instead.

``make bless`` writes the page. ``test_constructs.py`` checks the page.
"""

from __future__ import annotations

import re
from typing import Final

from netnews import TABLES
from weft.errors import SqlError, WeftError
from weft.planning.plan import plan

Constructs = dict[str, str]
"""Maps a construct to an example."""

SECTIONS: Final[dict[str, Constructs]] = {
    "SELECT and FROM": {
        "columns and expressions": "SELECT msgid, UPPER(subject) AS subject FROM msgs",
        "`DISTINCT`": "SELECT DISTINCT sender FROM msgs",
        "`*`, `alias.*`": "SELECT m.* FROM msgs m",
        "`WHERE`": "SELECT msgid FROM msgs WHERE sender = 'anna' OR subject LIKE 'Re:%'",
        "no `FROM`": "SELECT 1 AS one",
        "`VALUES`": "SELECT v.a FROM VALUES (1), (2) AS v(a)",
        "derived table": "SELECT d.msgid FROM (SELECT msgid FROM msgs) AS d",
        "derived table without a name": "SELECT msgid FROM (SELECT msgid FROM msgs)",
        "`WITH`": "WITH m AS (SELECT msgid FROM msgs) SELECT msgid FROM m",
        "`WITH RECURSIVE`": (
            "WITH RECURSIVE thread(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL UNION ALL "
            "SELECT m.msgid, t.root FROM msgs m JOIN thread t ON m.inreplyto = t.msgid) SELECT msgid, root FROM thread"
        ),
        "`WITH RECURSIVE` with `UNION`": (
            "WITH RECURSIVE led(msgid) AS (SELECT msgid FROM msgs WHERE sender = 'anna' UNION "
            "SELECT m.msgid FROM msgs m JOIN led ON m.inreplyto = led.msgid) SELECT COUNT(*) AS n FROM led"
        ),
        "`WITH RECURSIVE` that reads itself twice": (
            "WITH RECURSIVE led(a, b) AS (SELECT msgid, inreplyto FROM msgs UNION "
            "SELECT x.a, y.b FROM led x JOIN led y ON x.b = y.a) SELECT a, b FROM led"
        ),
        "`TABLESAMPLE`": "SELECT msgid FROM msgs TABLESAMPLE (10 PERCENT)",
        "a random function": "SELECT msgid FROM msgs WHERE RAND() < 0.5",
        "`EXISTS` as a value": (
            "SELECT m.msgid, EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid) AS answered FROM msgs m"
        ),
        "`IN` of a query as a value": ("SELECT newsgroup, sender IN (SELECT name FROM users) AS known FROM msgs"),
        "`PIVOT`": (
            "SELECT * FROM (SELECT newsgroup, sender FROM msgs) PIVOT (COUNT(sender) FOR newsgroup IN ('a', 'b'))"
        ),
        "`UNPIVOT`": (
            "SELECT * FROM (SELECT msgid, sender, subject FROM msgs) UNPIVOT (value FOR name IN (sender, subject))"
        ),
    },
    "Joins": {
        "`JOIN … ON`, comma, `CROSS JOIN`": "SELECT r.msgid FROM msgs m JOIN msgs r ON r.inreplyto = m.msgid",
        "`JOIN … USING`": "SELECT b.msgid FROM msgs a JOIN msgs b USING (subject)",
        "`NATURAL JOIN`": "SELECT msgid FROM msgs NATURAL JOIN users",
        "`LEFT SEMI JOIN`": "SELECT m.msgid FROM msgs m LEFT SEMI JOIN msgs r ON r.inreplyto = m.msgid",
        "`LEFT ANTI JOIN`": "SELECT m.msgid FROM msgs m LEFT ANTI JOIN msgs r ON r.inreplyto = m.msgid",
        "`LEFT JOIN`": "SELECT m.msgid, r.sender FROM msgs m LEFT JOIN msgs r ON r.inreplyto = m.msgid",
        "`RIGHT JOIN`": "SELECT m.msgid, r.sender FROM msgs m RIGHT JOIN msgs r ON r.inreplyto = m.msgid",
        "`FULL JOIN`": "SELECT m.msgid, u.name FROM msgs m FULL JOIN users u ON m.sender = u.name",
        "joins in parentheses": (
            "SELECT u.name, r.msgid FROM users u LEFT JOIN (msgs m JOIN msgs r ON r.inreplyto = m.msgid) "
            "ON m.sender = u.name"
        ),
        "outer joins in parentheses": (
            "SELECT u.name, r.msgid FROM users u LEFT JOIN (msgs m LEFT JOIN msgs r ON r.inreplyto = m.msgid) "
            "ON m.sender = u.name"
        ),
        "`LEFT JOIN` of an aggregate": (
            "SELECT u.name, c.n FROM users u LEFT JOIN (SELECT sender, COUNT(*) AS n FROM msgs GROUP BY sender) AS c "
            "ON c.sender = u.name"
        ),
        "`LATERAL`": (
            "SELECT m.msgid, l.sender FROM msgs m, "
            "LATERAL (SELECT r.sender FROM msgs r WHERE r.inreplyto = m.msgid) AS l"
        ),
        "`LATERAL VIEW EXPLODE`": "SELECT msgid, w FROM msgs LATERAL VIEW EXPLODE(SPLIT(subject, ' ')) words AS w",
        "`LATERAL VIEW OUTER EXPLODE`": (
            "SELECT msgid, w FROM msgs LATERAL VIEW OUTER EXPLODE(SPLIT(subject, ' ')) words AS w"
        ),
        "`LATERAL VIEW POSEXPLODE`": (
            "SELECT msgid, i, w FROM msgs LATERAL VIEW POSEXPLODE(SPLIT(subject, ' ')) words AS i, w"
        ),
        "`EXPLODE` in the select list": "SELECT msgid, EXPLODE(SPLIT(subject, ' ')) AS w FROM msgs",
        "`ASOF JOIN`": "SELECT m.msgid FROM msgs m ASOF JOIN reminders r ON m.ts >= r.ts",
    },
    "Subqueries": {
        "`[NOT] EXISTS`": (
            "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)"
        ),
        "`IN` with several columns": (
            "SELECT msgid FROM msgs WHERE (sender, date) IN (SELECT sender, MAX(date) FROM msgs GROUP BY sender)"
        ),
        "`[NOT] IN`": "SELECT name FROM users WHERE name NOT IN (SELECT sender FROM msgs WHERE sender IS NOT NULL)",
        "`IN` of a group": (
            "SELECT msgid FROM msgs WHERE sender IN (SELECT sender FROM msgs GROUP BY sender HAVING COUNT(*) > 5)"
        ),
        "scalar, an aggregate": "SELECT name FROM users WHERE age > (SELECT AVG(age) FROM users)",
        "scalar, correlated by equality": (
            "SELECT m.msgid FROM msgs m WHERE (SELECT COUNT(*) FROM msgs r WHERE r.inreplyto = m.msgid) > 5"
        ),
        "scalar, in the select list": (
            "SELECT m.msgid, (SELECT COUNT(*) FROM msgs r WHERE r.inreplyto = m.msgid) AS replies FROM msgs m"
        ),
        "scalar, correlated by another comparison": (
            "SELECT m.msgid FROM msgs m WHERE (SELECT COUNT(*) FROM msgs r WHERE r.date < m.date) > 5"
        ),
        "scalar, all columns of a `DISTINCT`": (
            "SELECT m.msgid FROM msgs m WHERE (SELECT DISTINCT r.sender FROM msgs r WHERE r.sender = m.sender) "
            "IS NOT NULL"
        ),
        "several correlated ones": (
            "SELECT m.msgid FROM msgs m WHERE (SELECT COUNT(*) FROM msgs r WHERE r.inreplyto = m.msgid AND "
            "r.sender = 'a') + (SELECT COUNT(*) FROM msgs r WHERE r.inreplyto = m.msgid AND r.sender = 'b') < 5"
        ),
        "scalar that can give two rows": "SELECT name FROM users WHERE age = (SELECT u.age FROM users u)",
        "`> ANY`, `= SOME`": "SELECT name FROM users WHERE age > ANY (SELECT id FROM reminders)",
        "`>= ALL`": "SELECT name FROM users WHERE age >= ALL (SELECT u.age FROM users u WHERE u.age IS NOT NULL)",
    },
    "GROUP BY": {
        "columns": "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup",
        "expressions": "SELECT YEAR(date) AS y, COUNT(*) AS n FROM msgs GROUP BY YEAR(date)",
        "an alias": "SELECT YEAR(date) AS y, COUNT(*) AS n FROM msgs GROUP BY y",
        "an ordinal": "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY 1",
        "`ALL`": "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY ALL",
        "`HAVING`": "SELECT newsgroup FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 5",
        "`ROLLUP`": "SELECT newsgroup, sender, COUNT(*) AS n FROM msgs GROUP BY ROLLUP(newsgroup, sender)",
        "`CUBE`": "SELECT newsgroup, sender, COUNT(*) AS n FROM msgs GROUP BY CUBE(newsgroup, sender)",
        "`GROUPING SETS`": (
            "SELECT newsgroup, sender, COUNT(*) AS n FROM msgs GROUP BY GROUPING SETS ((newsgroup), (sender), ())"
        ),
        "`GROUPING`": "SELECT newsgroup, GROUPING(newsgroup) AS g, COUNT(*) AS n FROM msgs GROUP BY ROLLUP(newsgroup)",
        "no groups": "SELECT COUNT(*) AS n FROM msgs",
        "a subquery": (
            "SELECT EXISTS (SELECT 1 FROM users WHERE name = sender) AS known, COUNT(*) AS n FROM msgs GROUP BY known"
        ),
        "over groups": (
            "SELECT MAX(n) AS most FROM (SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup) AS c"
        ),
        "a moving window": (
            "SELECT newsgroup, COUNT(*) AS n FROM msgs WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY newsgroup"
        ),
        "tumbling windows": (
            "SELECT WINDOW(ts, '10 minutes').start AS begins, COUNT(*) AS n FROM msgs GROUP BY WINDOW(ts, '10 minutes')"
        ),
        "hopping windows": (
            "SELECT WINDOW(ts, '10 minutes', '5 minutes').start AS begins, COUNT(*) AS n FROM msgs "
            "GROUP BY WINDOW(ts, '10 minutes', '5 minutes')"
        ),
        "final values of windows": (
            "SELECT WINDOW(ts, '10 minutes').start AS begins, COUNT(*) AS n FROM msgs "
            "GROUP BY WINDOW(ts, '10 minutes') HAVING WINDOW(ts, '10 minutes').end <= NOW()"
        ),
        "`SESSION_WINDOW`": "SELECT sender, COUNT(*) AS n FROM msgs GROUP BY sender, SESSION_WINDOW(ts, '10 minutes')",
        "`MOVING_WINDOW` of views": (
            "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup, MOVING_WINDOW(INTERVAL 1 DAY)"
        ),
    },
    "Aggregates": {
        "`COUNT(*)`, `COUNT(x)`": "SELECT COUNT(*) AS n, COUNT(subject) AS s FROM msgs",
        "`COUNT(DISTINCT x)`": "SELECT COUNT(DISTINCT sender) AS n FROM msgs",
        "`COUNT(DISTINCT x, y)`": "SELECT COUNT(DISTINCT sender, subject) AS n FROM msgs",
        "`SUM`, `AVG`": "SELECT SUM(age) AS s, AVG(age) AS a FROM users",
        "`MIN`, `MAX`": "SELECT MIN(date) AS a, MAX(date) AS b FROM msgs",
        "`MIN_BY`, `MAX_BY`": "SELECT MIN_BY(msgid, date) AS first, MAX_BY(msgid, date) AS last FROM msgs",
        "`BOOL_AND`, `EVERY`, `BOOL_OR`, `ANY`, `SOME`": (
            "SELECT BOOL_AND(active) AS a, BOOL_OR(active) AS b FROM users"
        ),
        "`COUNT_IF`": "SELECT COUNT_IF(active) AS n FROM users",
        "`STDDEV`, `STDDEV_POP`, `VARIANCE`, `VAR_POP`": "SELECT STDDEV(age) AS s, VAR_POP(age) AS v FROM users",
        "`MEDIAN`": "SELECT MEDIAN(age) AS m FROM users",
        "`ARRAY_AGG`, `COLLECT_LIST`": "SELECT newsgroup, ARRAY_AGG(sender) AS senders FROM msgs GROUP BY newsgroup",
        "`COLLECT_SET`": "SELECT newsgroup, COLLECT_SET(sender) AS senders FROM msgs GROUP BY newsgroup",
        "`FILTER`": "SELECT COUNT(*) FILTER (WHERE active) AS n FROM users",
        "`FILTER` with `NOW()` in a correlated subquery": (
            "SELECT name FROM users WHERE (SELECT COUNT(*) FILTER (WHERE date > NOW() - INTERVAL 1 DAY) FROM msgs "
            "WHERE sender = name) > 5"
        ),
        "`STRING_AGG`, `LISTAGG`": "SELECT newsgroup, STRING_AGG(sender, ',') AS senders FROM msgs GROUP BY newsgroup",
        "`FIRST`, `LAST`, `ANY_VALUE`": "SELECT FIRST(name) AS one FROM users",
        "`PERCENTILE`": "SELECT PERCENTILE(age, 0.9) AS p FROM users",
        "`APPROX_COUNT_DISTINCT`": "SELECT APPROX_COUNT_DISTINCT(sender) AS n FROM msgs",
        "an aggregate of an aggregate": "SELECT MAX(COUNT(*)) AS n FROM msgs GROUP BY newsgroup",
    },
    "Ranking and window functions": {
        "`ORDER BY … LIMIT`": "SELECT msgid, date FROM msgs ORDER BY date DESC LIMIT 10",
        "`OFFSET`": "SELECT msgid, date FROM msgs ORDER BY date DESC LIMIT 10 OFFSET 5",
        "`LIMIT` without `ORDER BY`": "SELECT msgid FROM msgs LIMIT 10",
        "`ORDER BY … LIMIT` in a derived table": (
            "SELECT d.sender FROM (SELECT sender, date FROM msgs ORDER BY date DESC LIMIT 10) AS d"
        ),
        "`ORDER BY` at the end": "SELECT msgid, date FROM msgs ORDER BY date",
        "`ROW_NUMBER`, `RANK`, `DENSE_RANK` under a constant": (
            "SELECT d.msgid FROM (SELECT msgid, ROW_NUMBER() OVER (PARTITION BY newsgroup ORDER BY date) AS place "
            "FROM msgs) AS d WHERE d.place <= 3"
        ),
        "`QUALIFY`": (
            "SELECT msgid FROM msgs QUALIFY RANK() OVER (PARTITION BY newsgroup ORDER BY LENGTH(body) DESC) <= 10"
        ),
        "a rank as a column": "SELECT msgid, RANK() OVER (ORDER BY date) AS place FROM msgs",
        "`LAG`, `LEAD`": "SELECT msgid, LAG(date) OVER (PARTITION BY sender ORDER BY date) AS before FROM msgs",
        "`LAG` with `IGNORE NULLS`": (
            "SELECT msgid, LAG(subject) IGNORE NULLS OVER (PARTITION BY sender ORDER BY date) AS before FROM msgs"
        ),
        "`LAST_VALUE` with `IGNORE NULLS`": (
            "SELECT msgid, LAST_VALUE(subject) IGNORE NULLS OVER (PARTITION BY sender ORDER BY date ROWS BETWEEN "
            "UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM msgs"
        ),
        "`NTH_VALUE` with `IGNORE NULLS`": (
            "SELECT msgid, NTH_VALUE(subject, 2) IGNORE NULLS OVER (PARTITION BY sender ORDER BY date) AS b FROM msgs"
        ),
        "`FIRST_VALUE`, `LAST_VALUE`, `NTH_VALUE`": (
            "SELECT msgid, FIRST_VALUE(subject) OVER (PARTITION BY newsgroup ORDER BY date) AS first FROM msgs"
        ),
        "an aggregate `OVER` a partition": "SELECT msgid, COUNT(*) OVER (PARTITION BY sender) AS n FROM msgs",
        "`ROWS BETWEEN`": (
            "SELECT msgid, COUNT(*) OVER (PARTITION BY sender ORDER BY date ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) "
            "AS n FROM msgs"
        ),
        "`RANGE BETWEEN`": (
            "SELECT msgid, COUNT(*) OVER (PARTITION BY sender ORDER BY date RANGE BETWEEN INTERVAL 1 HOUR PRECEDING "
            "AND CURRENT ROW) AS n FROM msgs"
        ),
        "`WINDOW w AS`": (
            "SELECT msgid, RANK() OVER w AS place FROM msgs WINDOW w AS (PARTITION BY sender ORDER BY date)"
        ),
        "`NTILE`, `PERCENT_RANK`, `CUME_DIST`": "SELECT msgid, NTILE(4) OVER (ORDER BY date) AS part FROM msgs",
    },
    "Set operations": {
        "`UNION`, `UNION ALL`": "SELECT name FROM users UNION SELECT sender FROM msgs",
        "`INTERSECT`": "SELECT name FROM users INTERSECT SELECT sender FROM msgs",
        "`EXCEPT`": "SELECT name FROM users EXCEPT SELECT sender FROM msgs",
        "`INTERSECT ALL`": "SELECT name FROM users INTERSECT ALL SELECT sender FROM msgs",
        "`EXCEPT ALL`": "SELECT name FROM users EXCEPT ALL SELECT sender FROM msgs",
    },
    "Time": {
        "`NOW()` compared in `WHERE`": "SELECT msgid FROM msgs WHERE ts < NOW() - INTERVAL 4 WEEKS",
        "`CURRENT_DATE`": "SELECT name FROM users WHERE born < CURRENT_DATE",
        "months, quarters and years": "SELECT msgid FROM msgs WHERE NOW() - INTERVAL 1 MONTH >= date",
        "months after a column": "SELECT msgid FROM msgs WHERE date + INTERVAL 1 YEAR <= NOW()",
        "a time zone": (
            "SELECT msgid FROM msgs WHERE FROM_UTC_TIMESTAMP(NOW(), 'Europe/Prague') - INTERVAL 1 MONTH >= date"
        ),
        "`NOW()` under `OR`": "SELECT msgid FROM msgs WHERE sender = 'anna' OR date < NOW()",
        "`NOW()` in `CASE`": "SELECT msgid FROM msgs WHERE CASE WHEN sender = 'anna' THEN date < NOW() ELSE TRUE END",
        "`NOW()` in `COALESCE`": "SELECT msgid FROM msgs WHERE COALESCE(date, NOW()) < NOW() - INTERVAL 1 DAY",
        "`NOW()` in `HAVING`": ("SELECT sender FROM msgs GROUP BY sender HAVING MAX(date) < NOW() - INTERVAL 30 DAYS"),
        "`NOW()` in an aggregate": "SELECT COUNT_IF(date < NOW()) AS n FROM msgs",
        "months or a time zone below an aggregate": (
            "SELECT newsgroup, COUNT(*) FILTER (WHERE ts > FROM_UTC_TIMESTAMP(NOW(), 'Europe/Prague') - INTERVAL 1 "
            "MONTH) AS n FROM msgs GROUP BY newsgroup"
        ),
        "`NOW()` in the select list": "SELECT msgid, NOW() AS n FROM msgs",
        "`NOW()` compared in the select list": "SELECT msgid, CASE WHEN date < NOW() THEN 'late' END AS age FROM msgs",
        "`NOW()` in arithmetic": "SELECT msgid FROM msgs WHERE YEAR(NOW()) = 1993",
        "an interval as a column": (
            "SELECT a.msgid, b.date - a.date AS delay FROM msgs a JOIN msgs b ON b.inreplyto = a.msgid"
        ),
        "an aggregate of intervals": "SELECT newsgroup, AVG(ts - date) AS delay FROM msgs GROUP BY newsgroup",
        "`FOR SYSTEM_TIME`": "SELECT name FROM staff FOR SYSTEM_TIME AS OF TIMESTAMP '1993-04-05'",
    },
}


def refusal_text(error: WeftError) -> str:
    """The reasons of a refusal and what to write, in one line."""
    parts = [refusal_text(each) for each in error.reasons] or [error.message, *([error.hint] if error.hint else [])]
    text = " ".join(f"{part.rstrip('.')}." for part in dict.fromkeys(parts))
    return re.sub(r" The functions are [^.]*\.", "", text)  # SQL's page lists them


def verdict(text: str) -> str:
    """``stands``, or the reason of the refusal."""
    try:
        plan(text, TABLES)
    except SqlError as refused:
        return "refused: " + " ".join(refusal_text(refused).split())
    return "stands"


def page() -> str:
    """The page in Markdown."""
    lines = [
        "# Constructs of SQL",
        "",
        "With this page you can look up whether a standing query may use a construct. Each example was given to Weft,",
        "and the last column is what Weft said. A refusal says what to write instead. [SQL](sql.md) has the rules.",
    ]
    for title, constructs in SECTIONS.items():
        lines += ["", f"## {title}", "", "| construct | example | |", "| --- | --- | --- |"]
        for construct, text in constructs.items():
            cells = (construct, f"`{text}`", verdict(text))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
