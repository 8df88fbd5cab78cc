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
from weft.errors import WeftError
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
    "SELECT t.id, CAST(r.ts - t.ts AS INT) AS waited FROM tickets t JOIN replies r ON r.ticket = t.id": (
        "SELECT t.id, TIMESTAMPDIFF(SECOND, t.ts, r.ts) AS waited FROM tickets t JOIN replies r ON r.ticket = t.id"
    ),
    "SELECT id, NOW() - ts AS age FROM tickets": "SELECT id, ts FROM tickets",
    # orders and logistics
    "SELECT id FROM orders WHERE due - placed > 3": "SELECT id FROM orders WHERE due - placed > INTERVAL 3 DAYS",
    "SELECT id, due - placed + 2 AS more FROM orders": (
        "SELECT id, TIMESTAMPDIFF(SECOND, placed, due) + 2 AS more FROM orders"
    ),
    # payments and fraud
    "SELECT id, ROUND(cents, 2000000000) AS r FROM payments": "SELECT id, ROUND(cents, 2) AS r FROM payments",
    # servers and monitoring
    "SELECT host FROM samples WHERE value > COUNT(value)": "SELECT host FROM samples WHERE value > 3.0",
    "SELECT host FROM samples HAVING value > 3": WRITTEN,
    # people and directories
    "SELECT name FROM employees e WHERE PERIOD_LENGTH(e) > INTERVAL 30 DAYS": WRITTEN,
    "SELECT dept, COUNT(*) AS n FROM employees GROUP BY dept, MOVING_WINDOW(INTERVAL 7 DAYS)": WRITTEN,
    "SELECT name FROM employees WHERE valid_to < NOW()": WRITTEN,
    "SELECT e.name, (SELECT r.room FROM rooms r WHERE r.name = e.name) AS room FROM employees e": (
        "SELECT e.name, r.room FROM employees e JOIN rooms r ON r.name = e.name"
    ),
    # mail and forums
    "SELECT msgid FROM msgs m WHERE PERIOD_END(m) < NOW()": NOT_TODAY,
    "SELECT msgid, LISTAGG(who, ',') FROM likes GROUP BY msgid": (
        "SELECT msgid, ARRAY_JOIN(ARRAY_AGG(who), ',') AS who FROM likes GROUP BY msgid"
    ),
    "SELECT DISTINCT ON (newsgroup) msgid FROM msgs": (
        "SELECT m.msgid FROM msgs m "
        "WHERE NOT EXISTS (SELECT 1 FROM msgs n WHERE n.newsgroup = m.newsgroup AND n.ts > m.ts)"
    ),
    "WITH t AS (SELECT name FROM rooms UNION SELECT dept FROM employees e JOIN t USING (name)) SELECT name FROM t": (
        "WITH RECURSIVE t AS (SELECT name FROM rooms UNION SELECT dept FROM employees e JOIN t USING (name)) "
        "SELECT name FROM t"
    ),
    "SELECT word, COUNT(*) AS n FROM replies, UNNEST(SPLIT(text, ' ')) AS w(word) GROUP BY word": (
        "SELECT word, COUNT(*) AS n FROM replies, LATERAL EXPLODE(SPLIT(text, ' ')) AS w(word) GROUP BY word"
    ),
    # aggregates
    "SELECT CASE WHEN due < NOW() THEN 'late' ELSE 'open' END AS state, COUNT(*) AS n FROM orders GROUP BY 1": (
        "SELECT state, COUNT(*) AS n FROM (SELECT CASE WHEN due < NOW() THEN 'late' ELSE 'open' END AS state "
        "FROM orders) GROUP BY state"
    ),
    "SELECT COVAR_POP(id, ok) AS c FROM logins": "SELECT AVG(id * ok) - AVG(id) * AVG(ok) AS c FROM logins",
    "SELECT BIT_OR(ok) AS c FROM logins": "SELECT ARRAY_AGG(ok) AS c FROM logins",
}
HINTED: Final = {
    "WITH t AS (SELECT msgid FROM msgs UNION SELECT msgid FROM t) SELECT msgid FROM t": "WITH RECURSIVE t",
    "SELECT word FROM replies, UNNEST(SPLIT(text, ' ')) AS w(word)": "LATERAL EXPLODE(x) AS t(a)",
    "SELECT due < NOW() AS late, COUNT(*) AS n FROM orders GROUP BY late": "in a derived table, and group by",
    "SELECT CORR(value, value) AS c FROM samples": "AVG(x * y) - AVG(x) * AVG(y)",
    "SELECT BIT_XOR(ok) AS c FROM logins": "ARRAY_AGG(x)",
}
"""Refused texts, and a part of what to write instead."""
VIEWS: Final = {
    "SELECT sender, COUNT(*) AS n FROM msgs GROUP BY sender": WRITTEN,
    "SELECT msgid FROM msgs": WRITTEN,
    "SELECT ip, SUM(cents) AS s FROM payments WHERE ts > NOW() - INTERVAL 1 DAY GROUP BY ip": WRITTEN,
    "SELECT msgid FROM msgs m WHERE PERIOD_LENGTH(m) > INTERVAL 1 DAY": NOT_TODAY,
    "SELECT customer, SUM(total) AS s FROM orders GROUP BY customer": WRITTEN,
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
    except WeftError as error:
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
    assert isinstance(error, WeftError)
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


@pytest.mark.parametrize("text", HINTED)
def test_a_refusal_names_the_nearest_query(text: str) -> None:
    error = accepted(text, "sql")
    assert error is not None and HINTED[text] in str(error), error


@pytest.mark.parametrize("text", VIEWS)
def test_the_hints_of_views_do_not_lead_back(text: str) -> None:
    error = accepted(text, "sql", view=True)
    assert error is not None
    hint = " ".join(reason.hint or "" for reason in error.reasons or (error,))
    assert (NOT_TODAY in hint) == (VIEWS[text] == NOT_TODAY), hint
    for found, language, view in commands(hint):
        assert accepted(found, language, view=view) is None, accepted(found, language, view=view)
