"""Laws 1 and 2 on WITH RECURSIVE: DuckDB's own recursion over the rows alive at each instant against Weft's rounds.

The graphs have an edge from k to n for each row.  They have cycles, parallel edges, NULLs, edges that end, and edges
that begin at one instant.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest

from oracle.analytic_engine import Prepared
from oracle.histories import case, telling
from oracle.laws import Trial, any_partition, from_now, later_tick, one_instant, union_of_starts
from oracle.recursive_grammar import recursive_query

CASES: Final = 30
LONG: Final = 400
LAWS: Final = (any_partition, one_instant, union_of_starts, later_tick, from_now)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cases", [range(CASES), pytest.param(range(CASES, LONG), marks=pytest.mark.slow)])
def test_recursions_deliver_what_they_have_at_some_instant(cases: range) -> None:
    engine, counts = Prepared(), Counter[str]()
    for number in cases:
        found, reference = telling(engine, case(random.Random(number), recursive_query), 6)
        trial = Trial(found, engine)
        trial.reference = reference
        counts["with answers"] += bool(reference.first())
        counts["changing"] += reference.changes
        counts["ending"] += bool(found.history.ending)
        for law in LAWS:
            trial.random.seed(found.salt)
            try:
                law(trial)
            except Exception as error:
                error.args = (f"{law.__name__}: {error}\n{found}",)
                raise
    assert counts["with answers"] >= 0.7 * len(cases) and counts["changing"] >= 0.5 * len(cases), counts
    assert counts["ending"] >= 0.3 * len(cases), counts
