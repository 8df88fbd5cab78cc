"""Law 3 on both engines: views that are maintained over random courses, each refresh on DuckDB or on Spark.

The engine of a view changes during its course. Spark takes a hundred times as long as DuckDB to plan the SQL, for any
number of rows. Views are therefore maintained over several courses at once, and only ``test_view_courses`` runs long
texts.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from oracle.spark_engine import spark_engine
from oracle.view_courses import Keeping, informative_course, one_for_all
from oracle.view_grammar import LAST, folded, view
from oracle.view_terms import Query
from weft.errors import SqlError
from weft.execution.engines.duckdb import duckdb_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("driver", "Spark")
VIEWS = (8, pytest.param(80, marks=pytest.mark.slow))
COURSES = 6
LONGEST = 180
COMPUTED_ANEW = 5
"""Each fifth view is recomputed in its later refreshes."""
PLANNED_AS_LARGE = 8
"""Each eighth view is planned as a home plans it; the others with one partition and no generated code."""


def along(
    spark: SparkSession, chance: random.Random, query: Query, folder: Path, counts: Counter[str], turn: int
) -> None:
    """Keeps one view along some courses, and compares it with its definition after each refresh."""
    instants = [*sorted(chance.sample(range(LAST), chance.choice((1, 2)))), LAST]
    courses = [informative_course(query, chance, instants) for _ in range(1 if one_for_all(query) else COURSES)]
    engines = [ENGINES[turn % 2], ENGINES[(turn + 1) % 2], chance.choice(ENGINES)][: len(instants)]
    keeping = Keeping(query, courses, folder)
    for t, by in zip(instants, engines, strict=True):
        large, before = turn % PLANNED_AS_LARGE == 0, keeping.tau
        keeping.engine = (
            (lambda: duckdb_engine(1)) if by == "driver" else lambda w=large: spark_engine(spark, few=not w)
        )
        from_scratch = before is not None and turn % COMPUTED_ANEW == 0
        keeping.refresh(t, from_scratch=from_scratch)
        counts.update(
            {
                f"{'first' if before is None else 'from_scratch' if from_scratch else 'later'} refreshes by {by}": len(
                    courses
                )
            }
        )
        if before is not None and not from_scratch:
            counts.update(f"rule {rule} by {by}" for rule in keeping.ran(before, t))
        for place_of_course in range(len(courses)):
            found, expected = keeping.value(place_of_course), keeping.expected(place_of_course, t)
            assert found == expected, f"at {t} of {instants} by {engines}: {keeping.asked.text()}\n{found}\n{expected}"
            counts["with rows"] += bool(found)
    counts.update({"views": 1, "cases": len(courses), "switches": len(set(engines)) - 1})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("views", VIEWS)
def test_views_are_kept_on_both_engines(views: int, spark: SparkSession, tmp_path: Path) -> None:
    counts, seen = Counter[str](), set[str]()

    @settings(max_examples=views, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**62))
    def kept(number: int) -> None:
        chance = random.Random(number)
        query = view(chance)
        assume(folded(query) not in seen and len(query.text()) <= LONGEST)
        place = Path(mkdtemp(dir=tmp_path))
        try:
            along(spark, chance, query, place, counts, len(seen))
        except SqlError as refused:
            assert "Split the query" in str(refused)
            counts["beyond the limits"] += 1
        seen.add(folded(query))

    kept()
    rules = {by: {name for name in counts if name.startswith("rule") and name.endswith(by)} for by in ENGINES}
    print({name: count for name, count in counts.items() if not name.startswith("rule")})
    print(len(seen), "views that differ in more than constants; rules:", {by: len(rules[by]) for by in ENGINES})
    assert counts["views"] >= 0.75 * views and 2 * counts["with rows"] >= counts["cases"]
    assert min(counts[f"{when} refreshes by {by}"] for when in ("first", "later", "from_scratch") for by in ENGINES) > 0
    assert min(map(len, rules.values())) >= 5
