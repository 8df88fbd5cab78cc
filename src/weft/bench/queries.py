"""The paper's test queries (figure 4); a missing inreplyto is NULL here."""

from __future__ import annotations

from typing import Final

QUERIES: Final = {
    "Q1": "SELECT msgid FROM msgs WHERE newsgroup = 'comp.databases'",
    "Q2": "SELECT msgid FROM msgs WHERE newsgroup LIKE 'comp.sys.%'",
    "Q3": ("SELECT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases'"),
    "Q4": (
        "SELECT m.msgid FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS "
        "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)"
    ),
    "Q5": (
        "SELECT m.msgid FROM msgs m, msgs m1, msgs m2 "
        "WHERE m.inreplyto IS NULL AND m1.inreplyto = m.msgid AND m2.inreplyto = m1.msgid"
    ),
}
