"""Hints are followed to where they lead: a text that stands, or the words that it cannot be asked; no hint leads back.

Of each text the commands that its hints name are run by the front ends of queries, formulas and views.  Where a hint
names no whole text, the text that a person would write by it stands beside the refused one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from netnews import table
from weft.algebra.schema import BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.errors import Refused, SqlError, WeftError
from weft.planning.formula_plan import formula_synopsis
from weft.planning.plan import standing_plan
from weft.planning.synopsis_words import require_bounded
from weft.planning.view_plan import bound_view

MONEY: Final = DataType("DECIMAL", 12, 2)


def tracked(number: int, name: str, columns: dict[str, DataType]) -> TableSchema:
    """The recorded history of a source."""
    kinds = {**columns, "valid_from": TIMESTAMP, "valid_to": TIMESTAMP}
    found = tuple(Column(n, label, kind) for n, (label, kind) in enumerate(kinds.items(), 1))
    return TableSchema(number, name, found, "valid_from", "valid_to")


TABLES: Final = {
    each.name: each
    for each in (
        table(1, "tickets", {"id": INT, "customer": STRING, "team": STRING, "priority": INT}),
        table(2, "replies", {"ticket": INT, "agent": STRING, "text": STRING}),
        table(3, "orders", {"id": INT, "customer": STRING, "total": MONEY, "placed": TIMESTAMP, "due": TIMESTAMP}),
        table(4, "shipments", {"id": INT, "order_id": INT, "carrier": STRING, "weight": DOUBLE}),
        table(5, "payments", {"id": INT, "card": STRING, "ip": STRING, "cents": INT, "country": STRING}),
        table(6, "refunds", {"id": INT, "payment": INT, "reason": STRING, "manual": BOOLEAN}),
        table(7, "samples", {"host": STRING, "metric": STRING, "value": DOUBLE}),
        table(8, "logins", {"id": INT, "user": STRING, "host": STRING, "ok": INT}),
        tracked(9, "employees", {"name": STRING, "dept": STRING, "manager": STRING, "salary": INT}),
        tracked(10, "rooms", {"name": STRING, "room": STRING}),
        table(11, "msgs", {"msgid": STRING, "sender": STRING, "newsgroup": STRING, "inreplyto": STRING}),
        table(12, "likes", {"msgid": STRING, "who": STRING}),
    )
}

NOT_TODAY: Final = "not supported today"
COMMAND: Final = re.compile(
    r"""weft (install|view add) NAME2?((?: --language \w+)?) ("[^"]*"|'(?:[^']|'"'"')*')""",
)
WRITTEN: Final = "written"
"""The hint has the whole text in it."""

# What is asked, and where its hints lead: WRITTEN, NOT_TODAY, or the text that one writes by them.
ASKED: Final = {
    # support tickets
    "SELECT customer, COUNT(*) AS n FROM tickets WHERE ts > NOW() - INTERVAL 10 MINUTES GROUP BY customer "
    "HAVING COUNT(*) > 5": WRITTEN,
    "SELECT team, COUNT(*) AS n FROM tickets WHERE priority = 1 GROUP BY team": WRITTEN,
    "SELECT team FROM tickets GROUP BY team": WRITTEN,
    "SELECT customer FROM tickets WHERE priority IN (1, 2) GROUP BY customer HAVING COUNT(*) >= 3": WRITTEN,
    "SELECT id FROM tickets ORDER BY priority LIMIT 5": WRITTEN,
    "SELECT id, priority FROM tickets ORDER BY priority DESC LIMIT 1": WRITTEN,
    "SELECT id FROM tickets WHERE (SELECT COUNT(*) FROM replies WHERE ticket = id) = 0": WRITTEN,
    "SELECT t.id FROM tickets t WHERE (SELECT COUNT(*) FROM replies r WHERE r.ticket = t.id) = 0": WRITTEN,
    "SELECT t.id FROM tickets t WHERE 0 < (SELECT COUNT(*) FROM replies r WHERE r.ticket = t.id)": WRITTEN,
    "SELECT t.id FROM tickets t WHERE (SELECT COUNT(*) FROM replies r WHERE r.ticket = t.id) > 7": NOT_TODAY,
    "SELECT t.id, r.ts - t.ts AS waited FROM tickets t JOIN replies r ON r.ticket = t.id": (
        "SELECT t.id, TIMESTAMPDIFF(SECOND, t.ts, r.ts) AS waited FROM tickets t JOIN replies r ON r.ticket = t.id"
    ),
    "SELECT t.id, CAST(r.ts - t.ts AS INT) AS waited FROM tickets t JOIN replies r ON r.ticket = t.id": (
        "SELECT t.id, TIMESTAMPDIFF(SECOND, t.ts, r.ts) AS waited FROM tickets t JOIN replies r ON r.ticket = t.id"
    ),
    "SELECT id, NOW() - ts AS age FROM tickets": "SELECT id, ts FROM tickets",
    # orders and logistics
    "SELECT customer, SUM(total) AS spent FROM orders GROUP BY customer": NOT_TODAY,
    "SELECT customer, MAX(total) AS best FROM orders GROUP BY customer": WRITTEN,
    "SELECT MIN(placed) AS first FROM orders": WRITTEN,
    "SELECT carrier, SUM(weight) AS load FROM shipments WHERE ts >= NOW() - INTERVAL 1 DAY GROUP BY carrier": WRITTEN,
    "SELECT carrier, AVG(weight) AS mean FROM shipments GROUP BY carrier HAVING AVG(weight) > 12.5": WRITTEN,
    "SELECT s.carrier, COUNT(*) FROM shipments s JOIN orders o ON o.id = s.order_id GROUP BY s.carrier": NOT_TODAY,
    "SELECT id FROM orders WHERE total > (SELECT AVG(total) FROM orders)": NOT_TODAY,
    "SELECT id FROM orders WHERE total >= (SELECT MAX(total) FROM orders)": WRITTEN,
    "SELECT o.id FROM orders o WHERE o.total = (SELECT MAX(p.total) FROM orders p WHERE p.id = o.id)": WRITTEN,
    "SELECT id FROM orders WHERE total < ALL (SELECT weight FROM shipments)": WRITTEN,
    "SELECT o.id, LAG(o.total) OVER (PARTITION BY o.customer ORDER BY o.placed) AS before FROM orders o": WRITTEN,
    "SELECT * FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed DESC) AS n FROM orders) d "
    "WHERE n = 1": WRITTEN,
    "SELECT id FROM orders WHERE due - placed > 3": "SELECT id FROM orders WHERE due - placed > INTERVAL 3 DAYS",
    "SELECT id, (due - placed) / 2 AS half FROM orders": (
        "SELECT id, TIMESTAMPDIFF(SECOND, placed, due) / 2 AS half FROM orders"
    ),
    "WITH RECURSIVE r AS (SELECT id FROM orders UNION ALL SELECT r.id FROM r) SELECT id FROM r": NOT_TODAY,
    # payments and fraud
    "SELECT ip, COUNT(DISTINCT card) AS cards FROM payments WHERE ts > NOW() - INTERVAL 1 HOUR GROUP BY ip "
    "HAVING COUNT(DISTINCT card) > 3": WRITTEN,
    "SELECT card, SUM(cents) AS sum FROM payments WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY card "
    "HAVING SUM(cents) > 100000": WRITTEN,
    "SELECT card FROM payments WHERE country <> 'DE' GROUP BY card HAVING COUNT(*) > 2": WRITTEN,
    "SELECT COUNT(*) AS n FROM payments": WRITTEN,
    "SELECT reason, COUNT(*) AS n FROM refunds GROUP BY reason": WRITTEN,
    "SELECT manual, COUNT(*) AS n FROM refunds GROUP BY manual": NOT_TODAY,
    "SELECT COUNT(DISTINCT manual) AS n FROM refunds": NOT_TODAY,
    "SELECT reason, COUNT(*) AS n FROM refunds WHERE manual IS NOT NULL GROUP BY reason": WRITTEN,
    "SELECT card, MAX(cents) - MIN(cents) AS range FROM payments GROUP BY card": WRITTEN,
    "SELECT card, SUM(cents) OVER (PARTITION BY card ORDER BY ts) AS total FROM payments": NOT_TODAY,
    "SELECT id, LEAD(cents) OVER (PARTITION BY card ORDER BY ts) AS later FROM payments": WRITTEN,
    "SELECT id, NTILE(4) OVER (ORDER BY cents) AS quarter FROM payments": NOT_TODAY,
    "SELECT id, ROUND(cents, 2000000000) AS r FROM payments": "SELECT id, ROUND(cents, 2) AS r FROM payments",
    # servers and monitoring
    "SELECT host, AVG(value) AS mean FROM samples WHERE metric = 'cpu' AND ts > NOW() - INTERVAL 5 MINUTES "
    "GROUP BY host HAVING AVG(value) > 90": WRITTEN,
    "SELECT host, MIN(value) AS low, MAX(value) AS high FROM samples GROUP BY host": WRITTEN,
    "SELECT user, COUNT(*) AS n FROM logins WHERE ok = 0 AND ts > NOW() - INTERVAL 10 MINUTES GROUP BY user "
    "HAVING COUNT(*) > 5": WRITTEN,
    "SELECT host, value FROM samples QUALIFY ROW_NUMBER() OVER (PARTITION BY host ORDER BY ts DESC) = 1": WRITTEN,
    "SELECT host FROM samples WHERE value > (SELECT value FROM samples WHERE metric = 'limit')": WRITTEN,
    "SELECT DATE_TRUNC('HOUR', ts) AS hour, COUNT(*) FROM samples GROUP BY DATE_TRUNC('HOUR', ts)": NOT_TODAY,
    "SELECT host, COUNT(*) FROM samples WHERE host LIKE 'db%' GROUP BY host": NOT_TODAY,
    "SELECT host FROM samples WHERE value > COUNT(value)": "SELECT host FROM samples WHERE value > 3.0",
    "SELECT host FROM samples LIMIT 10 OFFSET 20": "SELECT host FROM samples",
    "SELECT host FROM samples HAVING value > 3": WRITTEN,
    # people and directories
    "SELECT dept, COUNT(*) AS n FROM employees GROUP BY dept": WRITTEN,
    "SELECT dept, AVG(salary) AS mean FROM employees GROUP BY dept HAVING COUNT(*) > 3": WRITTEN,
    "SELECT e.dept, COUNT(*) AS n FROM employees e JOIN rooms r ON r.name = e.name GROUP BY e.dept": WRITTEN,
    "SELECT dept, COUNT(*) AS n FROM employees WHERE valid_from > NOW() - INTERVAL 30 DAYS GROUP BY dept": NOT_TODAY,
    "SELECT name FROM employees e WHERE PERIOD_LENGTH(e) > INTERVAL 30 DAYS": WRITTEN,
    "SELECT dept, COUNT(*) AS n FROM employees GROUP BY dept, MOVING_WINDOW(INTERVAL 7 DAYS)": WRITTEN,
    "SELECT name FROM employees WHERE valid_to < NOW()": WRITTEN,
    "SELECT name FROM employees WHERE salary > (SELECT MAX(salary) FROM employees WHERE dept = 'a')": WRITTEN,
    "SELECT e.name, (SELECT r.room FROM rooms r WHERE r.name = e.name) AS room FROM employees e": (
        "SELECT e.name, r.room FROM employees e JOIN rooms r ON r.name = e.name"
    ),
    # mail and forums
    "SELECT newsgroup, COUNT(*) AS n FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 100": WRITTEN,
    "SELECT sender, COUNT(*) FROM msgs WHERE ts > NOW() - INTERVAL 1 MONTH GROUP BY sender": (
        "SELECT sender FROM msgs WHERE NOW() < DATEADD(MONTH, 1, ts)"
    ),
    "SELECT msgid FROM msgs m WHERE PERIOD_END(m) < NOW()": NOT_TODAY,
    "SELECT msgid, LISTAGG(who, ',') FROM likes GROUP BY msgid": "SELECT msgid, who FROM likes",
    "SELECT m.msgid FROM msgs m WHERE 3 < (SELECT COUNT(*) FROM likes l WHERE l.msgid = m.msgid)": NOT_TODAY,
    "SELECT msgid FROM msgs EXCEPT ALL SELECT msgid FROM likes": (
        "SELECT msgid FROM msgs EXCEPT SELECT msgid FROM likes"
    ),
    "SELECT DISTINCT ON (newsgroup) msgid FROM msgs": (
        "SELECT m.msgid FROM msgs m "
        "WHERE NOT EXISTS (SELECT 1 FROM msgs n WHERE n.newsgroup = m.newsgroup AND n.ts > m.ts)"
    ),
    "SELECT msgid FROM (SELECT msgid, COUNT(*) AS n FROM likes GROUP BY msgid) d WHERE n > 3": WRITTEN,
    "SELECT msgid FROM msgs m WHERE EXISTS (SELECT 1 FROM likes WHERE msgid = m.msgid HAVING COUNT(*) > 2)": NOT_TODAY,
}
VIEWS: Final = {
    "SELECT sender, COUNT(*) AS n FROM msgs GROUP BY sender": WRITTEN,
    "SELECT msgid FROM msgs": WRITTEN,
    "SELECT ip, SUM(cents) AS s FROM payments WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY ip": WRITTEN,
    "SELECT msgid FROM msgs m WHERE PERIOD_LENGTH(m) > INTERVAL 1 DAY": NOT_TODAY,
    "SELECT customer, SUM(total) AS s FROM orders GROUP BY customer": NOT_TODAY,
}
"""Texts of views over tables that are append-only."""


def accepted(text: str, language: str, *, view: bool = False, kept: Sequence[str] = ()) -> WeftError | None:
    """The refusal of a text by its front end; None: it stands.  ``kept`` are texts of views that are kept as NAME."""
    try:
        if text == "SELECT * FROM NAME":
            columns = dict(bound_view(kept[0], TABLES).columns)
            standing_plan(text, {"NAME": tracked(99, "NAME", columns)})
        elif view:
            bound_view(text, TABLES)
        elif language == "monpoly":
            require_bounded(formula_synopsis(text, "monpoly", TABLES))
        else:
            standing_plan(text, TABLES)
    except Refused as error:
        return error
    return None


def commands(hint: str) -> Iterator[tuple[str, str, bool]]:
    """The texts of the commands of a hint: each with its language, and whether it is a view's."""
    for found in COMMAND.finditer(hint):
        yield shlex.split(found[3])[0], found[2].removeprefix(" --language ") or "sql", found[1] == "view add"


def followed(error: WeftError, seen: frozenset[tuple[str, bool]]) -> bool:
    """Whether each reason's hint leads on: to a text that stands, or to the words that it cannot be asked."""
    for reason in error.reasons or (error,):
        hint = reason.hint or ""
        texts = list(commands(hint))
        assert texts or NOT_TODAY in hint, (reason.message, hint)
        kept = [text for text, _, view in texts if view]
        for text, language, view in texts:
            assert (text, view) not in seen, f"the hint leads back to {text}"
            further = accepted(text, language, view=view, kept=kept)
            if further is not None:
                followed(further, seen | {(text, view)})
    return True


@pytest.mark.parametrize("text", ASKED)
def test_hints_lead_to_what_stands_or_to_the_words_that_it_cannot_be_asked(text: str) -> None:
    error = accepted(text, "sql")
    assert isinstance(error, SqlError)
    leads = ASKED[text]
    hints = " ".join(reason.hint or "" for reason in error.reasons or (error,))
    if leads == NOT_TODAY:
        assert NOT_TODAY in hints
    elif leads == WRITTEN:
        assert list(commands(hints)), hints
        assert followed(error, frozenset([(text, False)]))
    else:
        assert hints
        assert accepted(leads, "sql") is None, accepted(leads, "sql")


@pytest.mark.parametrize("text", VIEWS)
def test_the_hints_of_views_do_not_lead_back(text: str) -> None:
    error = accepted(text, "sql", view=True)
    assert error is not None
    hint = " ".join(reason.hint or "" for reason in error.reasons or (error,))
    assert (NOT_TODAY in hint) == (VIEWS[text] == NOT_TODAY), hint
    for found, language, view in commands(hint):
        assert accepted(found, language, view=view) is None, accepted(found, language, view=view)


def test_there_are_sixty_and_more() -> None:
    assert len(ASKED) + len(VIEWS) > 65


def test_more_than_five_within_ten_minutes_is_written_out() -> None:
    error = accepted(
        "SELECT user, COUNT(*) AS n FROM logins WHERE ok = 0 AND ts > NOW() - INTERVAL 10 MINUTES GROUP BY user "
        "HAVING COUNT(*) > 5",
        "sql",
    )
    assert error is not None
    assert "(n <- CNT id; user (ONCE[0,10m) (logins(id, user, host, ok) AND ok = 0))) AND n > 5" in str(error.hint)


def test_a_column_that_no_formula_can_use_is_left_unnamed_unless_the_query_needs_it() -> None:
    error = accepted("SELECT reason, COUNT(*) AS n FROM refunds GROUP BY reason", "sql")
    assert error is not None
    assert "n <- CNT id; reason (ONCE refunds(id, payment, reason, _))" in str(error.hint)
    assert "Rows that differ only in ts or manual count as one row" in str(error.hint)
    needed = accepted("SELECT manual, COUNT(*) AS n FROM refunds GROUP BY manual", "sql")
    assert needed is not None
    assert "only integers, doubles and strings, but the column manual is BOOLEAN" in str(needed.hint)
