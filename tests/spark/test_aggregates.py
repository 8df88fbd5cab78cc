"""Every aggregate in standing queries on Spark: the rows of all groups at each instant, as plain Python computes them,
for any sequence of ticks; and in moving windows, whose rows leave with time alone.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from every_period import Row, measured
from replayed import START, first_instants, load, replay_home
from weft.algebra.schema import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, DataType

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SECOND: Final = 1_000_000
COLUMNS = [
    ("k", STRING), ("whole", BIGINT), ("real", DOUBLE), ("exact", DataType("DECIMAL", 20, 2)), ("text", STRING),
    ("flag", BOOLEAN), ("ts", TIMESTAMP),
]  # fmt: skip
MEASURES: Final = {
    "COUNT(*)": "count",
    "COUNT(whole)": "count whole",
    "COUNT(DISTINCT text)": "count distinct text",
    "SUM(exact)": "sum exact",
    "SUM(DISTINCT whole)": "sum distinct whole",
    "AVG(real)": "avg real",
    "AVG(DISTINCT whole)": "avg distinct whole",
    "MIN(text)": "min text",
    "MAX(real)": "max real",
    "BOOL_AND(flag)": "min flag",
    "BOOL_OR(flag)": "max flag",
    "MEDIAN(whole)": "median whole",
    "MIN_BY(text, whole)": "min_by text whole",
    "MAX_BY(text, whole)": "max_by text whole",
    "STDDEV(real)": "stddev_samp real",
    "STDDEV_POP(whole)": "stddev_pop whole",
    "VARIANCE(exact)": "var_samp exact",
    "VAR_POP(DISTINCT real)": "var_pop distinct real",
    "ARRAY_AGG(text)": "array_agg text",
    "COLLECT_SET(whole)": "collect_set whole",
}
WINDOW: Final = 5
LAST: Final = 30
TICKS: Final = (8, LAST)


def drawn(chance: random.Random) -> Row:
    """A row with its instant in seconds."""
    return Row(
        (chance.choice((None, "a", "b")),),
        1,
        chance.choice((None, 0, -7, 5, 2**40)),
        chance.choice((None, 0.5, 1.0, 1e16, -1e16)),
        chance.choice((None, Decimal("0.01"), Decimal("-2.50"), Decimal("7.25"))),
        chance.randrange(LAST - 3),
        None,
        chance.choice((None, "", "a", 'b"\\é')),
        chance.choice((None, True, False)),
    )


def shown(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(f"{each:.12g}" if isinstance(each, float) and not math.isnan(each) else each for each in values)


def expected(rows: list[Row], *, length: int | None, every_group: bool) -> dict[tuple[Any, ...], int]:
    """The answers with their first instants.  A row is there for ``length`` seconds, or for ever."""
    found: dict[tuple[Any, ...], int] = {}
    for second in range(LAST):
        there = [row for row in rows if row.start <= second and (length is None or second < row.start + length)]
        groups: dict[Any, list[Row]] = {} if every_group else {(): []}
        for row in there:
            groups.setdefault(row.key if every_group else (), []).append(row)
        for key, members in groups.items():
            values = shown((*key, *(measured(members, name) for name in MEASURES.values())))
            found.setdefault(values, START + second * SECOND)
    return found


def test_aggregates_are_exact_at_every_instant(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    rows = sorted((drawn(chance) for _ in range(40)), key=lambda row: row.start)
    weft = replay_home(tmp_path / "home")
    weft.tick(now=START)
    measures = ", ".join(f"{call} AS m{number}" for number, call in enumerate(MEASURES))
    lately = f"ts > NOW() - INTERVAL {WINDOW} SECONDS"
    stored = [
        (row.key[0], row.whole, row.real, row.exact, row.text, row.flag, START + row.start * SECOND) for row in rows
    ]
    for begin, tick in zip((0, *TICKS), TICKS, strict=False):
        part = [each for row, each in zip(rows, stored, strict=True) if begin <= row.start < tick]
        load(weft, spark, "t", part, COLUMNS)
        if not begin:
            weft.install("groups", f"SELECT k, {measures} FROM t GROUP BY k")
            weft.install("all_rows", f"SELECT {measures} FROM t WHERE {lately}")
        weft.tick(now=START + tick * SECOND)
    for name, length, every_group in (("groups", None, True), ("all_rows", WINDOW, False)):
        wanted = expected(rows, length=length, every_group=every_group)
        found = {shown(values): at for values, at in first_instants(weft, name).items()}
        assert found == wanted, name
        assert len(wanted) > 20
    weft.close()
