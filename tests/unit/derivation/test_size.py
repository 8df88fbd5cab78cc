"""What is derived stays in proportion to the text, and what would not is refused before it is derived."""

from __future__ import annotations

import time

import pytest

from netnews import TABLES
from weft.algebra.traverse import scans
from weft.derivation.size import BranchSize, size
from weft.errors import SqlError
from weft.planning.plan import for_one, plan


def nested(depth: int, begin: str) -> str:
    text = "SELECT m0.msgid FROM msgs m0 WHERE "
    for n in range(1, depth + 1):
        text += begin.format(n=n, before=n - 1)
    return text + "TRUE" + ")" * depth


ABSENT = "NOT EXISTS (SELECT 1 FROM msgs m{n} WHERE m{n}.inreplyto = m{before}.msgid AND "
NOT_IN = "m{before}.sender NOT IN (SELECT m{n}.sender FROM msgs m{n} WHERE "
SIZED = [
    "SELECT msgid FROM msgs",
    "SELECT a.msgid FROM msgs a, msgs b, users u WHERE a.msgid = b.inreplyto AND NOW() > b.date",
    "SELECT msgid FROM msgs WHERE NOW() > date OR NOT EXISTS (SELECT 1 FROM staff s WHERE s.name = sender AND "
    "NOW() < date)",
    "SELECT name FROM users UNION SELECT sender FROM msgs WHERE NOW() > ts + INTERVAL 1 DAY",
    "SELECT a.x FROM (SELECT name AS x FROM users UNION ALL SELECT sender FROM msgs) a JOIN "
    "(SELECT name AS x FROM staff UNION SELECT text FROM reminders) b ON a.x = b.x",
    "SELECT name FROM users EXCEPT SELECT sender FROM msgs WHERE NOW() < date",
    nested(3, ABSENT),
]


@pytest.mark.parametrize("text", SIZED)
def test_the_size_is_known_before_anything_is_derived(text: str) -> None:
    """Simplification may drop branches and parts of them; no figure exceeds its bound."""
    found = plan(text, TABLES)
    made = BranchSize(len(found.branches), sum(1 for event in found.branches for _ in scans(event.relation)))
    bound = size(found.lifted)
    assert made.branches <= bound.branches and made.sources <= bound.sources
    assert bound.sources <= 3 * made.sources + 3, "the bound is far off"


@pytest.mark.parametrize(("depth", "begin"), [(12, ABSENT), (6, NOT_IN), (40, ABSENT), (20, NOT_IN)])
def test_deep_nesting_is_refused_soon(depth: int, begin: str) -> None:
    began = time.process_time()
    with pytest.raises(SqlError, match="Split the query"):
        plan(nested(depth, begin), TABLES)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(("depth", "begin"), [(4, ABSENT), (3, NOT_IN)])
def test_what_people_nest_is_taken_and_its_text_is_bounded(depth: int, begin: str) -> None:
    found = plan(nested(depth, begin), TABLES)
    assert sum(len(for_one(event, found.values, {}, whole=False).sql) for event in found.branches) < 100_000


def test_expressions_that_double_with_each_level_are_refused() -> None:
    text = "SELECT age AS k FROM users"
    for level in range(25):
        text = f"SELECT d{level}.k + d{level}.k AS k FROM ({text}) AS d{level}"
    with pytest.raises(SqlError, match="after derived tables are expanded"):
        plan(text, TABLES)
