"""The value of random views, as SQL on DuckDB, against the paper's definitions, evaluated literally (``view_terms``).

The texts differ in more than constants. Each is evaluated at a few instants of one history in which its value changes.
``make test-long`` evaluates every instant. It prints its seed, and WEFT_SEED repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from oracle.shards import shards
from oracle.view_grammar import LAST, TABLES, Recorded, folded, history, recorded_at, state_at, view
from oracle.view_terms import (
    Column,
    Compared,
    Condition,
    From,
    Item,
    Joined,
    OfPeriods,
    OfTwoPeriods,
    Query,
    Select,
    Span,
    There,
    periods,
)
from temporal_values import Histories, Value, tracked
from weft.algebra.temporal import Temporal, each
from weft.derivation.temporal.sequenced import sequenced
from weft.errors import SqlError
from weft.sql.lower.query import bind_view

TEXTS = 400
SHARDS = 4
ASKED = 2
"""Instants at which a view is asked."""
TRIES = 8
LONG = 2_000
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))
OPERATORS = (
    "Scan", "Values", "Select", "Project", "Join", "Union", "Difference", "Extension",
    "Grouped",
)  # fmt: skip
WORDS = (
    "EXISTS", "NOT EXISTS", "NOT IN", "UNION", "EXCEPT", "INTERSECT", "OR", "NOT (", "WITH", "VALUES", "JOIN", "NOW()",
    "PERIOD_START", "PERIOD_END", "PERIOD_LENGTH", "PERIOD_CONTAINS", "PERIOD_OVERLAPS", "MOVING_WINDOW", "HAVING",
    "COUNT(*)", "COUNT(a", "SUM(", "AVG(", "MIN(", "MAX(", "UNIX_MICROS",
    "DISTINCT a", "_BY(", "STDDEV_", "_SAMP(", "ARRAY_AGG(", "COLLECT_SET(",
)  # fmt: skip


def tables() -> Histories:
    """The grammar's tables in DuckDB, which plans small queries sooner without its optimizer."""
    home = Histories(tracked(number, name, **columns) for number, (name, columns) in enumerate(TABLES.items(), 1))
    home.connection.execute("PRAGMA disable_optimizer")
    return home


def by_definition(query: Query, full: Recorded, now: int) -> Value:
    state = state_at(now, full)
    return {row: periods(instants, now) for row, instants in state.temporal(query).items()}


def compiled(home: Histories, text: str) -> Temporal | None:
    """The view; None for one that is beyond the limits on a text."""
    try:
        return sequenced(bind_view(text, home.tables))
    except SqlError as refused:
        if "Split the query" in str(refused):
            return None
        raise


class Course:
    """Try views, and count their properties."""

    def __init__(self) -> None:
        self.home = tables()
        self.counts: Counter[str] = Counter()

    def run(self, query: Query, chance: random.Random, asked: int) -> None:
        relation = compiled(self.home, query.text())
        if relation is None:
            self.counts["beyond the limits"] += 1
            return
        full, values = self.informative_history(query, chance, asked)
        for now, expected in values.items():
            self.home.load(recorded_at(now, full))
            found = self.home.value(relation, now)
            assert found == expected, f"at {now}: {query.text()}\n{full}\nfound {found}\nexpected {expected}"
        self.note(query, relation, list(values.values()))

    @property
    def missing(self) -> list[str]:
        return [each for each in (*OPERATORS, *WORDS) if not self.counts[each]]

    def informative_history(self, query: Query, chance: random.Random, asked: int) -> tuple[Recorded, dict[int, Value]]:
        """A history, and values at some instants, that say something, if such are soon found."""
        best: tuple[int, Recorded, dict[int, Value]] | None = None
        for _ in range(TRIES):
            full = history(chance)
            nows = sorted(chance.sample(range(LAST + 1), asked - 1)) if asked <= LAST else list(range(LAST))
            values = {now: by_definition(query, full, now) for now in (*nows, LAST)}
            worth = len({repr(sorted(value, key=repr)) for value in values.values()}) + any(values.values())
            if best is None or worth > best[0]:
                best = worth, full, values
            if worth > 2:
                break
        assert best is not None
        return best[1], best[2]

    def note(self, query: Query, relation: Temporal, values: list[Value]) -> None:
        self.counts["views"] += 1
        self.counts["with rows"] += any(values)
        self.counts["that change"] += len({repr(sorted(value, key=repr)) for value in values}) > 1
        parts = (one for part in each(relation) for one in (part, getattr(part, "input", part)))
        self.counts.update({type(part).__name__ for part in parts})
        self.counts.update(word for word in WORDS if word in query.text())


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shard", shards(SHARDS, 1))
def test_values_of_distinct_views(shard: int, record_property: Any) -> None:
    course, seen, number = Course(), set(), 0
    while len(seen) < TEXTS or (course.missing and len(seen) < 2 * TEXTS):  # a rare word may be missing
        query = view(random.Random(number))
        number += 1
        if (shape := folded(query)) in seen:
            continue
        seen.add(shape)
        if len(seen) % SHARDS == shard:
            course.run(query, random.Random(number), ASKED)
    counts = course.counts
    record_property("views", dict(counts))
    print(dict(counts))
    assert not course.missing, "something was never tried"
    assert counts["views"] >= 0.95 * TEXTS / SHARDS
    assert counts["with rows"] >= 0.6 * counts["views"], "the cases have become dull: too few views have a row"
    assert counts["that change"] >= 0.4 * counts["views"], "the cases have become dull: too few views change"


def there(alias: str, *conditions: Condition, negated: bool = False) -> Condition:
    """[NOT] EXISTS (SELECT … FROM s AS alias WHERE …)."""
    over = From((Item(alias, "s", tuple(TABLES["s"])),), Joined("AND", conditions))
    return There(Select(((Column(alias, "k"), "c0"),), over), negated)


START, END, LENGTH = (OfPeriods(function, "a1") for function in ("start", "end", "length"))
CONTAINED = there("a2", OfTwoPeriods("contains", "a1", "a2"))
LATER = there("a3", Compared(">=", OfPeriods("start", "a3"), START))
SAME_KEY = Compared("=", Column("a4", "k"), Column("a1", "k"))
NEVER = there("a4", Compared("<", OfPeriods("end", "a4"), END), SAME_KEY, negated=True)
LONG_ENOUGH = Compared(">", LENGTH, Span(3))
ASKED_AGAIN = {
    "two partners": (CONTAINED, LATER),
    "no partner, then one": (NEVER, LATER),
    "no partner, then two": (NEVER, CONTAINED, LATER),
    "a partner, or long enough": (NEVER, Joined("OR", (LONG_ENOUGH, CONTAINED))),
    "either, twice": (Joined("OR", (NEVER, LATER)), Joined("OR", (LONG_ENOUGH, CONTAINED))),
    "both in an alternative": (Joined("OR", (Joined("AND", (LONG_ENOUGH, LATER)), CONTAINED)), NEVER),
}
"""A condition on a row's periods after another condition has removed instants, which few random texts have."""


@pytest.mark.parametrize("name", ASKED_AGAIN)
def test_periods_are_those_of_the_row_as_from_gives_it(name: str) -> None:
    chance = random.Random(name)
    over = From((Item("a1", "e", tuple(TABLES["e"])),), Joined("AND", ASKED_AGAIN[name]))
    query = Select(((Column("a1", "k"), "c0"), (Column("a1", "n"), "c1")), over)
    home, rows = tables(), 0
    relation = sequenced(bind_view(query.text(), home.tables))
    for _ in range(35):
        full = history(chance)
        home.load(full)
        expected = by_definition(query, full, LAST)
        assert home.value(relation, LAST) == expected, f"{query.text()}\n{full}"
        rows += len(expected)
    assert rows > 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shard", range(2))
def test_values_at_every_instant(shard: int) -> None:
    course = Course()

    @seed(SEED + shard)
    @settings(
        max_examples=LONG // 2,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.randoms(use_true_random=False))
    def each_view(chance: random.Random) -> None:
        course.run(view(chance), chance, LAST + 1)

    print(f"{LONG // 2} views, seed {SEED + shard}")
    each_view()
