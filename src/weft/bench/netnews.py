"""Generate a NetNews of any size, the same for the same seed: 3,800 messages a day, the paper's table (section 6.2.1).

Six of ten messages are replies, most of them to recent messages.  One group in fifty is comp.databases.  A message's
time follows from its number, so "four weeks old" advances through the table as fast as the table grows.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pyarrow as pa

from weft.algebra.schema import STRING, TIMESTAMP, DataType

PER_DAY: Final = 3_800
DAY: Final = 86_400_000_000
BEGIN: Final = 733_968_000_000_000  # 1993-04-05 00:00 UTC
COLUMNS: Final[tuple[tuple[str, DataType], ...]] = (
    ("msgid", STRING),
    ("sender", STRING),
    ("subject", STRING),
    ("date", TIMESTAMP),
    ("newsgroup", STRING),
    ("inreplyto", STRING),
    ("body", STRING),
)
GROUPS: Final = (
    "comp.databases",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.sys.sun.admin",
    *(f"misc.group{number:02d}" for number in range(46)),
)


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
"""The paper's test queries (figure 4); a missing inreplyto is NULL here."""


def arrival(number: int) -> int:
    """Return the ts of message ``number``, microseconds UTC."""
    return BEGIN + number * DAY // PER_DAY


def messages(first: int, count: int, seed: int = 1992) -> pa.Table:
    """Return messages ``first`` to ``first + count - 1``: the columns of the table, with _own_time and _seq."""
    random = Random(seed * 1_000_003 + first)
    numbers = range(first, first + count)
    parents = [_parent(number, random) for number in numbers]
    instants = [arrival(number) for number in numbers]
    text = [" ".join(random.choices(_WORDS, k=8)) for _ in numbers]
    return pa.table(
        {
            "msgid": pa.array([_id(number) for number in numbers]),
            "sender": pa.array([f"user{random.randrange(5_000)}" for _ in numbers]),
            "subject": pa.array([body[:24] for body in text]),
            "date": pa.array(instants, pa.timestamp("us", "UTC")),
            "newsgroup": pa.array(random.choices(GROUPS, k=count)),
            "inreplyto": pa.array([None if parent is None else _id(parent) for parent in parents], pa.string()),
            "body": pa.array(text),
            "_own_time": pa.array(instants, pa.int64()),
            "_seq": pa.array(range(count), pa.int64()),
        }
    )


_WORDS: Final = [f"word{number}" for number in range(997)]


def _parent(number: int, random: Random) -> int | None:
    """Return the message to which this one replies, usually a recent one."""
    back = 1 + int(random.expovariate(1 / 2_000))
    return number - back if random.random() < 0.6 and back <= number else None


def _id(number: int) -> str:
    # The multiplication spreads the ids, as real ids are: sorted ids would compress and prune better.
    return f"{number * 0x9E3779B97F4A7C15 % 2**64}.{number}@news.example"
