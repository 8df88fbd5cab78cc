"""Translate Spark SQL for DuckDB, and find expressions that may have another value in DuckDB.

``local_text`` replaces Spark's quotes and its operator ``<=>`` by those of DuckDB.  ``MACROS`` defines functions
that have other names in DuckDB.  A view cannot use an expression whose value may differ between the engines.  For
example, a view cannot use REGEXP_REPLACE, the text of a DOUBLE, or a division of decimals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

from weft.algebra.calendar import multiple_of
from weft.algebra.relation import Grouped
from weft.algebra.scalar import MICROSECONDS, OF_MICROSECONDS, Call, Cast, ColumnRef, Literal, Scalar, children
from weft.algebra.schema import BIGINT, DATE, DOUBLE, INTEGRAL, INTERVAL, STRING, TIMESTAMP, DataType
from weft.algebra.temporal import Temporal, each, scalars
from weft.period_sql.groups import arguments
from weft.sql.dialects.duckdb_case_mapping import LOWER, UPPER
from weft.sql.functions import as_decimal
from weft.sql.rendering.render import ROUNDED

_SHORTEST: Final = "CAST(ABS(x) AS VARCHAR)"
_MANTISSA: Final = f"split_part({_SHORTEST}, 'e', 1)"
_DIGITS: Final = f"system.main.ltrim(replace({_MANTISSA}, '.', ''), '0')"
_POWER: Final = (
    f"strpos({_MANTISSA} || '.', '.') - 2 + length({_DIGITS}) - length(replace({_MANTISSA}, '.', '')) "
    f"+ COALESCE(TRY_CAST(split_part({_SHORTEST}, 'e', 2) AS INT), 0)"
)
_SCIENTIFIC: Final = (
    f"IF(x < 0, '-', '') || LEFT({_DIGITS}, 1) || '.' || "
    f"COALESCE(NULLIF(system.main.rtrim({_DIGITS}[2:], '0'), ''), '0') || 'E' || CAST({_POWER} AS VARCHAR)"
)
JAVA_TEXT: Final = "JAVA_TEXT"
"""The macro for the text that Java gives a DOUBLE.

From 1E-7 to 9E15, all versions of Java give the shortest text of a number, as DuckDB does.  Versions before 19 write
more digits of some other numbers, such as 2^-24, so the macro raises an error outside this range.  It also raises an
error for -0.0, because the engines may tell it apart from 0.0 in different places.
"""
INT_FUNCTIONS: Final = (
    *("length", "char_length", "year", "month", "day", "hour", "minute", "second", "quarter"),
    *("dayofmonth", "dayofyear"),
)
"""The functions whose result is a BIGINT in DuckDB and an INT in Spark."""
_ELEMENTS: Final = "CASE WHEN len(x) > 0 THEN x END"
_POSITIONS: Final = "CAST(generate_subscripts({}, 1) - 1 AS INT)"
_DIRECTIVES: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_FORMAT: Final = reduce(lambda text, each: f"replace({text}, '{each[0]}', '{each[1]}')", _DIRECTIVES.items(), "p")
_TEXT: Final = r'(?:"(?:[^"\\]|\\["\\/bfnrt])*"|null)'
_TEXTS: Final = rf"\[(?:{_TEXT}(?:, ?{_TEXT})*)?\]"
"""A pattern for the JSON text of an array of strings without ``\\u`` escapes."""
SETTINGS: Final = (
    "SET GLOBAL ieee_floating_point_ops = false",
    "SET GLOBAL error_on_division_by_zero = false",
)
"""The settings of a DuckDB in which a division by zero is NULL, as in Spark."""
MACROS: Final = {
    **{f"{name.upper()}(x)": f"CAST(system.main.{name}(x) AS INT)" for name in INT_FUNCTIONS},
    "EXPLODE(x)": "TABLE SELECT UNNEST(x)",
    "EXPLODE_OUTER(x)": f"TABLE SELECT UNNEST(COALESCE({_ELEMENTS}, [NULL]))",
    "POSEXPLODE(x)": f"TABLE SELECT {_POSITIONS.format('x')}, UNNEST(x)",
    "POSEXPLODE_OUTER(x)": f"TABLE SELECT {_POSITIONS.format(_ELEMENTS)}, UNNEST(COALESCE({_ELEMENTS}, [NULL]))",
    "FROM_JSON(x, t)": (
        f"IF(regexp_full_match(x, '{_TEXTS}'), system.main.from_json(x, '[\"VARCHAR\"]'), "
        "IF(x IS NULL, NULL, ERROR('Spark may read this JSON text in another way')))"
    ),
    "SPLIT(x, p)": "string_split_regex(x, p)",
    "REGEXP_LIKE(x, p)": "regexp_matches(x, p)",
    "REGEXP_EXTRACT(x, p)": ("system.main.regexp_extract(x, p, 1), (x, p, n) AS system.main.regexp_extract(x, p, n)"),
    "DATE_FORMAT(x, p)": f"strftime(x, {_FORMAT})",
    "JAVA_TEXT(x)": "CASE WHEN ISNAN(x) THEN 'NaN' WHEN ISINF(x) THEN IF(x > 0, 'Infinity', '-Infinity') "
    "WHEN ABS(x) >= 0.001 AND ABS(x) < 1e7 OR CAST(x AS VARCHAR) = '0.0' "
    "THEN CAST(x AS VARCHAR) WHEN ABS(x) BETWEEN 1e-7 AND 9e15 THEN "
    f"{_SCIENTIFIC} WHEN x IS NOT NULL THEN ERROR('Java may give this number another text') END",
    "UNIX_MICROS(x)": "epoch_us(x)",
    "TIMESTAMP_MICROS(x)": "make_timestamp(x)",
    "UNIX_DATE(x)": "date_diff('day', DATE '1970-01-01', x)",
    "STARTSWITH(a, b)": "starts_with(a, b)",
    "ENDSWITH(a, b)": "ends_with(a, b)",
    # The functions of DuckDB skip a row if x is NULL. A struct with a NULL is not skipped.
    "NAMED_STRUCT(k, a, l, b)": (
        "struct_pack(f1 := a, f2 := b), (k, a, l, b, m, c) AS struct_pack(f1 := a, f2 := b, f3 := c), "
        "(k, a, l, b, m, c, n, d) AS struct_pack(f1 := a, f2 := b, f3 := c, f4 := d)"
    ),
    "MAX_BY(x, y)": "arg_max(struct_pack(at := x), y).at",
    "TRY_ADD(a, b)": "TRY(a + b)",
    "TRY_SUBTRACT(a, b)": "TRY(a - b)",
    "TRY_MULTIPLY(a, b)": "TRY(a * b)",
    "TRY_DIVIDE(a, b)": "CAST(a AS DOUBLE) / NULLIF(CAST(b AS DOUBLE), 0)",
    "MOD(a, b)": "CASE WHEN a IS NULL THEN NULL WHEN b = -1 THEN 0 ELSE TRY(a % NULLIF(b, 0)) END",
    "NVL(a, b)": "COALESCE(a, b)",
    "UPPER(x)": UPPER,
    "LOWER(x)": LOWER,
    "TRIM(x)": "system.main.trim(x, ' ')",
    "LTRIM(x)": "system.main.ltrim(x, ' ')",
    "RTRIM(x)": "system.main.rtrim(x, ' ')",
}
"""DuckDB macros for Spark functions that have other names in DuckDB."""
ALIKE: Final = frozenset(
    (
        *("=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "in"),
        *("like", "is null", "is not null", "isnull", "isnotnull", "coalesce", "ifnull", "nullif", "greatest", "least"),
        *("+", "-", "negative", "lower", "upper", "length", "char_length", "startswith", "endswith", "contains"),
        *("trim", "ltrim", "rtrim", "replace", "nvl", "dayofmonth", "dayofyear", "last_day"),
        *(MICROSECONDS, OF_MICROSECONDS, ROUNDED),
        *("unix_micros", "year", "month", "day", "hour", "minute", "second", "quarter", "date_trunc"),
        *("period_start", "period_end", "period_length", "period_contains", "period_overlaps"),
    )
)
"""The operators and functions that give the same result in both engines for arguments of all types."""
_TEXTS_BY_CONSTANT: Final = (
    *("substring", "substr", "left", "right"),
    *("regexp_like", "regexp_extract", "split_part", "date_format"),
)
_BY_CONSTANT: Final = (*_TEXTS_BY_CONSTANT, "split", "from_json")
IN_PART: Final = frozenset(("concat", *_TEXTS_BY_CONSTANT, "mod", "abs", "floor", "ceil", "ceiling", "round"))
"""The functions that give the same result in both engines only for some types or for constants."""
_ARRAYS: Final = ("array_agg", "collect_set")
_MOST_FIELDS: Final = 4
"""The maximal number of columns in a COUNT(DISTINCT …) for which ``MACROS`` has a macro."""
_LIKE: Final = " LIKE "
_TEXT_OF: Final = (*INTEGRAL, "BOOLEAN", "DATE", "TIMESTAMP")
_PLAIN_SCALE: Final = 6
"""The greatest scale at which Spark writes small numbers without an exponent."""
_MOST_DIGITS: Final = 38
_ONE: Final = (
    r"(?:[^\\\[\](){}.*+?^$|]|\\[dDwW]|\\[!-/:-@\[-`{-~]"
    r"|\[\^?(?:[A-Za-z]-[A-Za-z]|[0-9]-[0-9]|[^\\\[\]^&~-]|&(?!&))+\])"
)
"""A character of a pattern that both engines read alike: itself, or a class.

The engines differ in ``.`` and ``$`` (line ends of Unicode), in ``\\s``, in options and in classes of classes.
"""
_TIMES: Final = r"(?:[*+?]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\})?(?![*+?{])"
_PATTERN: Final = re.compile(rf"(?:{_ONE}{_TIMES}|\((?!\?)|\)\??(?![*+?{{])|[|^])*")
"""A pattern that both engines read alike.  It has no repeated groups, because the engines may return another group."""
_SEPARATOR: Final = re.compile(rf"(?:{_ONE}\+?(?![*+?{{]))+")
"""A pattern that both engines read alike and that matches no empty text."""
_DATES: Final = re.compile(r"(?:yyyy(?!y)|MM(?!M|mm)|dd(?!d)|HH(?!H)|mm(?!m)|ss(?!s)|[-/:., ])+")
"""A format of dates that both engines write alike. The macro would replace the first two m of ``%mmm``."""
_EXACT_IN_DOUBLE: Final = (*INTEGRAL, "DOUBLE")
_QUOTED: Final = re.compile(r"""(?: LIKE )?'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|"(?:[^"]|"")*\"|<=>""", re.DOTALL)


def local_text(sql: str) -> str:
    r"""Replace Spark's quotes for identifiers and strings by those of DuckDB, and the operator ``<=>``.

    >>> local_text(r"SELECT `a``b` FROM t WHERE x = 'it\'s \\'")
    'SELECT "a`b" FROM t WHERE x = \'it\'\'s \\\''
    >>> local_text("x <=> '<=>'")
    "x IS NOT DISTINCT FROM '<=>'"
    >>> local_text(r"x LIKE '5\\%'") == r"x LIKE '5\%' ESCAPE '\'"
    True
    """
    return _QUOTED.sub(lambda match: _spelled(match[0]), sql)


def _spelled(quoted: str) -> str:
    if quoted.startswith(_LIKE):
        pattern = _spelled(quoted.removeprefix(_LIKE))
        return f"{_LIKE}{pattern} ESCAPE '\\'" if "\\" in pattern else f"{_LIKE}{pattern}"
    if quoted == "<=>":
        return "IS NOT DISTINCT FROM"
    inner = quoted[1:-1]
    if quoted[0] == '"':
        return quoted
    if quoted[0] == "`":
        return '"' + inner.replace("``", "`").replace('"', '""') + '"'
    return "'" + re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL).replace("'", "''") + "'"


def not_local(relation: Temporal) -> Scalar | None:
    """Return an expression of ``relation`` that may have another value in DuckDB than in Spark, or None.

    All subexpressions of the returned expression have the same value in both engines.
    """
    every = (scalar for part in each(relation) for scalar in (*scalars(part), *_arrays(part)))
    return next((difference for scalar in every if (difference := unlike(scalar)) is not None), None)


def _arrays(relation: Temporal) -> Iterator[Scalar]:
    for measure in relation.measures if isinstance(relation, Grouped) else ():
        if measure.function in _ARRAYS and measure.argument is not None:
            yield Call(measure.function, arguments(measure), measure.output.type)


def unlike(scalar: Scalar) -> Scalar | None:
    """Return the smallest subexpression that may have another value in DuckDB than in Spark, or None."""
    below = (part for child in children(scalar) if (part := unlike(child)) is not None)
    return next(below, None) or (None if _alike(scalar) else scalar)


def _alike(scalar: Scalar) -> bool:
    """Return whether both engines compute the same value if the values of the subexpressions are the same."""
    match scalar:
        case Literal(value=value, type=type):  # a tuple is the list of IN
            return type.name != "BINARY" and (type.name != "ARRAY" or isinstance(value, tuple))
        case Call(name="*" | "/", args=args, type=type):
            return _same_product([arg.type for arg in args], type, divided=scalar.name == "/")
        case Call(name="timestamp_micros"):
            return multiple_of(scalar) is not None  # the start of a window of time
        case Call(name="mod" | "%" | "abs" | "floor" | "ceil" | "ceiling" | "round") as call:
            return _same_number(call)
        case Call(name="concat", args=args):
            return all(arg.type == STRING for arg in args)
        case Call(name=name) if name in _BY_CONSTANT:
            return _same_by_constant(scalar)
        case Call(name="array_agg" | "collect_set" | "named_struct") as call:
            return _same_structure(call)
        case Cast(arg=Literal(value=None), type=type):
            return type.name not in ("BINARY", "ARRAY")
        case Cast(arg=arg, type=type) if arg.type == STRING:
            return type == STRING or type.name in INTEGRAL
        case Cast(arg=arg, type=type) | Call(name="try_cast", args=(arg,), type=type):
            return _same_cast(arg.type, type)
        case Call(name=name, args=args):
            types = [arg.type.element or arg.type for arg in args]
            return name in ALIKE and _same_digits(types, carried=int(name in ("+", "-")))
        case _:
            return True


def _same_digits(types: Sequence[DataType], *, carried: int) -> bool:
    """Return whether one DECIMAL has room for the digits of all types and ``carried`` more.

    If it has none, Spark removes digits after the point, also in a comparison. DuckDB keeps other digits.
    """
    if all(each.name != "DECIMAL" for each in types):
        return True
    exact = [as_decimal(each) for each in types if each.name in (*INTEGRAL, "DECIMAL")]
    return max(p - s for p, s in exact) + max(s for _, s in exact) + carried <= _MOST_DIGITS


def _same_product(factors: list[DataType], product: DataType, *, divided: bool) -> bool:
    """Return whether a product or a quotient of these types has the same value in both engines.

    The engines agree on quotients that are doubles, and on products of integers, of doubles, and of an interval and an
    integer. They agree on products of decimals if no digit after the point is lost.
    """
    if product == DOUBLE:
        return all(each.name in _EXACT_IN_DOUBLE for each in factors)
    if divided:
        return False
    if product == INTERVAL:
        return any(each.name in INTEGRAL for each in factors)
    if product.name == "DECIMAL":
        return product.scale == sum(as_decimal(each)[1] for each in factors)
    return product.name in INTEGRAL


def _same_by_constant(call: Call) -> bool:
    """Return whether both engines read the constants of a call alike: places, patterns, separators or formats."""
    match call.name, call.args:
        case "substring" | "substr" | "left" | "right" as name, (text, *places):
            return text.type == STRING and _from_the_left(places, first=int(name.startswith("s")))
        case "regexp_like" | "regexp_extract", (_, Literal(value=str(pattern)), *_):
            return _PATTERN.fullmatch(pattern) is not None
        case "split", (_, Literal(value=str(pattern))):
            return _SEPARATOR.fullmatch(pattern) is not None
        case "split_part", (_, Literal(value=str(separator)), Literal(value=int(part))):
            return separator != "" and part > 0
        case "date_format", (ColumnRef() | Cast(arg=ColumnRef()), Literal(value=str(form))):
            return _DATES.fullmatch(form) is not None  # a column has no year after 9999
        case "from_json", _:
            return call.type.name == "ARRAY" and call.type.element == STRING
        case _:
            return False


def _same_structure(call: Call) -> bool:
    if call.name == "named_struct":
        return len(call.args) <= 2 * _MOST_FIELDS
    return call.args[0].type == STRING or _same_cast(call.args[0].type, STRING)


def _same_number(call: Call) -> bool:
    """Return whether a numeric function gives the same result in both engines.

    The engines agree on functions of integers.  For decimals, the engines agree on all functions except the remainder.
    """
    number, *others = call.args
    if any(not isinstance(each, Literal) or not isinstance(each.value, int) or each.value < 0 for each in others):
        return call.name in ("mod", "%") and all(each.type.name in INTEGRAL for each in call.args)
    if number.type.name in INTEGRAL:
        return True
    return number.type.name == "DECIMAL" and call.name not in ("mod", "%")


def _from_the_left(places: Sequence[Scalar], *, first: int) -> bool:
    """Return whether all ``places`` are constant integers: the first at least ``first``, the others at least 0."""
    values = [each.value for each in places if isinstance(each, Literal)]
    if len(values) < len(places) or not all(isinstance(each, int) for each in values):
        return False
    return all(isinstance(each, int) and each >= (first if not at else 0) for at, each in enumerate(values))


def same_decimal_text(type: DataType) -> bool:
    """Return whether Spark writes no exponent, and DuckDB a digit before the point: 0.05 instead of .05."""
    return type.name == "DECIMAL" and (type.scale or 0) <= min(_PLAIN_SCALE, as_decimal(type)[0] - 1)


def _same_cast(source: DataType, target: DataType) -> bool:
    if source == target or {source, target} == {DATE, TIMESTAMP}:
        return True
    if target == STRING:
        return source.name in _TEXT_OF or same_decimal_text(source)
    if source.name == "BOOLEAN":
        return target.name in INTEGRAL
    exact = (*INTEGRAL, "DECIMAL")
    if source.name == "DECIMAL":
        return target == DOUBLE or target.name == "DECIMAL" or (target == BIGINT and not source.scale)
    return source.name in INTEGRAL and (target.name in exact or target == DOUBLE)
