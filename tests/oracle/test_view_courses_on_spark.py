"""Law 3 on both engines: views kept along random courses, each refresh on DuckDB or on Spark, against the definitions.

The engine of each refresh is drawn.  A view therefore goes from one engine to the other along its course.  Planning
takes Spark a hundred times as long as DuckDB, whatever rows there are.  So views are kept along several courses at
once, and long texts are left to ``test_view_courses``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oracle.spark_engine import spark_engine
from oracle.view_courses import Keeping, one_for_all, telling
from oracle.view_grammar import LAST, folded, view
from oracle.view_terms import Query
from weft.errors import SqlError
from weft.execution.engines.duckdb import duckdb_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEWS = (8, pytest.param(80, marks=pytest.mark.slow))
COURSES = 6
LONGEST = 180
PLANNED_AS_LARGE = 4
"""Each fourth view is planned as a home plans it; the others with one partition and no generated code."""


def fresh(views: int) -> Iterator[tuple[int, Query]]:
    """Views that differ in more than constants."""
    seen, number = set[str](), 0
    while len(seen) < views:
        query = view(random.Random(f"engines {number}"))
        if folded(query) not in seen and len(query.text()) <= LONGEST:
            seen.add(folded(query))
            yield number, query
        number += 1


def along(spark: SparkSession, number: int, query: Query, folder: Path, counts: Counter[str]) -> None:
    """Keeps one view along some courses, and compares it with its definition after each refresh."""
    chance = random.Random(f"along {number}")
    instants = [*sorted(chance.sample(range(LAST), chance.choice((1, 2)))), LAST]
    courses = [telling(query, chance, instants) for _ in range(1 if one_for_all(query) else COURSES)]
    engines = [chance.choice(("driver", "Spark")) for _ in instants]
    engines[chance.randrange(len(engines))] = "Spark"
    keeping = Keeping(query, courses, folder)
    for t, by in zip(instants, engines, strict=True):
        large, place = number % PLANNED_AS_LARGE == 0, folder / f"written-{t}"
        keeping.engine = (
            (lambda: duckdb_engine(1)) if by == "driver" else lambda p=place, w=large: spark_engine(spark, p, few=not w)
        )
        first = keeping.tau is None
        keeping.refresh(t)
        counts.update({f"{'first' if first else 'later'} refreshes by {by}": len(courses)})
        for place_of_course in range(len(courses)):
            found, expected = keeping.value(place_of_course), keeping.expected(place_of_course, t)
            assert found == expected, f"at {t} of {instants} by {engines}: {keeping.asked.text()}\n{found}\n{expected}"
            counts["with rows"] += bool(found)
    counts.update({"views": 1, "cases": len(courses), "switches": len(set(engines)) - 1})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("views", VIEWS)
def test_views_are_kept_on_both_engines(views: int, spark: SparkSession, tmp_path: Path) -> None:
    counts = Counter[str]()
    for number, query in fresh(views):
        place = tmp_path / str(number)
        place.mkdir()
        try:
            along(spark, number, query, place, counts)
        except SqlError as refused:
            assert "Split the query" in str(refused)
            counts["beyond the limits"] += 1
    print(dict(counts))
    assert counts["views"] >= 0.9 * views and counts["with rows"] >= counts["cases"]
    assert min(counts[f"{when} refreshes by {by}"] for when in ("first", "later") for by in ("driver", "Spark")) > 0
