"""Rendered SQL for DuckDB: which expressions mean there what they mean in Spark, and how their text is spelled there.

The rendered text is Spark's.  DuckDB takes it but for two spellings, of names and of texts; a few functions it has
under other names (``MACROS``).  What the two might compute differently (regular expressions, casts to text, division of
decimals) is left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.algebra.scalar import Call, Cast, Literal, Scalar, children
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


def not_local(relation: Temporal) -> Scalar | None:
    """The first expression of a relation of which DuckDB might compute something else than Spark; None: there is none.

    It is the smallest such one: what it is made of is computed alike.
    """
    every = (scalar for part in each(relation) for scalar in _scalars(part))
    return next((found for scalar in every if (found := _unlike(scalar)) is not None), None)


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


def _unlike(scalar: Scalar) -> Scalar | None:
    """The smallest part of it that might be computed otherwise."""
    below = (found for child in children(scalar) if (found := _unlike(child)) is not None)
    return next(below, None) or (None if _alike(scalar) else scalar)


def _alike(scalar: Scalar) -> bool:
    """Whether it is computed alike from what it is made of."""
    match scalar:
        case Literal(type=type):
            return type.name not in ("BINARY", "ARRAY")
        case Call(name="/", type=type):
            return type == DOUBLE
        case Call(name="mod" | "%", args=(dividend, Literal(value=int(by)))) if by:
            return dividend.type.name in INTEGRAL
        case Call(name=name):
            return name in _ALIKE
        case Cast(arg=arg, type=type):
            return _same_cast(arg.type, type)
        case _:
            return True


def _same_cast(source: DataType, target: DataType) -> bool:
    if source == target or {source, target} == {DATE, TIMESTAMP}:
        return True
    exact = (*INTEGRAL, "DECIMAL")
    if source.name == "DECIMAL":
        return target == DOUBLE or (target == BIGINT and not source.scale)
    return source.name in INTEGRAL and (target.name in exact or target == DOUBLE)
