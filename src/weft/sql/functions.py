"""List the scalar functions that a query may call (design section 8).

The functions are deterministic and total, and their output has a bounded size.  Weft refuses all other functions.  For
example, Weft refuses volatile functions (rand, uuid) and functions that depend on the session (current_user).  Weft
also refuses functions that call Java code (reflect) or turn a short row into a huge row (space, sequence).

Each entry gives the number of arguments and the type of the result.  ``lower.times`` and ``lower.calls`` translate the
functions with a special syntax (``FORMS``).

The aggregates have these result types in every engine:

    COUNT                         BIGINT
    SUM                           BIGINT for TINYINT to BIGINT (NULL on overflow), DECIMAL(min(p + 10, 38), s) for
                                  DECIMAL(p, s), DOUBLE for FLOAT and DOUBLE
    AVG, MEDIAN, STDDEV, VARIANCE DOUBLE
    MIN, MAX, MIN_BY, MAX_BY      the type of the argument
    ARRAY_AGG, COLLECT_SET        the JSON text of an ARRAY

Aggregates ignore NULLs.  If all values are NULL, COUNT is 0, an array is empty, and the other aggregates are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.algebra.relation import AggregateFunction
from weft.algebra.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGRAL,
    INTERVAL,
    MONTHS,
    MOST_DIGITS,
    NULL,
    STRING,
    SUM_DIGITS,
    TIMESTAMP,
    DataType,
)

LONGEST_PADDING: Final = 1_000
"""The maximal length of LPAD and RPAD, and the maximal count of REPEAT, to limit the size of answers."""
_STRINGS: Final = DataType("ARRAY", element=STRING)
TypeRule: TypeAlias = Callable[[Sequence[DataType]], DataType]


@dataclass(frozen=True)
class Function:
    """A function that a query may call.

    ``takes`` lists the type family of each argument.  The last family applies to all further arguments.  The arguments
    from position ``constant`` on (counted from 0) must be constants, because a varying value could make the query fail.
    """

    least: int
    most: int
    result: TypeRule
    takes: tuple[str, ...] = ("ANY",)
    constant: int | None = None


def fixed(type: DataType) -> TypeRule:
    """Return a rule that gives the result type ``type`` for all arguments."""
    return lambda _: type


def common(types: Sequence[DataType]) -> DataType:
    """Return the common type of all arguments.  Raise TypeError if the arguments have no common type."""
    known = [type for type in types if type != NULL]
    if not known:
        return NULL
    result = known[0]
    for type in known[1:]:
        result = wider(result, type)
    return result


def wider(left: DataType, right: DataType) -> DataType:
    """Return Spark's common type for two types.  Raise TypeError if Spark has no common type."""
    if left.shape != right.shape and INTERVAL in (left.shape, right.shape):
        raise TypeError(f"{left.declared} and {right.declared}")
    if left == right:
        return left if left.shape == right.shape else STRING
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
    """Return the precision and scale of the DECIMAL type that Spark uses for an exact numeric type."""
    if type.name == "DECIMAL":
        return type.precision or 10, type.scale or 0
    return {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}[type.name], 0


def bounded_decimal(precision: int, scale: int) -> DataType:
    """Return a DECIMAL type with at most 38 digits.

    Like Spark, the function first removes digits after the point, but at least six of these digits remain.
    """
    if precision <= 38:
        return DataType("DECIMAL", precision, scale)
    return DataType("DECIMAL", 38, max(38 - (precision - scale), min(scale, 6)))


def arithmetic(operator: str, left: DataType, right: DataType) -> DataType:
    """Return Spark's result type for an arithmetic operation on two numbers."""
    if NULL in (left, right):
        left = right = right if left == NULL else left
    if left == NULL:
        return DOUBLE
    shared = wider(left, right)
    if shared.name != "DECIMAL":
        return DOUBLE if operator == "/" else shared
    (p1, s1), (p2, s2) = as_decimal(left), as_decimal(right)
    if operator == "*":
        return bounded_decimal(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(6, s1 + p2 + 1)
        return bounded_decimal(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if operator == "%":
        return bounded_decimal(min(p1 - s1, p2 - s2) + scale, scale)
    return bounded_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)


_OF_PARTS: Final = ("NESTED", "COLLECTION", "ARRAY", "MAP", "STRINGS", "PART")


def fits(type: DataType, family: str) -> bool:
    """Return whether a type belongs to a type family.

    NULL belongs to all families except the families of nested types.
    """
    if type == NULL or (type == INTERVAL and family == "CHOICE"):
        return family not in _OF_PARTS
    match family:
        case "ANY" | "CHOICE":
            return type not in (INTERVAL, MONTHS) and not type.nested
        case "TEXT":
            return type not in (INTERVAL, MONTHS, BINARY) and not type.nested
        case "PART":
            return type not in (INTERVAL, MONTHS)
        case "NESTED":
            return type.nested
        case "COLLECTION":
            return type.name in ("ARRAY", "MAP")
        case "STRINGS":
            return type == _STRINGS
        case "NUMERIC":
            return type.numeric
        case "INTEGRAL" | "INDEX" | "LENGTH":
            return type.name in INTEGRAL
        case "TIME":
            return type in (TIMESTAMP, DATE)
        case "WRITTEN":
            return type in (TIMESTAMP, DATE, STRING)
        case _:
            return type.name == family


def castable(source: DataType, target: DataType) -> bool:
    """Return whether Spark supports CAST from ``source`` to ``target``."""
    if source.nested:
        return source == target
    if source in (target, NULL) or target == STRING:
        return True
    if target == BINARY:
        return source == STRING or source.name in INTEGRAL
    if target == DATE:
        return source in (STRING, TIMESTAMP)
    return source != BINARY


def tryable(source: DataType, target: DataType) -> bool:
    """Return whether Spark supports TRY_CAST from ``source`` to ``target``."""
    if {source.name, target.name} & {"TIMESTAMP", "DATE"} and (
        source.numeric or target.numeric or BOOLEAN in (source, target)
    ):
        return False
    return castable(source, target) and (target != BINARY or source in (STRING, BINARY, NULL))


def _same(types: Sequence[DataType]) -> DataType:
    return DOUBLE if types[0] == NULL else types[0]


def rounded_decimal(type: DataType, digits: int) -> DataType:
    """Return Spark's type for ROUND of a DECIMAL to ``digits`` digits.

    The type has one more digit before the point, because ROUND(9.9) is 10.

    >>> str(rounded_decimal(DataType("DECIMAL", 10, 2), 1)), str(rounded_decimal(DataType("DECIMAL", 10, 2), -9))
    ('DECIMAL(10,1)', 'DECIMAL(10,0)')
    """
    precision, scale = as_decimal(type)
    integral_digits = precision - scale + 1
    if digits < 0:
        return DataType("DECIMAL", min(max(integral_digits, 1 - digits), 38), 0)
    fraction_digits = min(scale, digits)
    return DataType("DECIMAL", min(integral_digits + fraction_digits, 38), fraction_digits)


def _whole(types: Sequence[DataType]) -> DataType:
    if types[0].name != "DECIMAL":
        return BIGINT
    precision, scale = as_decimal(types[0])
    return bounded_decimal(precision - scale + 1, 0)


def _first_of_like(types: Sequence[DataType]) -> DataType:
    common(types)
    return types[0]


_TEXT: Final = {
    "lower": Function(1, 1, fixed(STRING), ("STRING",)),
    "upper": Function(1, 1, fixed(STRING), ("STRING",)),
    "lcase": Function(1, 1, fixed(STRING), ("STRING",)),
    "ucase": Function(1, 1, fixed(STRING), ("STRING",)),
    "initcap": Function(1, 1, fixed(STRING), ("STRING",)),
    "reverse": Function(1, 1, fixed(STRING), ("STRING",)),
    "length": Function(1, 1, fixed(INT), ("STRING",)),
    "char_length": Function(1, 1, fixed(INT), ("STRING",)),
    "trim": Function(1, 1, fixed(STRING), ("STRING",)),
    "ltrim": Function(1, 1, fixed(STRING), ("STRING",)),
    "rtrim": Function(1, 1, fixed(STRING), ("STRING",)),
    "substring": Function(2, 3, fixed(STRING), ("TEXT", "INTEGRAL")),
    "substr": Function(2, 3, fixed(STRING), ("TEXT", "INTEGRAL")),
    "left": Function(2, 2, fixed(STRING), ("TEXT", "INTEGRAL")),
    "right": Function(2, 2, fixed(STRING), ("TEXT", "INTEGRAL")),
    "concat": Function(1, 20, fixed(STRING), ("TEXT",)),
    "concat_ws": Function(2, 20, fixed(STRING), ("STRING", "TEXT")),
    "replace": Function(3, 3, fixed(STRING), ("STRING",)),
    "translate": Function(3, 3, fixed(STRING), ("STRING",)),
    "instr": Function(2, 2, fixed(INT), ("STRING",)),
    "locate": Function(2, 2, fixed(INT), ("STRING",)),
    "lpad": Function(2, 3, fixed(STRING), ("STRING", "LENGTH", "STRING"), constant=1),
    "rpad": Function(2, 3, fixed(STRING), ("STRING", "LENGTH", "STRING"), constant=1),
    "repeat": Function(2, 2, fixed(STRING), ("STRING", "LENGTH"), constant=1),
    "split_part": Function(3, 3, fixed(STRING), ("STRING", "STRING", "INDEX"), constant=2),
    "startswith": Function(2, 2, fixed(BOOLEAN), ("STRING",)),
    "endswith": Function(2, 2, fixed(BOOLEAN), ("STRING",)),
    "contains": Function(2, 2, fixed(BOOLEAN), ("STRING",)),
    "ascii": Function(1, 1, fixed(INT), ("STRING",)),
    "levenshtein": Function(2, 2, fixed(INT), ("STRING",)),
    "soundex": Function(1, 1, fixed(STRING), ("STRING",)),
    "regexp_like": Function(2, 2, fixed(BOOLEAN), ("STRING",), constant=1),
    "regexp_extract": Function(2, 3, fixed(STRING), ("STRING", "STRING", "INTEGRAL"), constant=1),
    "regexp_replace": Function(3, 3, fixed(STRING), ("STRING",), constant=1),
    "md5": Function(1, 1, fixed(STRING), ("STRING",)),
    "sha": Function(1, 1, fixed(STRING), ("STRING",)),
    "sha1": Function(1, 1, fixed(STRING), ("STRING",)),
    "sha2": Function(2, 2, fixed(STRING), ("STRING", "INTEGRAL")),
    "crc32": Function(1, 1, fixed(BIGINT), ("STRING",)),
    "hash": Function(1, 20, fixed(INT)),
    "xxhash64": Function(1, 20, fixed(BIGINT)),
    "unhex": Function(1, 1, fixed(BINARY), ("STRING",)),
}
_NUMBERS: Final = {
    "abs": Function(1, 1, _same, ("NUMERIC",)),
    "sign": Function(1, 1, fixed(DOUBLE), ("NUMERIC",)),
    "ceil": Function(1, 1, _whole, ("NUMERIC",)),
    "ceiling": Function(1, 1, _whole, ("NUMERIC",)),
    "floor": Function(1, 1, _whole, ("NUMERIC",)),
    "round": Function(1, 2, _same, ("NUMERIC", "INTEGRAL"), constant=1),
    "sqrt": Function(1, 1, fixed(DOUBLE), ("NUMERIC",)),
    "exp": Function(1, 1, fixed(DOUBLE), ("NUMERIC",)),
    "ln": Function(1, 1, fixed(DOUBLE), ("NUMERIC",)),
    "log10": Function(1, 1, fixed(DOUBLE), ("NUMERIC",)),
    "power": Function(2, 2, fixed(DOUBLE), ("NUMERIC",)),
    "pow": Function(2, 2, fixed(DOUBLE), ("NUMERIC",)),
    "mod": Function(2, 2, lambda types: arithmetic("%", types[0], types[1]), ("NUMERIC",)),
    "try_divide": Function(2, 2, lambda types: arithmetic("/", types[0], types[1]), ("NUMERIC",)),
    "isnan": Function(1, 1, fixed(BOOLEAN), ("NUMERIC",)),
}
_CHOICE: Final = ("CHOICE",)
_CHOICES: Final = {
    "coalesce": Function(1, 20, common, _CHOICE),
    "ifnull": Function(2, 2, common, _CHOICE),
    "nvl": Function(2, 2, common, _CHOICE),
    "nvl2": Function(3, 3, lambda types: common(types[1:]), _CHOICE),
    "nullif": Function(2, 2, _first_of_like, _CHOICE),
    "greatest": Function(2, 20, common, _CHOICE),
    "least": Function(2, 20, common, _CHOICE),
    "isnull": Function(1, 1, fixed(BOOLEAN), _CHOICE),
    "isnotnull": Function(1, 1, fixed(BOOLEAN), _CHOICE),
}
_TIMES: Final = {
    "year": Function(1, 1, fixed(INT), ("TIME",)),
    "quarter": Function(1, 1, fixed(INT), ("TIME",)),
    "month": Function(1, 1, fixed(INT), ("TIME",)),
    "day": Function(1, 1, fixed(INT), ("TIME",)),
    "dayofmonth": Function(1, 1, fixed(INT), ("TIME",)),
    "dayofweek": Function(1, 1, fixed(INT), ("TIME",)),
    "dayofyear": Function(1, 1, fixed(INT), ("TIME",)),
    "weekday": Function(1, 1, fixed(INT), ("TIME",)),
    "weekofyear": Function(1, 1, fixed(INT), ("TIME",)),
    "hour": Function(1, 1, fixed(INT), ("TIME",)),
    "minute": Function(1, 1, fixed(INT), ("TIME",)),
    "second": Function(1, 1, fixed(INT), ("TIME",)),
    "to_date": Function(1, 2, fixed(DATE), ("WRITTEN", "STRING")),
    "to_timestamp": Function(1, 2, fixed(TIMESTAMP), ("WRITTEN", "STRING")),
    "unix_timestamp": Function(1, 2, fixed(BIGINT), ("WRITTEN", "STRING")),
    "current_date": Function(0, 0, fixed(DATE)),
    "curdate": Function(0, 0, fixed(DATE)),
    "date_trunc": Function(2, 2, fixed(TIMESTAMP), ("STRING", "TIME")),
    "date_format": Function(2, 2, fixed(STRING), ("TIME", "STRING")),
    "date_add": Function(2, 3, fixed(DATE), ("TIME", "INTEGRAL")),
    "date_sub": Function(2, 2, fixed(DATE), ("TIME", "INTEGRAL")),
    "dateadd": Function(2, 3, fixed(DATE), ("TIME", "INTEGRAL")),
    "timestampadd": Function(3, 3, fixed(TIMESTAMP)),
    "timestampdiff": Function(3, 3, fixed(BIGINT)),
    "add_months": Function(2, 2, fixed(DATE), ("TIME", "INTEGRAL")),
    "months_between": Function(2, 2, fixed(DOUBLE), ("TIME",)),
    **dict.fromkeys(("from_utc_timestamp", "to_utc_timestamp"), Function(2, 2, fixed(TIMESTAMP), ("TIME", "STRING"))),
    "convert_timezone": Function(2, 3, fixed(TIMESTAMP)),
    "window_time": Function(1, 1, fixed(TIMESTAMP)),
    "date": Function(1, 1, fixed(DATE), ("WRITTEN",)),
    "last_day": Function(1, 1, fixed(DATE), ("TIME",)),
    "datediff": Function(2, 3, fixed(INT), ("TIME",)),
    "date_diff": Function(2, 3, fixed(INT), ("TIME",)),
    "unix_micros": Function(1, 1, fixed(BIGINT), ("TIMESTAMP",)),
    "unix_millis": Function(1, 1, fixed(BIGINT), ("TIMESTAMP",)),
    "unix_seconds": Function(1, 1, fixed(BIGINT), ("TIMESTAMP",)),
    "timestamp_micros": Function(1, 1, fixed(TIMESTAMP), ("INTEGRAL",)),
}


def _element(types: Sequence[DataType]) -> DataType:
    return types[0].element or NULL


_NESTED: Final = {
    "get_json_object": Function(2, 2, fixed(STRING), ("STRING",), constant=1),
    "from_json": Function(2, 2, fixed(NULL), ("STRING",), constant=1),
    "to_json": Function(1, 1, fixed(STRING), ("NESTED",)),
    "json_array_length": Function(1, 1, fixed(INT), ("STRING",)),
    "json_object_keys": Function(1, 1, fixed(_STRINGS), ("STRING",)),
    "split": Function(2, 3, fixed(_STRINGS), ("STRING", "STRING", "INTEGRAL"), constant=1),
    "size": Function(1, 1, fixed(INT), ("COLLECTION",)),
    "cardinality": Function(1, 1, fixed(INT), ("COLLECTION",)),
    "array_size": Function(1, 1, fixed(INT), ("ARRAY",)),
    "array_contains": Function(2, 2, fixed(BOOLEAN), ("ARRAY", "PART")),
    "array_max": Function(1, 1, _element, ("ARRAY",)),
    "array_min": Function(1, 1, _element, ("ARRAY",)),
    "array_join": Function(2, 3, fixed(STRING), ("STRINGS", "STRING")),
    "element_at": Function(2, 2, _element, ("COLLECTION", "ANY")),
    "exists": Function(2, 2, fixed(BOOLEAN), ("ARRAY", "ANY")),
    "forall": Function(2, 2, fixed(BOOLEAN), ("ARRAY", "ANY")),
    "map_contains_key": Function(2, 2, fixed(BOOLEAN), ("MAP", "ANY")),
    "map_keys": Function(1, 1, lambda types: DataType("ARRAY", element=types[0].key), ("MAP",)),
    "map_values": Function(1, 1, lambda types: DataType("ARRAY", element=types[0].element), ("MAP",)),
}
"""The functions of nested values.  These functions do not accept an untyped NULL."""
FUNCTIONS: Final[dict[str, Function]] = {**_TEXT, **_NUMBERS, **_CHOICES, **_TIMES, **_NESTED}

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
EXPANDING: Final = frozenset(["space", "sequence"])
REACHING_OUT: Final = frozenset(["reflect", "try_reflect", "java_method", "transform"])


MEASURES: Final[dict[str, AggregateFunction]] = {
    "count": "count",
    "count_if": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "median": "median",
    "bool_and": "min",
    "every": "min",
    "bool_or": "max",
    "any": "max",
    "some": "max",
    "min_by": "min_by",
    "max_by": "max_by",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "array_agg": "array_agg",
    "collect_list": "array_agg",
    "collect_set": "collect_set",
}
"""The aggregates that a query may call, and the aggregates of the algebra that compute them."""
_NO_ORDER: Final = "its value depends on an order of rows that the query does not give"
_ESTIMATE: Final = "an estimate differs with the order in which the rows are read"
_OTHER: Final = "Weft does not support this aggregate"
REFUSED_AGGREGATES: Final = {
    **dict.fromkeys(
        ("first", "first_value", "any_value"), (_NO_ORDER, "For the value of the earliest row write MIN_BY(x, ts).")
    ),
    **dict.fromkeys(("last", "last_value"), (_NO_ORDER, "For the value of the latest row write MAX_BY(x, ts).")),
    **dict.fromkeys(
        ("string_agg", "listagg", "group_concat"),
        (_NO_ORDER, "Write ARRAY_JOIN(ARRAY_AGG(x), ','), in ascending order."),
    ),
    "mode": (_NO_ORDER, "Group by x with COUNT(*), and choose the greatest count."),
    "approx_count_distinct": (_ESTIMATE, "Write COUNT(DISTINCT x)."),
    **dict.fromkeys(("approx_percentile", "percentile_approx"), (_ESTIMATE, "Write MEDIAN(x).")),
    "approx_top_k": (_ESTIMATE, "Group by x with COUNT(*), and choose the greatest counts."),
    **dict.fromkeys(("percentile", "percentile_cont", "percentile_disc"), (_OTHER, "For the middle write MEDIAN(x).")),
    **dict.fromkeys(
        ("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "skewness", "kurtosis"),
        (_OTHER, "Compute it from COUNT, AVG and STDDEV: the covariance is AVG(x * y) - AVG(x) * AVG(y)."),
    ),
    **dict.fromkeys(
        ("bit_and", "bit_or", "bit_xor"), (_OTHER, "Write ARRAY_AGG(x), and let the receiver combine the values.")
    ),
}
"""Aggregates that Weft refuses, each with the reason and what to write instead."""
MARKS: Final = frozenset(("grouping", "grouping_id"))
"""The functions that return which expressions of GROUP BY form the groups of a row."""
WINDOW: Final = "moving_window"
"""The name of the function in GROUP BY that gives the length of the moving window."""


def aggregate_type(function: AggregateFunction, argument: DataType | None) -> DataType:
    """Return the result type of an aggregate.  ``argument`` is the type of the argument, or None for ``COUNT(*)``.

    Raise TypeError if the aggregate does not accept the type.
    """
    if function == "count":
        return BIGINT
    if argument in (None, NULL, INTERVAL, MONTHS) or argument.nested:
        raise TypeError(f"{argument or 'rows'}")
    if function in ("min", "max", "min_by", "max_by"):
        return argument
    if argument.shape == INTERVAL and function not in ("sum", "avg", "median"):
        raise TypeError(argument.declared)
    if function in ("array_agg", "collect_set"):
        return _array(argument)
    if not argument.numeric:
        raise TypeError(str(argument))
    if function != "sum" or argument.name in ("FLOAT", "DOUBLE"):
        return DOUBLE
    if argument.name in INTEGRAL:
        return argument if argument.shape == INTERVAL else BIGINT
    return DataType("DECIMAL", min((argument.precision or 10) + SUM_DIGITS, MOST_DIGITS), argument.scale or 0)


def _array(element: DataType) -> DataType:
    try:
        return DataType.of_json(DataType("ARRAY", element=element))
    except ValueError:
        raise TypeError(str(element)) from None
