"""The type that Weft gives an expression is the type in Spark, and the expression fails for no row."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from netnews import table
from weft.algebra.schema import DataType
from weft.errors import SqlError
from weft.execution.groups import instant
from weft.planning.plan import Plan, at_instant, plan
from weft.sql.functions import FUNCTIONS
from weft.sql.rendering import render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = {
    "y": "TINYINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "e": "DECIMAL(10,2)",
    "g": "DECIMAL(38,10)",
    "s": "STRING",
    "b": "BOOLEAN",
    "a": "DATE",
    "w": "TIMESTAMP",
    "n": "BINARY",
}
TABLES = {"odd": table(1, "odd", {name: DataType.parse(kind) for name, kind in KINDS.items()})}
INTEGERS = (
    ("127", "2147483647", "9223372036854775807"),
    ("0", "0", "0"),
    ("-128", "-2147483648", "-9223372036854775807"),
)
FRACTIONS = (
    ("NaN", "Infinity", "99999999.99", "9999999999999999999999999999.9"),
    ("0", "-0.0", "0", "0"),
    ("1e38", "1e308", "-1.5", "-1.5"),
)
OTHERS = (
    ("(\\\\%_", "true", "9999-12-31", "9999-12-31 23:59:59.999999", "ÿ"),
    ("", "false", "0001-01-01", "0001-01-01 00:00:00", ""),
    ("é😀,a", "true", "1970-01-01", "1970-01-01 00:00:00", "A"),
)
STRINGS = (
    "300000-01-01",
    "-200000-12-31 23:59:59",
    "294247-01-10 04:00:54.775807",
    "%\\\\",
    "\\\\b",
    "$5",
    "NaN",
    "-1e400",
)
ROWS = [", ".join(f"'{value}'" for value in (*a, *b, *c)) for a, b, c in zip(INTEGERS, FRACTIONS, OTHERS, strict=True)]
ROWS.append(", ".join(["NULL"] * len(KINDS)))
for number, text in enumerate(STRINGS):
    ROWS.append(ROWS[number % 3].replace(f"'{OTHERS[number % 3][0]}'", f"'{text}'", 1))
CONSTANTS = {
    "get_json_object": "'$.a'",
    "split_part": "2",
    "regexp_like": "'a+'",
    "regexp_extract": "'a()', 1",
    "regexp_replace": "'a+', 'b'",
    "repeat": "3",
    "add_months": "1",
    **dict.fromkeys(("lpad", "rpad"), "5, 'xy'"),
    **dict.fromkeys(("date_format", "to_date", "to_timestamp", "unix_timestamp"), "'yyyy-MM-dd'"),
}
FIRSTS = {
    "split_part": ("s, ','", "NULL, ','"),
    **dict.fromkeys(("add_months", "date_format"), ("w", "a", "CAST(s AS DATE)", "NULL")),
}


def expressions() -> list[str]:
    """Return functions and operators over columns of every type, casts, and intervals from columns."""
    found = [f"{a} {op} {b}" for op in ("+", "-", "*", "/", "%", "=", "<", "<=>") for a, b in product(KINDS, repeat=2)]
    for name, function in FUNCTIONS.items():
        if name in CONSTANTS:
            firsts = FIRSTS.get(name, ("s", "NULL"))
            found += [f"{name}({first}, {CONSTANTS[name]})" for first in firsts]
            continue
        for arity in range(function.least, min(function.most, 3) + 1):
            several = product([*KINDS, "NULL"], repeat=arity) if arity < 3 else ([k, "i", "l"] for k in KINDS)
            found += [f"{name}({', '.join(args)})" for args in several]
    found += [f"CAST({a} AS {kind})" for a, kind in product(KINDS, KINDS.values())]
    found += [f"IF({a} = {a} OR NULL, {a}, NULL)" for a in KINDS] + [f"-{a}" for a in KINDS if a != "g"]
    for number in ("y", "i", "l", "f", "d", "e", "g"):
        found += [f"w + {number} * INTERVAL 9 DAYS", f"a - (w - a) * {number}", f"(w - a) * {number} < INTERVAL 1 DAY"]
    return [*found, *FAR]


FAR = [
    *(f"DATE_TRUNC('{unit}', CAST({n} AS TIMESTAMP))" for n in "yilfdegs" for unit in ("YEAR", "WEEK", "DAY", "HOUR")),
    *(f"DATEADD({unit}, {n}, w)" for n in "yil" for unit in ("WEEK", "DAY", "MICROSECOND")),
    *(f"DATEADD({unit}, -9999, CAST(l AS TIMESTAMP))" for unit in ("YEAR", "MONTH", "DAY")),
    *(f"DATEDIFF({unit}, CAST(l AS TIMESTAMP), CAST(s AS DATE)) = 0" for unit in ("YEAR", "DAY", "MICROSECOND")),
    *(f"{call}(CAST(s AS DATE), l) = a" for call in ("DATE_ADD", "DATE_SUB")),
    "ADD_MONTHS(CAST(s AS DATE), 119988)",
    "MONTHS_BETWEEN(CAST(l AS TIMESTAMP), CAST(s AS DATE))",
    "UNIX_TIMESTAMP(CAST(l AS TIMESTAMP))",
    "DATE_FORMAT(CAST(l AS TIMESTAMP), 'yyyy-MM-dd hh:mm:ss a')",
    *(f"TIMESTAMP_MICROS({n}) {sign} INTERVAL 1 DAY" for n in "yil" for sign in "+-"),
    *(f"CAST({n} AS TIMESTAMP) {sign} INTERVAL 1 DAY" for n in "yilfdegs" for sign in "+-"),
    *(f"CAST({n} AS TIMESTAMP) - {other} < INTERVAL 1 DAY" for n in "ils" for other in "wa"),
    *(f"{call}(CAST(s AS DATE)) = 1" for call in ("HOUR", "SECOND", "YEAR", "WEEKDAY", "DAYOFYEAR")),
    *(f"{call}(CAST(s AS DATE), {other}) = a" for call in ("GREATEST", "COALESCE") for other in "wa"),
    "CAST(CAST(s AS DATE) AS TIMESTAMP)",
    "CAST(s AS DATE) + INTERVAL 1 DAY",
    "CAST(s AS DATE) - w > INTERVAL 1 DAY",
    "LAST_DAY(CAST(s AS DATE))",
    "EXTRACT(SECOND FROM CAST(s AS DATE))",
    "w > CAST(s AS DATE)",
    "-(TIMESTAMP_MICROS(l) - w) < INTERVAL 1 DAY",
    *(f"'a' {like} {pattern}" for like in ("LIKE", "ILIKE", "NOT LIKE") for pattern in ("s", "s || s", "REVERSE(s)")),
    "s LIKE CONCAT('%', s, '\\\\')",
]
"""Expressions for which Spark would fail for some row as written."""


def taken(text: str) -> Plan | None:
    try:
        return plan(f"SELECT {text} AS c FROM odd", TABLES)
    except SqlError:
        return None


def test_types_and_values_of_everything_that_is_taken(spark: SparkSession) -> None:
    columns = ", ".join(f"CAST({name}_ AS {kind}) AS {name}" for name, kind in KINDS.items())
    values = ", ".join(f"({row})" for row in ROWS)
    names = ", ".join(f"{name}_" for name in KINDS)
    text = f"SELECT {columns}, TIMESTAMP '2000-01-01' AS ts FROM VALUES {values} AS v({names})"
    spark.sql(text).createOrReplaceTempView("odd")
    plans = {text: found for text in expressions() if (found := taken(text))}
    assert len(plans) > 700
    items = ", ".join(f"{render.scalar(p.query.outputs[0].value)} AS c{n}" for n, p in enumerate(plans.values()))
    data = spark.sql(f"SELECT {items} FROM odd")
    wrong = {}
    for (text, found), field in zip(plans.items(), data.schema.fields, strict=True):
        said, is_ = str(found.query.types[0]), field.dataType.simpleString().upper()
        if said != is_:
            wrong[text] = (said, is_)
    assert not wrong
    # The values are strings, because Python cannot represent all values of a column.
    assert len(data.selectExpr(*(f"CAST(c{n} AS STRING)" for n in range(len(plans)))).collect()) == len(ROWS)


def test_thresholds_that_are_null_or_beyond_all_time_are_never_reached(spark: SparkSession) -> None:
    spark.sql(
        "SELECT CAST(n AS INT) AS n, TIMESTAMP '2000-01-01' AS ts FROM VALUES (1), (2147483647), (NULL) AS v(n)"
    ).createOrReplaceTempView("rows_")
    tables = {"rows_": table(1, "rows_", {"n": DataType("INT")})}
    for condition, wanted in (("NOW() > ts + n * INTERVAL 9 DAYS", [1]), ("NOW() > NULL", []), ("NOW() <=> NULL", [])):
        query = plan(f"SELECT n FROM rows_ WHERE {condition}", tables).query
        (branch,) = at_instant(query, instant(1_000_000_000_000_000))
        found = spark.sql(branch.sql).collect()
        assert [row["n"] for row in found] == wanted
