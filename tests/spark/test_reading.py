"""Weft and Spark give an expression the same type and the same values over difficult rows.

The test evaluates each text twice over one table: in Spark as written, and as Weft parses and renders it. Weft may
refuse a text, and may give NULL for a row for which Spark fails. Every other difference is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from drawn_expressions import Expressions
from odd_table import ROWS, TABLES, make_table
from oracle.shards import shards
from weft.errors import SqlError
from weft.planning.plan import plan
from weft.runtime.session import spark_errors
from weft.sql.rendering import render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 100
Pair: TypeAlias = "tuple[str, str, str]"
"""The text, the text that Weft renders, and the type according to Weft."""


@dataclass
class Reading:
    """The results for the expressions."""

    agreed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The expressions for which Spark fails for some row, and Weft does not."""


def read(spark: SparkSession, texts: Sequence[str], *, each: bool) -> Reading:
    """Evaluate every text in both ways.

    If Spark fails for a text, compare it row by row with ``each``, otherwise only over the tame rows.
    """
    reading = Reading()
    pairs: list[Pair] = []
    for text in texts:
        try:
            found = plan(f"SELECT {text} AS c FROM odd", TABLES).query
        except SqlError as error:
            reading.refused[text] = str(error)
            continue
        pairs.append((text, render.scalar(found.outputs[0].value), str(found.types[0])))
    pairs.sort(key=lambda pair: bool(FAILING.search(pair[0])))  # the texts that may fail are together at the end
    for start in range(0, len(pairs), BATCH):
        _compare(spark, pairs[start : start + BATCH], reading, each)
    return reading


FAILING = re.compile(r"\* INTERVAL|LIKE|AS TIMESTAMP|TIMESTAMP_MICROS|ADD\(|DIFF\(|DATE_TRUNC")
"""Expressions for which Spark may fail for a row."""


def _compare(spark: SparkSession, pairs: list[Pair], reading: Reading, each: bool) -> None:
    """Compare a batch. If Spark refuses the batch or fails for a row, divide the batch until the expression is
    alone.
    """
    rendered = [shown for _, shown, _ in pairs]
    both = [*(text for text, _, _ in pairs), *rendered]
    found = _evaluated(spark, both, "odd")
    if isinstance(found, Exception) and not each and not isinstance(_evaluated(spark, rendered, "odd"), Exception):
        found = _evaluated(spark, both, "tame")
    if isinstance(found, Exception):
        if len(pairs) == 1:
            _alone(spark, *pairs[0], str(found), reading)
            return
        _compare(spark, pairs[: len(pairs) // 2], reading, each)
        _compare(spark, pairs[len(pairs) // 2 :], reading, each)
        return
    kinds, rows = found
    for n, (text, shown, said) in enumerate(pairs):
        values = [(row[n], row[len(pairs) + n]) for row in rows]
        _judge(text, shown, said, kinds[n], kinds[len(pairs) + n], values, reading)


def _evaluated(spark: SparkSession, texts: Sequence[str], view: str) -> tuple[list[str], list[Any]] | Exception:
    """Return the types and the values (as strings) of several expressions over a view."""
    items = ", ".join(f"{text} AS c{n}" for n, text in enumerate(texts))
    try:
        data = spark.sql(f"SELECT {items} FROM {view} AS odd")
        kinds = [field.dataType.simpleString().upper() for field in data.schema.fields]
        return kinds, data.selectExpr(*(f"CAST({name} AS STRING)" for name in data.columns)).collect()
    except spark_errors() as error:
        return error


def _judge(
    text: str, shown: str, said: str, asked: str, got: str, rows: list[tuple[Any, Any]], reading: Reading
) -> None:
    different = [(spark_s, weft_s) for spark_s, weft_s in rows if spark_s != weft_s]
    if said != asked or got != asked:
        reading.wrong[text] = f"Spark: {asked}, Weft says {said}, rendered {shown}: {got}"
    elif different:
        reading.wrong[text] = f"(Spark, Weft) {different}, rendered {shown}"
    else:
        reading.agreed.append(text)


def _alone(spark: SparkSession, text: str, shown: str, said: str, problem: str, reading: Reading) -> None:
    """Check an expression for which Spark fails. Weft must not fail, and must agree for each row for which Spark
    succeeds.
    """
    mine = _evaluated(spark, [shown], "odd")
    rows, kinds = [], set()
    for number in range(len(ROWS)):
        found = _evaluated(spark, [text, shown], f"odd_{number}")
        if not isinstance(found, Exception):
            kinds.add(tuple(found[0]))
            rows.append((found[1][0][0], found[1][0][1]))
    if isinstance(mine, Exception) or len(kinds) != 1:
        reading.wrong[text] = f"refused: {problem[:200]}; rendered {shown}"
        return
    reading.failed[text] = problem
    _judge(text, shown, said, *kinds.pop(), rows, reading)


def error_lines(reading: Reading) -> str:
    """Return the errors, one expression per line."""
    return "\n".join(f"{text}\n    {problem}" for text, problem in islice(reading.wrong.items(), 40))


def written() -> list[str]:
    """Return the written cases, which include every expression that was once wrong."""
    lines = (Path(__file__).parent / "expressions.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def test_the_written_expressions(spark: SparkSession) -> None:
    texts = written()
    assert len(texts) == len(set(texts)) >= 400
    make_table(spark)
    reading = read(spark, texts, each=True)
    assert not reading.wrong, error_lines(reading)
    assert len(reading.agreed) > 550
    assert reading.failed, "no row at which Spark fails was among them"


@pytest.mark.parametrize("seed", shards(4, 1))
def test_random_expressions(spark: SparkSession, seed: int) -> None:
    drawn, texts = Expressions(seed), dict[str, None]()
    while len(texts) < 500:
        texts[drawn.draw()] = None
    make_table(spark)
    reading = read(spark, list(texts), each=False)
    assert not reading.wrong, error_lines(reading)
    assert len(reading.refused) < 0.25 * len(texts)
