"""Weft knows all words of Spark's grammar, and any of them can be a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netnews import table
from weft.algebra.schema import INT
from weft.execution.groups import instant
from weft.planning.plan import at_instant, for_one, plan
from weft.sql.rendering.render import KEYWORDS, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPELT_TWICE = {"RLIKE": "REGEXP", "TEMPORARY": "TEMP"}
"""Tokens with a second spelling, which ``sql_keywords()`` omits."""


def words_of(spark: SparkSession) -> set[str]:
    """Return every word in the lexer of the installed Spark."""
    known = {row[0] for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()}
    lexer = spark.sparkContext._jvm.org.apache.spark.sql.catalyst.parser.SqlBaseLexer.VOCABULARY  # type: ignore[union-attr]
    numbers = range(1, lexer.getMaxTokenType() + 1)
    nameless = [lexer.getSymbolicName(number) for number in numbers if lexer.getLiteralName(number) is None]
    twice = set(nameless[: nameless.index("EQ")])  # the next rules are patterns: numbers, strings, comments
    assert twice == set(SPELT_TWICE)
    return known | set(SPELT_TWICE) | set(SPELT_TWICE.values())


def test_the_list_is_that_of_the_installed_spark(spark: SparkSession) -> None:
    assert words_of(spark) == KEYWORDS


def test_each_word_can_name_a_column_an_alias_and_an_answer_s_column(spark: SparkSession) -> None:
    words = sorted(word.lower() for word in KEYWORDS)
    tables = {"worded": table(1, "worded", dict.fromkeys(words, INT))}
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    for word in words:
        w = f"`{word}`"
        text = f"SELECT {w}.{w} AS {w} FROM worded {w} WHERE NOT EXISTS (SELECT 1 FROM worded r WHERE r.{w} < {w}.{w})"
        found = plan(text, tables)
        for event in found.branches:
            parser.parsePlan(for_one(event, found.values, {}, whole=False).sql)
    columns = ", ".join(f"{number} AS {quoted(word)}" for number, word in enumerate(words))
    spark.sql(f"SELECT {columns}, TIMESTAMP '2000-01-01' AS ts").createOrReplaceTempView("worded")
    everything = ", ".join(f"`{word}`" for word in words)
    query = plan(f"SELECT {everything} FROM worded", tables).query
    (branch,) = at_instant(query, instant(1_000_000_000_000_000))
    rows = spark.sql(branch.sql).collect()
    assert [list(row)[: len(words)] for row in rows] == [list(range(len(words)))]
