"""The allow-list of scalar functions (design section 8): deterministic, total, of bounded output.

A name that is not here is refused.  Each entry gives the number of arguments and the type of the result.  Left
out on purpose: whatever is volatile (rand, uuid), tells of the machine or the session (input_file_name, current_user),
reaches the JVM (reflect, java_method), or can blow a short row up (repeat, lpad, rpad, space, sequence).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.algebra.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGRAL,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
)

TypeRule: TypeAlias = Callable[[Sequence[DataType]], DataType]


@dataclass(frozen=True)
class Function:
    """A function that a query may call.

    ``takes`` names the type family every argument must be of (None: any).
    """

    least: int
    most: int
    result: TypeRule
    takes: str | None = None


def fixed(type: DataType) -> TypeRule:
    """Always the same type."""
    return lambda _: type


def first(types: Sequence[DataType]) -> DataType:
    """The type of the first argument."""
    return types[0]


def common(types: Sequence[DataType]) -> DataType:
    """The type that all arguments can be read as; raises TypeError where there is none."""
    known = [type for type in types if type != NULL]
    if not known:
        return NULL
    result = known[0]
    for type in known[1:]:
        result = wider(result, type)
    return result


def branches(types: Sequence[DataType]) -> DataType:
    """The type of IF(condition, a, b)."""
    return common(types[1:])


def wider(left: DataType, right: DataType) -> DataType:
    """The type both can be read as, as Spark widens them; raises TypeError where there is none."""
    if left == right:
        return left
    if {left.name, right.name} == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    if not (left.numeric and right.numeric):
        raise TypeError(f"{left} and {right}")
    names = (left.name, right.name)
    if "DOUBLE" in names or ("FLOAT" in names and "DECIMAL" in names):
        return DOUBLE
    if "FLOAT" in names:
        return FLOAT
    if "DECIMAL" in names:
        a, b = as_decimal(left), as_decimal(right)
        scale = max(a[1], b[1])
        return bounded_decimal(max(a[0] - a[1], b[0] - b[1]) + scale, scale)
    return left if INTEGRAL.index(left.name) > INTEGRAL.index(right.name) else right


def as_decimal(type: DataType) -> tuple[int, int]:
    """(precision, scale) under which Spark reads an exact number as a decimal."""
    if type.name == "DECIMAL":
        return type.precision or 10, type.scale or 0
    return {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}[type.name], 0


def bounded_decimal(precision: int, scale: int) -> DataType:
    """Spark's adjustment to 38 digits: digits before the point win, at least six after it are kept."""
    if precision <= 38:
        return DataType("DECIMAL", precision, scale)
    return DataType("DECIMAL", 38, max(38 - (precision - scale), min(scale, 6)))


def _rounded(types: Sequence[DataType]) -> DataType:
    return types[0] if types[0].name != "DECIMAL" else DOUBLE


_TEXT: Final = {
    "lower": Function(1, 1, fixed(STRING), "STRING"),
    "upper": Function(1, 1, fixed(STRING), "STRING"),
    "lcase": Function(1, 1, fixed(STRING), "STRING"),
    "ucase": Function(1, 1, fixed(STRING), "STRING"),
    "initcap": Function(1, 1, fixed(STRING), "STRING"),
    "reverse": Function(1, 1, fixed(STRING), "STRING"),
    "length": Function(1, 1, fixed(INT), "STRING"),
    "char_length": Function(1, 1, fixed(INT), "STRING"),
    "trim": Function(1, 1, fixed(STRING), "STRING"),
    "ltrim": Function(1, 1, fixed(STRING), "STRING"),
    "rtrim": Function(1, 1, fixed(STRING), "STRING"),
    "substring": Function(2, 3, fixed(STRING)),
    "substr": Function(2, 3, fixed(STRING)),
    "left": Function(2, 2, fixed(STRING)),
    "right": Function(2, 2, fixed(STRING)),
    "concat": Function(1, 20, fixed(STRING)),
    "concat_ws": Function(2, 20, fixed(STRING)),
    "replace": Function(3, 3, fixed(STRING), "STRING"),
    "translate": Function(3, 3, fixed(STRING), "STRING"),
    "instr": Function(2, 2, fixed(INT), "STRING"),
    "locate": Function(2, 2, fixed(INT), "STRING"),
    "split_part": Function(3, 3, fixed(STRING)),
    "startswith": Function(2, 2, fixed(BOOLEAN), "STRING"),
    "endswith": Function(2, 2, fixed(BOOLEAN), "STRING"),
    "contains": Function(2, 2, fixed(BOOLEAN), "STRING"),
    "ascii": Function(1, 1, fixed(INT), "STRING"),
    "levenshtein": Function(2, 2, fixed(INT), "STRING"),
    "soundex": Function(1, 1, fixed(STRING), "STRING"),
    "regexp_like": Function(2, 2, fixed(BOOLEAN), "STRING"),
    "regexp_extract": Function(2, 3, fixed(STRING)),
    "regexp_replace": Function(3, 3, fixed(STRING), "STRING"),
    "md5": Function(1, 1, fixed(STRING)),
    "sha2": Function(2, 2, fixed(STRING)),
    "crc32": Function(1, 1, fixed(BIGINT)),
    "unhex": Function(1, 1, fixed(BINARY)),
}
_NUMBERS: Final = {
    "abs": Function(1, 1, first, "NUMERIC"),
    "sign": Function(1, 1, fixed(DOUBLE), "NUMERIC"),
    "ceil": Function(1, 1, fixed(BIGINT), "NUMERIC"),
    "ceiling": Function(1, 1, fixed(BIGINT), "NUMERIC"),
    "floor": Function(1, 1, fixed(BIGINT), "NUMERIC"),
    "round": Function(1, 2, _rounded, "NUMERIC"),
    "sqrt": Function(1, 1, fixed(DOUBLE), "NUMERIC"),
    "exp": Function(1, 1, fixed(DOUBLE), "NUMERIC"),
    "ln": Function(1, 1, fixed(DOUBLE), "NUMERIC"),
    "log10": Function(1, 1, fixed(DOUBLE), "NUMERIC"),
    "power": Function(2, 2, fixed(DOUBLE), "NUMERIC"),
    "pow": Function(2, 2, fixed(DOUBLE), "NUMERIC"),
    "mod": Function(2, 2, common, "NUMERIC"),
    "isnan": Function(1, 1, fixed(BOOLEAN), "NUMERIC"),
}
_CHOICES: Final = {
    "coalesce": Function(1, 20, common),
    "ifnull": Function(2, 2, common),
    "nvl": Function(2, 2, common),
    "nullif": Function(2, 2, first),
    "greatest": Function(2, 20, common),
    "least": Function(2, 20, common),
    "if": Function(3, 3, branches),
    "isnull": Function(1, 1, fixed(BOOLEAN)),
    "isnotnull": Function(1, 1, fixed(BOOLEAN)),
}
_TIMES: Final = {
    "year": Function(1, 1, fixed(INT), "TIME"),
    "quarter": Function(1, 1, fixed(INT), "TIME"),
    "month": Function(1, 1, fixed(INT), "TIME"),
    "day": Function(1, 1, fixed(INT), "TIME"),
    "dayofmonth": Function(1, 1, fixed(INT), "TIME"),
    "dayofweek": Function(1, 1, fixed(INT), "TIME"),
    "dayofyear": Function(1, 1, fixed(INT), "TIME"),
    "weekday": Function(1, 1, fixed(INT), "TIME"),
    "weekofyear": Function(1, 1, fixed(INT), "TIME"),
    "hour": Function(1, 1, fixed(INT), "TIME"),
    "minute": Function(1, 1, fixed(INT), "TIME"),
    "second": Function(1, 1, fixed(INT), "TIME"),
    "to_date": Function(1, 1, fixed(DATE), "TIME"),
    "date": Function(1, 1, fixed(DATE), "TIME"),
    "last_day": Function(1, 1, fixed(DATE), "TIME"),
    "datediff": Function(2, 2, fixed(INT), "TIME"),
    "unix_micros": Function(1, 1, fixed(BIGINT), "TIME"),
    "unix_millis": Function(1, 1, fixed(BIGINT), "TIME"),
    "unix_seconds": Function(1, 1, fixed(BIGINT), "TIME"),
    "timestamp_micros": Function(1, 1, fixed(TIMESTAMP), "NUMERIC"),
    "timestamp_seconds": Function(1, 1, fixed(TIMESTAMP), "NUMERIC"),
}
FUNCTIONS: Final[dict[str, Function]] = {**_TEXT, **_NUMBERS, **_CHOICES, **_TIMES}

AGGREGATES: Final = frozenset(
    [
        "count",
        "sum",
        "avg",
        "mean",
        "min",
        "max",
        "any_value",
        "first",
        "last",
        "collect_list",
        "collect_set",
        "stddev",
        "variance",
        "median",
        "mode",
        "percentile",
        "approx_count_distinct",
        "bool_and",
        "bool_or",
        "every",
        "some",
        "string_agg",
        "listagg",
        "array_agg",
    ]
)
VOLATILE: Final = frozenset(
    [
        "rand",
        "random",
        "randn",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "current_user",
        "user",
        "session_user",
        "current_database",
        "current_schema",
        "current_catalog",
        "version",
    ]
)
WINDOWS: Final = frozenset(
    ["row_number", "rank", "dense_rank", "ntile", "lag", "lead", "percent_rank", "cume_dist", "nth_value"]
)
EXPANDING: Final = frozenset(["repeat", "lpad", "rpad", "space", "sequence"])
REACHING_OUT: Final = frozenset(["reflect", "try_reflect", "java_method", "transform"])
