"""SQL that is laid out for readers differs only in white space, and its lines are short."""

from __future__ import annotations

import re

import pytest

from netnews import TABLES
from weft.planning.explain import explain
from weft.planning.plan import plan
from weft.sql.rendering.layout import WIDTH, laid_out

TEXTS = {
    "strings": "SELECT '( FROM \\' x', `a  ) b`, f('') FROM t WHERE a = '  two  spaces ' AND b IN (SELECT c FROM u)",
    "clauses": "SELECT a FROM t LEFT JOIN (SELECT b FROM u) AS u ON a IS NOT DISTINCT FROM b CROSS JOIN v GROUP BY a",
    "functions": "SELECT EXTRACT(YEAR FROM ts), TRANSFORM(x, (a, b) -> a + b)[(1)] FROM t LATERAL VIEW EXPLODE(m) k",
    "union": "SELECT 1 UNION ALL SELECT a FROM (SELECT 2 UNION ALL SELECT 3) AS u HAVING COUNT(*) > 1",
    "many": f"SELECT {', '.join(f'column_{number} AS c{number}' for number in range(40))} FROM t",
}


def words(sql: str) -> list[str]:
    """Return the strings and the other text without white space."""
    parts = re.findall(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[^'`]+", sql)
    return [part if part[0] in "'`" else re.sub(r"\s+", "", part) for part in parts]


@pytest.mark.parametrize("name", TEXTS)
def test_only_white_space_changes(name: str) -> None:
    found = laid_out(TEXTS[name])
    assert words(found) == words(TEXTS[name])
    assert all(len(line) <= WIDTH for line in found.splitlines())
    assert laid_out(found) == found


def test_clauses_begin_lines_and_subqueries_are_indented() -> None:
    assert laid_out(TEXTS["clauses"]).splitlines() == [
        "SELECT a",
        "  FROM t",
        "  LEFT JOIN (",
        "    SELECT b",
        "      FROM u",
        "  ) AS u ON a IS NOT DISTINCT FROM b",
        "  CROSS JOIN v",
        "  GROUP BY a",
    ]
    assert "EXTRACT(YEAR FROM ts)" in laid_out(TEXTS["functions"])


def test_the_sql_of_states_is_readable() -> None:
    text = "SELECT newsgroup, MAX(date) AS latest, COUNT(DISTINCT sender) AS n FROM msgs GROUP BY newsgroup"
    (state,) = explain(plan(text, TABLES)).states
    for step in state.steps:
        assert max(map(len, step.sql.splitlines())) <= 180
    assert [step.name.partition("_state_")[0] for step in state.steps] == [
        "msgs__news__of",
        "keys",
        "msgs__by_newsgroup__of",
        state.name.partition("_state_")[0],
    ]
