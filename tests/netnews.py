"""Tables for tests of the language and of the derivation."""

from __future__ import annotations

from typing import Final

from weft.algebra.schema import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP, Column, DataType, TableSchema


def table(number: int, name: str, columns: dict[str, DataType], *, end: str | None = None) -> TableSchema:
    """Return a schema whose last column is ``ts``. If ``end`` is given, the column before ``ts`` is the end of the
    rows.
    """
    kinds = {**columns, **({end: TIMESTAMP} if end else {}), "ts": TIMESTAMP}
    found = tuple(Column(n, label, kind, label != "ts") for n, (label, kind) in enumerate(kinds.items(), 1))
    return TableSchema(number, name, found, "ts", end)


MSGS: Final = table(
    1,
    "msgs",
    {
        "msgid": STRING,
        "sender": STRING,
        "subject": STRING,
        "date": TIMESTAMP,
        "newsgroup": STRING,
        "inreplyto": STRING,
        "body": STRING,
    },
)
REMINDERS: Final = table(2, "reminders", {"id": INT, "text": STRING, "whenToRemind": TIMESTAMP})
ANNOUNCEMENTS: Final = table(3, "announcements", {"id": INT, "title": STRING, "expires": TIMESTAMP, "days": INT})
USERS: Final = table(4, "users", {"name": STRING, "age": BIGINT, "born": DATE, "active": BOOLEAN})
STAFF: Final = table(5, "staff", {"name": STRING, "room": STRING}, end="until")
TABLES: Final = {t.name: t for t in (MSGS, REMINDERS, ANNOUNCEMENTS, USERS, STAFF)}
