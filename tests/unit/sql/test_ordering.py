"""ORDER BY at the end of a standing query: which column of the answer a key is, and how values are compared."""

from __future__ import annotations

import math
from functools import cmp_to_key
from typing import Any

import pytest

from netnews import TABLES
from weft.algebra.sort_key import Key, compared
from weft.errors import SqlError
from weft.planning.form import signature
from weft.planning.plan import columns_of, plan
from weft.sql.lower.ordering import order_of

FIRST = Key(0)
LAST = Key(0, descending=True, nulls_first=False)

TAKEN = {
    "SELECT msgid, ts FROM msgs ORDER BY ts": [Key(1)],
    "SELECT msgid, ts FROM msgs m ORDER BY m.ts DESC, 1": [Key(1, True, False), Key(0)],
    "SELECT msgid AS id, UPPER(sender) AS who FROM msgs ORDER BY WHO NULLS LAST, id DESC NULLS FIRST": [
        Key(1, False, False),
        Key(0, True, True),
    ],
    "SELECT msgid, UPPER(sender) AS who FROM msgs ORDER BY UPPER(sender)": [Key(1)],
    "SELECT * FROM msgs m ORDER BY m.newsgroup": [Key(4)],
    "SELECT msgid FROM msgs UNION SELECT name FROM users ORDER BY msgid DESC": [LAST],
    "SELECT msgid FROM msgs": [],
    "SELECT msgid FROM msgs WHERE sender = 'order by name'": [],
    "n <- CNT x; order (ONCE p(x, order))": [],
}
REFUSED = {
    "SELECT msgid FROM msgs ORDER BY ts": ("ORDER BY ts", "SELECT msgid, ts FROM msgs ORDER BY ts"),
    "SELECT msgid FROM msgs ORDER BY 2": ("ORDER BY 2", "name"),
    "SELECT msgid FROM msgs ORDER BY UPPER(msgid)": ("ORDER BY UPPER(msgid)", "with AS"),
    "SELECT a.msgid FROM msgs a JOIN msgs b ON a.msgid = b.inreplyto ORDER BY b.msgid": ("b.msgid", "with AS"),
    "SELECT msgid FROM (SELECT msgid FROM msgs ORDER BY msgid) m": ("ORDER BY", "at the end"),
}


@pytest.mark.parametrize("text", TAKEN)
def test_the_keys_of_a_text(text: str) -> None:
    names = ["msgid"]
    if text.startswith("SELECT"):
        names = [name for name, _ in columns_of(plan(text, TABLES).query)]
    assert list(order_of(text, names)) == TAKEN[text]


@pytest.mark.parametrize("text", REFUSED)
def test_a_key_that_is_no_column_of_the_answer_is_refused(text: str) -> None:
    construct, hint = REFUSED[text]
    with pytest.raises(SqlError) as caught:
        plan(text, TABLES)
    assert construct in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("value", ["'abc'", "1.5", "12345678901"])
def test_a_constant_beside_limit_is_no_place(value: str) -> None:
    assert plan(f"SELECT msgid FROM msgs ORDER BY {value} LIMIT 3", TABLES).query


def test_the_order_is_no_part_of_the_plan() -> None:
    ordered, plain = (plan(f"SELECT msgid FROM msgs{tail}", TABLES) for tail in (" ORDER BY msgid", ""))
    assert signature(ordered) == signature(plain)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (Key(0), [None, -math.inf, 0.0, math.inf, math.nan]),
        (Key(0, True, False), [math.nan, 3, 2, None]),
        (Key(0, False, False), ["A", "a", "\u00e4", "\U0001f600", None]),
        (Key(0, True, True), [None, b"b", b"a"]),
        (Key(0), [None, False, True]),
    ],
)
def test_values_are_compared_as_spark_does(key: Key, values: list[Any]) -> None:
    rows = [[value] for value in reversed(values)]
    by = cmp_to_key(lambda one, other: compared([key], one, other))
    assert str([row[0] for row in sorted(rows, key=by)]) == str(values)
