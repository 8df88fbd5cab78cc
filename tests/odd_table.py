"""A table with difficult values: extremes, NULL, texts that are not numbers, and characters with a meaning in LIKE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawn_expressions import COLUMNS
from netnews import table
from weft.algebra.schema import DataType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = {"odd": table(1, "odd", {name: DataType.parse(kind) for name, kind in COLUMNS.items()})}
_ROWS = r"""
1 | 1 | 1 | 1 | 1 | 1 | 1 | a | a% | true | false | 2000-01-01 | 1999-12-31 | 2000-01-01 12:00:00 | 2000-01-01 | a
0 | 0 | 0 | 0 | -0.0 | 0 | 0 | | a | false | false | 1970-01-01 | 2000-01-01 | 1970-01-01 | 1999-12-31 23:00:00 |
7 | 12 | 100 | 0.5 | 1.5 | 1.5 | 2.25 | 12 | _2 | true | true | 2000-02-29 | 2000-02-01
  | 2000-01-01 12:00:01.5 | 1999-01-01 | A
2 | 300 | 9 | 3 | -4 | 2.55 | 0.1 | 2000-01-01 12:00:00 | %a | false | true | 1993-04-05 | 1993-04-05
  | 1993-04-05 | 2000-01-01 | b
-128 | -2147483648 | -9223372036854775808 | Infinity | NaN | 99999999.99 | 9999999999999999999999999999.9 | (\%_ | \
  | true | NULL | 9999-12-31 | 0001-01-01 | 9999-12-31 23:59:59.999999 | 0001-01-01 | ÿ
127 | 2147483647 | 9223372036854775807 | NaN | 1e308 | -1.5 | -1.5 | 200000-01-01 | $5
  | NULL | true | 0001-01-01 | 9999-12-31 | 0001-01-01 | 9999-12-31 | \\
3 | -5 | 4611686018427387904 | 1e38 | -Infinity | -0.01 | 1e-10 | $1 | a\b | true | false | 2000-01-01 | 2000-01-01
  | 2000-01-01 00:00:00.000001 | 2000-01-01 | x
"""
ROWS = [*_ROWS.strip().replace("\n  |", " |").split("\n"), " | ".join(["NULL"] * len(COLUMNS))]
TAME = 4
"""The number of rows at the start whose values cause no overflow."""


def make_table(spark: SparkSession) -> None:
    """Create the view ``odd`` of all rows, ``tame`` of the first rows, and ``odd_N`` of the row N alone."""
    names = ", ".join(f"{name}_" for name in COLUMNS)
    cast = ", ".join(f"CAST({name}_ AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    rows = [f"({', '.join(_cell(cell.strip()) for cell in row.split('|'))})" for row in ROWS]
    alone = ((f"odd_{number}", [row]) for number, row in enumerate(rows))
    for view, these in (("odd", rows), ("tame", rows[:TAME]), *alone):
        text = f"SELECT {cast}, TIMESTAMP '2000-01-01' AS ts FROM VALUES {', '.join(these)} AS u({names})"
        spark.sql(text).createOrReplaceTempView(view)


def _cell(text: str) -> str:
    return text if text == "NULL" else f"r'{text}'"
