"""What the texts of ``test_analytic`` must contain, and how states must have been read."""

from __future__ import annotations

from typing import Final

FIRST: Final = 10
"""The shards that ``make test`` tries."""
MANY: Final = 1_000
"""Texts of which some must contain each construct."""
CONSTRUCTS: Final = {
    "GROUP BY": r"GROUP BY",
    "GROUP BY an ordinal": r"GROUP BY (\d|.*, \d\b)",
    "GROUP BY ALL": r"GROUP BY ALL",
    "no groups": r"SELECT (COUNT|SUM)\(((?!GROUP BY| OVER ).)*$",
    "ROLLUP": r"ROLLUP",
    "CUBE": r"CUBE",
    "GROUPING SETS": r"GROUPING SETS",
    "HAVING": r"HAVING",
    "HAVING with NOW": r"HAVING .*NOW\(\)",
    "FILTER": r"FILTER",
    "COUNT(DISTINCT)": r"COUNT\(DISTINCT",
    "SUM(DISTINCT)": r"SUM\(DISTINCT",
    "AVG": r"AVG",
    "MIN_BY, MAX_BY": r"M(IN|AX)_BY",
    "BOOL_AND, BOOL_OR": r"BOOL_|EVERY",
    "COUNT_IF": r"COUNT_IF",
    "STDDEV, VARIANCE": r"STDDEV|VAR",
    "ARRAY_AGG, COLLECT_SET": r"ARRAY_AGG|COLLECT_",
    "NaN": r"NaN",
    "a moving window": r"> NOW\(\) - INTERVAL .*GROUP BY",
    "LEFT JOIN": r"LEFT (OUTER )?JOIN",
    "RIGHT JOIN": r"RIGHT JOIN",
    "FULL JOIN": r"FULL (OUTER )?JOIN",
    "an outer join in parentheses": r"(FROM|JOIN) \(+[mru] AS \w+ (LEFT|RIGHT|FULL) JOIN",
    "a scalar subquery": r"\(SELECT [^()]*\([^()]*\)[^()]* AS v",
    "ANY, SOME": r"(ANY|SOME) \(",
    "ALL": r"[=<>] ALL \(",
    "LATERAL": r", LATERAL \(",
    "LATERAL VIEW": r"LATERAL VIEW",
    "ORDER BY … LIMIT": r"LIMIT",
    "OFFSET": r"OFFSET",
    "ROW_NUMBER": r"ROW_NUMBER",
    "RANK": r"\bRANK",
    "DENSE_RANK": r"DENSE_RANK",
    "a rank under a constant": r"\.place ",
    "QUALIFY": r"QUALIFY",
    "LAG, LEAD": r"LAG|LEAD",
    "FIRST_VALUE, LAST_VALUE, NTH_VALUE": r"_VALUE",
    "LAG, LEAD with IGNORE NULLS": r"(LAG|LEAD)\([^()]*\) IGNORE",
    "NTH_VALUE with IGNORE NULLS": r"NTH_VALUE\([^()]*\) IGNORE",
    "an aggregate OVER": r"(COUNT|SUM|MIN|MAX)\([^()]*\) OVER",
    "ROWS": r" ROWS ",
    "RANGE": r" RANGE ",
    "EXCEPT ALL": r"EXCEPT ALL",
    "INTERSECT ALL": r"INTERSECT ALL",
    "PIVOT": r"PIVOT",
    "an aggregate of intervals": r"(MIN|MAX|SUM)\(\w+\.\w+ - \w+\.\w+\)",
    "a subquery without an aggregate": r"\(SELECT DISTINCT \w+\.\w+ AS v",
}
"""Each construct, and a pattern that finds it in a text."""
WAYS: Final = ("whole", "news", "look-up", "deltas", "deltas of subqueries")
NAMED: Final = (*CONSTRUCTS, *(f"states: {way}" for way in WAYS))
"""What a whole run must have tried."""
