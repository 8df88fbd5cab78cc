"""A condition with NOW selects the rows that Spark's WHERE would select at that instant.

The test evaluates each text twice over one table. Spark evaluates the text with an instant in place of NOW. Weft
replays the text at the same instant. Weft may refuse a text, but must not select other rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pytest
from pyspark.sql import SparkSession

from drawn_expressions import Expressions
from odd_table import TABLES, make_table
from weft.algebra.event import Instant
from weft.algebra.relation import condition
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP
from weft.derivation.replay import at
from weft.errors import SqlError
from weft.instants import parse_instant
from weft.planning.plan import plan
from weft.runtime.session import spark_errors
from weft.sql.rendering import render

INSTANTS: Final = (
    "2000-01-01 12:00:00",
    "1999-12-31 23:00:00",
    "1993-04-05 00:00:00.000001",
)
MIDNIGHTS: Final = (
    "2000-01-01",
    "1999-12-31 23:59:59.999999",
    "1999-12-31",
    "2000-01-02",
    "2000-01-01 00:00:00.000001",
    "2000-02-29 12:30:00",
    "1993-04-05",
    "1970-01-01",
)
"""Instants at which NOW, rounded to a unit, changes."""
BATCH: Final = 60
DRAWN: Final = 150
WRITTEN: Final = (
    "NOW() > w", "w <= NOW() - INTERVAL 1 DAY", "NOT (NOW() = v)", "NOW() <=> w", "NOT (NOW() <=> w)",
    "NOW() <> w OR b",
    "NOW() BETWEEN w AND v", "NOW() NOT BETWEEN v AND w", "NOW() IN (w, v)", "NOW() NOT IN (w, v)", "NOW() - w > v - w",
    "NOW() - INTERVAL 1 DAY BETWEEN w AND v", "a < NOW()", "NOW() >= a", "NOW() = h", "w - NOW() < INTERVAL 3 DAYS",
    "NOW() > '2000-01-01'", "'1999-12-31T23:00:00' <= NOW()", "NOW() IN (a, w)", "NOW() >= s",
    "NOW() > CAST(a AS STRING)",
    "NOW() = s OR c", "NOW() - (w - v) <=> w", "NOT (NOW() - (w - v) <=> w)", "w <=> NOW() + y * INTERVAL 1 DAY",
    "NOW() <= COALESCE(w, v) AND NOT (b OR NOW() < v)", "NOW() > w IS NOT NULL", "NOT b AND NOT NOW() < w",
    "NOW() BETWEEN a AND '2000-01-02'", "NOW() BETWEEN s AND w", "NOW() IS NOT DISTINCT FROM w",
    "NOW() IS DISTINCT FROM v",
    "CURRENT_DATE > a", "CURRENT_DATE >= w", "NOT CURRENT_DATE < w", "CURRENT_DATE = a", "CURRENT_DATE <> w",
    "CURRENT_DATE <= a OR CURRENT_DATE = w", "NOT (CURRENT_DATE = w)", "a IN (CURRENT_DATE, h)",
    "CURRENT_DATE BETWEEN a AND w", "w < CURRENT_DATE", "CURRENT_DATE - INTERVAL 7 DAYS <= w", "CURRENT_DATE > s",
    "CURRENT_DATE > '2000-01-01'", "CURRENT_DATE - INTERVAL 12 HOURS > w", "a + INTERVAL 1 DAY > CURRENT_DATE",
    "DATE(NOW()) > a", "TO_DATE(NOW() - INTERVAL 12 HOURS) = a", "CAST(NOW() AS DATE) < w",
    "DATE_SUB(CURRENT_DATE, 7) > a", "DATE_ADD(CURRENT_DATE, y) >= w", "DATE_ADD(NOW(), -1) = a",
    "DATE_TRUNC('day', NOW()) > w", "DATE_TRUNC('week', NOW()) <= w", "DATE_TRUNC('month', NOW()) = a",
    "DATE_TRUNC('year', NOW()) <> w", "DATE_TRUNC('quarter', NOW()) < a", "DATE_TRUNC('hour', NOW()) >= w",
    "DATE_TRUNC('minute', NOW() - INTERVAL 90 SECONDS) > v", "NOT (DATE_TRUNC('microsecond', NOW()) = w)",
    "DATE_TRUNC('day', NOW()) - INTERVAL 1 DAY > w", "DATE_TRUNC('second', NOW()) - w < INTERVAL 1 DAY",
    "DATEDIFF(NOW(), w) >= 1", "DATEDIFF(CURRENT_DATE, a) = 0", "DATEDIFF(w, NOW()) > -1", "DATEDIFF(NOW(), w) <> y",
    "DATEDIFF(a, CURRENT_DATE) <= i", "3 > DATEDIFF(NOW(), w)", "DATEDIFF(NOW(), w) BETWEEN -1 AND 1",
    "TIMESTAMPDIFF(HOUR, w, NOW()) >= 12", "TIMESTAMPDIFF(DAY, w, NOW()) = 0", "DATEDIFF(DAY, w, NOW()) <> 0",
    "TIMESTAMPDIFF(HOUR, NOW(), w) > -13", "TIMESTAMPDIFF(MINUTE, w, NOW()) < 0", "DATEDIFF(HOUR, NOW(), w) <= 0",
    "DATEDIFF(WEEK, a, NOW()) > 1", "TIMESTAMPDIFF(HOUR, w, NOW()) NOT BETWEEN -12 AND 12",
    "DATEADD(DAY, -1, NOW()) > w", "NOW() > DATEADD(MONTH, 1, w)", "NOW() >= ADD_MONTHS(a, -1)",
    "TIMESTAMPADD(HOUR, y, NOW()) <= w",
    "NOW() > w = b", "NOW() >= w AND NOW() < v OR NOW() = w", "NOT NOW() > w", "NOT NOW() IN (w) AND c",
)  # fmt: skip


class Conditions(Expressions):
    """A generator of random conditions, most of them with NOW."""

    def condition(self, depth: int = 2) -> str:
        chance = self.chance.random()
        if depth and chance < 0.2:
            return f"NOT ({self.condition(depth - 1)})"
        if depth and chance < 0.6:
            joined = self.chance.choice(("AND", "OR"))
            return f"({self.condition(depth - 1)}) {joined} ({self.condition(depth - 1)})"
        return self._of_now() if chance < 0.9 else self._truth(1)

    def _of_now(self) -> str:
        kind = self.chance.choice(("instant", "instant", "day", "written"))
        spans = (
            "INTERVAL 1 DAY",
            "INTERVAL '36' HOUR",
            "INTERVAL -1 DAY",
            "INTERVAL 1 DAY",
            "(w - v)",
            "y * INTERVAL 1 DAY",
        )
        now = self.chance.choice(("NOW()", "NOW()", f"NOW() {self.chance.choice('+-')} {self.chance.choice(spans)}"))
        one, two = self._operand(kind, 1), self._operand(kind, 1)
        negated = self.chance.choice(("", "NOT "))
        compared = self.chance.choice(("=", "<>", "<", "<=", ">", ">=", "<=>", "<", ">="))
        options = (f"{now} {compared} {one}", f"{one} {compared} {now}", f"{now} {negated}BETWEEN {one} AND {two}")
        return self.chance.choice((*options, f"{now} {negated}IN ({one}, {two})"))


def asked_at(text: str, instant: str) -> str:
    """Return a condition with an instant in place of NOW."""
    return text.replace("CURRENT_DATE", "CAST(NOW() AS DATE)").replace("NOW()", f"TIMESTAMP '{instant}'")


def read(text: str, instant: str) -> str:
    """Return a condition as Weft renders it for an instant."""
    query = plan(f"SELECT i FROM odd WHERE {text}", TABLES).query
    return render.predicate(at(condition(query.input), Instant(Literal(parse_instant(instant), TIMESTAMP))), {})


def differences(spark: SparkSession, pairs: Sequence[tuple[str, str]], failed: list[str]) -> dict[str, str]:
    """Return the texts for which Spark and Weft select different rows, with the texts that Weft renders.

    Add the texts for which Spark fails to ``failed``.
    """
    found = _taken(spark, [side for pair in pairs for side in pair], "odd")
    if found is None and len(pairs) > 1:
        half = len(pairs) // 2
        return differences(spark, pairs[:half], failed) | differences(spark, pairs[half:], failed)
    if found is None:
        failed.append(pairs[0][0])
        assert _taken(spark, [pairs[0][1]], "odd") is not None, f"Weft's own fails: {pairs[0]}"
        found = _taken(spark, [*pairs[0]], "tame")
    if found is None:
        return {}
    return {text: mine for n, (text, mine) in enumerate(pairs) if found[2 * n] != found[2 * n + 1]}


def _taken(spark: SparkSession, conditions: Sequence[str], view: str) -> list[tuple[bool, ...]] | None:
    """Return the rows that each condition selects. Return None if Spark fails."""
    items = ", ".join(f"(({text}) IS TRUE) AS c{number}" for number, text in enumerate(conditions))
    try:
        rows = spark.sql(f"SELECT {items} FROM {view} AS odd").collect()
    except spark_errors():
        return None
    return [tuple(row[number] for row in rows) for number in range(len(conditions))]


@pytest.mark.parametrize("instant", INSTANTS)
def test_conditions_take_the_rows_that_spark_takes(spark: SparkSession, instant: str) -> None:
    make_table(spark)
    drawn = Conditions(INSTANTS.index(instant))
    texts = dict.fromkeys([*WRITTEN, *(drawn.condition() for _ in range(DRAWN))])
    pairs: list[tuple[str, str]] = []
    for text in texts:
        try:
            pairs.append((asked_at(text, instant), read(text, instant)))
        except SqlError:
            continue
    pairs.sort(key=lambda pair: "* INTERVAL" in pair[0])  # the texts that may fail are together at the end
    failed: list[str] = []
    wrong: dict[str, str] = {}
    for start in range(0, len(pairs), BATCH):
        wrong |= differences(spark, pairs[start : start + BATCH], failed)
    assert not wrong, "\n".join(f"{text}\n    {mine}" for text, mine in wrong.items())
    assert len(pairs) > 0.75 * len(texts)
    assert len(failed) < 0.1 * len(pairs)


def test_now_rounded_is_what_spark_makes_of_it_on_both_sides_of_midnight(spark: SparkSession) -> None:
    make_table(spark)
    rounded = [text for text in WRITTEN if re.search("CURRENT_DATE|DATE|TIMESTAMP[AD]", text)]
    pairs = [(asked_at(text, instant), read(text, instant)) for text in rounded for instant in MIDNIGHTS]
    failed: list[str] = []
    wrong = differences(spark, pairs, failed)
    assert not wrong, "\n".join(f"{text}\n    {mine}" for text, mine in wrong.items())
    assert len(rounded) > 45
    assert len(failed) < 0.1 * len(pairs)


def test_a_reading_that_takes_other_rows_is_noticed(spark: SparkSession) -> None:
    make_table(spark)
    assert differences(spark, [("i < 12", "i <= 12"), ("b", "b")], []) == {"i < 12": "i <= 12"}
