"""Rendered SQL for DuckDB: which expressions mean there what they mean in Spark, and how their text is spelled there.

The rendered text is Spark's.  DuckDB takes it but for two spellings, of names and of texts; a few functions it has
under other names (``MACROS``).  What the two might compute differently (regular expressions, casts to text, division of
decimals) is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.algebra.scalar import Call, Case, Cast, ColumnRef, Literal, Now, Param, PeriodOf, Scalar, children
from weft.algebra.schema import BIGINT, DATE, DOUBLE, INTEGRAL, TIMESTAMP, DataType
from weft.algebra.temporal import (
    Aggregation,
    Constant,
    Extension,
    Fragment,
    Projection,
    Selection,
    Temporal,
    TemporalJoin,
    each,
)

MACROS: Final = {
    "UNIX_MICROS(x)": "epoch_us(x)",
    "TIMESTAMP_MICROS(x)": "make_timestamp(x)",
    "STARTSWITH(a, b)": "starts_with(a, b)",
    "ENDSWITH(a, b)": "ends_with(a, b)",
    "COLLECT_LIST(x)": "list(x)",
    "AGGREGATE(numbers, zero, added)": "list_sum(numbers)",
    "TRY_ADD(a, b)": "TRY(a + b)",
    "TRY_SUBTRACT(a, b)": "TRY(a - b)",
    "TRY_MULTIPLY(a, b)": "TRY(a * b)",
}
"""Functions of Spark's that DuckDB has under other names.

AGGREGATE is only asked for sums of lists, which may have NULLs here and are not empty.
"""
_ALIKE: Final = frozenset(
    (
        *("=", "<>", "<", "<=", ">", ">=", "<=>", "is not distinct from", "and", "or", "not", "in"),
        *("is null", "is not null", "isnull", "isnotnull", "coalesce", "ifnull", "nullif", "greatest", "least"),
        *("+", "-", "negative", "lower", "upper", "length", "startswith", "endswith"),
        *("unix_micros", "year", "month", "day", "hour", "minute", "second", "quarter"),
        *("period_start", "period_end", "period_length", "period_contains", "period_overlaps"),
    )
)
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|"(?:[^"]|"")*\"""", re.DOTALL)


def local_text(sql: str) -> str:
    """The text as DuckDB reads it.

    >>> local_text(r"SELECT `a``b` FROM t WHERE x = 'it\\'s \\\\'")
    'SELECT "a`b" FROM t WHERE x = \\'it\\'\\'s \\\\\\''
    """
    return _QUOTED.sub(lambda found: _spelled(found[0]), sql)


def _spelled(quoted: str) -> str:
    inner = quoted[1:-1]
    if quoted[0] == '"':
        return quoted
    if quoted[0] == "`":
        return '"' + inner.replace("``", "`").replace('"', '""') + '"'
    return "'" + re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL).replace("'", "''") + "'"


def is_local(relation: Temporal) -> bool:
    """Whether DuckDB surely computes of a relation what Spark would."""
    return all(map(_alike, (scalar for part in each(relation) for scalar in _scalars(part))))


def _scalars(relation: Temporal) -> Iterator[Scalar]:
    match relation:
        case Selection(predicate=predicate) | TemporalJoin(predicate=predicate):
            yield predicate
        case Projection(outputs=outputs):
            yield from (output.value for output in outputs)
        case Constant(rows=rows):
            yield from (value for row in rows for value in row)
        case Extension(window=window):
            yield window
        case Fragment(since=since):
            yield since
        case Aggregation(groups=groups, measures=measures):
            yield from (output.value for output in groups)
            yield from (each.argument for each in measures if each.argument is not None)
        case _:
            return


def _alike(scalar: Scalar) -> bool:
    match scalar:
        case ColumnRef() | Now() | Param() | PeriodOf():
            return True
        case Literal(type=type):
            return type.name not in ("BINARY", "ARRAY")
        case Call(name="/", type=type) if type != DOUBLE:
            return False
        case Call(name="mod" | "%", args=(dividend, Literal(value=int(by)))) if by:
            return dividend.type.name in INTEGRAL and _alike(dividend)
        case Call(name=name) if name not in _ALIKE and name != "/":
            return False
        case Cast(arg=arg, type=type) if not _same_cast(arg.type, type):
            return False
        case Call() | Case() | Cast():
            return all(map(_alike, children(scalar)))


def _same_cast(source: DataType, target: DataType) -> bool:
    if source == target or {source, target} == {DATE, TIMESTAMP}:
        return True
    exact = (*INTEGRAL, "DECIMAL")
    if source.name == "DECIMAL":
        return target == DOUBLE or (target == BIGINT and not source.scale)
    return source.name in INTEGRAL and (target.name in exact or target == DOUBLE)
