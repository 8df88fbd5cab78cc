"""Plans as the catalog stores them, in ``expected/stored_plans.txt``.  ``make bless`` rewrites the file.

Installed queries have the signature of this text.  If a text changes, homes of older versions must still be read
(``algebra.stored``): a new format needs a version, and a migration or a second way to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from golden.texts import HERE
from netnews import TABLES
from weft.algebra import stored as codec
from weft.algebra.schema import TableSchema
from weft.algebra.stored import restored, stored
from weft.planning.plan import plan

EXPECTED: Final = HERE / "expected" / "stored_plans.txt"
TEXTS: Final = {
    "a join, a threshold, NOT EXISTS": "SELECT m.msgid FROM msgs m JOIN users u ON u.name = m.sender WHERE m.ts < "
    "NOW() - INTERVAL 4 WEEKS AND m.newsgroup = 'a' AND NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)",
    "EXISTS, OR, a deadline": "SELECT name FROM users WHERE (age > 3 OR active) AND born > NOW() AND EXISTS (SELECT 1 "
    "FROM msgs WHERE sender = name)",
    "VALUES, UNION, a cast": "SELECT v.a FROM VALUES ('1'), ('2') AS v(a) UNION SELECT CAST(age AS STRING) FROM users",
    "groups and their aggregates": "SELECT newsgroup, COUNT(DISTINCT sender) AS n, MAX_BY(msgid, date) AS last, SUM("
    "CASE WHEN sender = 'a' THEN 1 END) AS s FROM msgs GROUP BY newsgroup HAVING COUNT(*) > 5",
    "grouping sets": "SELECT newsgroup, sender, COUNT(*) AS n FROM msgs GROUP BY ROLLUP (newsgroup, sender)",
    "a frame": "SELECT msgid, COUNT(*) OVER (PARTITION BY sender ORDER BY date ROWS BETWEEN 5 PRECEDING AND CURRENT "
    "ROW) AS n FROM msgs",
    "a top-k": "SELECT msgid, date FROM msgs ORDER BY date DESC NULLS LAST LIMIT 10 OFFSET 2",
    "an array": "SELECT msgid, i, w FROM msgs LATERAL VIEW OUTER POSEXPLODE(SPLIT(subject, ' ')) words AS i, w",
    "an element": "SELECT msgid FROM msgs WHERE EXISTS(SPLIT(subject, ' '), w -> w = 'Re:')",
    "three outer joins": "SELECT m.msgid, u.name, r.msgid AS reply, x.msgid AS other FROM msgs m LEFT JOIN users u ON "
    "u.name = m.sender LEFT JOIN msgs r ON r.inreplyto = m.msgid LEFT JOIN msgs x ON x.msgid = r.msgid",
    "a recursion": "WITH RECURSIVE thread(msgid, root) AS (SELECT msgid, msgid FROM msgs WHERE inreplyto IS NULL "
    "UNION ALL SELECT m.msgid, t.root FROM msgs m JOIN thread t ON m.inreplyto = t.msgid) SELECT msgid, root "
    "FROM thread",
    "a column of intervals": "SELECT a.msgid, b.date - a.date AS delay FROM msgs a JOIN msgs b ON b.inreplyto = "
    "a.msgid",
    "a month": "SELECT msgid FROM msgs WHERE NOW() - INTERVAL 1 MONTH >= date",
}
UNUSED: Final = {"PeriodOf"}
"""The class that no plan has: only views have periods."""


def test_stored_plans_have_the_expected_text(bless: bool) -> None:
    found = "\n".join(
        f"==== {title}\n\n{text}\n\n{_lines(stored(plan(text, TABLES).lifted))}" for title, text in TEXTS.items()
    )
    if bless:
        EXPECTED.write_text(found)
    assert found == EXPECTED.read_text(), "run `make bless`, read the difference, and see the docstring"


def test_expected_plans_are_read_and_written_again() -> None:
    tables: dict[tuple[str, int], TableSchema] = {(table.source, table.id): table for table in TABLES.values()}
    for part in EXPECTED.read_text().split("==== ")[1:]:
        text = _joined(part.split("\n\n", 2)[2])
        assert stored(restored(text, tables)) == text


def test_the_plans_have_all_kinds_of_nodes() -> None:
    found = {
        name for text in TEXTS.values() for name in _classes(json.loads(stored(plan(text, TABLES).lifted))["query"])
    }
    assert found >= {*codec._CLASSES, "Scan", "Stored", "Derived", "Type", "Copy"} - UNUSED
    assert not found & UNUSED


def _lines(text: str) -> str:
    """Break a JSON text before each node, for readable differences."""
    return re.sub(r'(?<=[,\[])(?=\["[A-Z])', "\n", text) + "\n"


def _joined(lines: str) -> str:
    return lines.replace("\n", "")


def _classes(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        if node and isinstance(node[0], str):
            yield node[0]
        for part in node:
            yield from _classes(part)
