"""Decide whether DuckDB computes a state, or a branch of a tick, with the same values as Spark.

The driver then computes them without a Spark job.  The decision concerns the operators and their expressions.
DuckDB raises an error where an integer or a decimal overflows, and Spark repeats the computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, get_args

from weft.algebra.event import Event
from weft.algebra.relation import (
    Distinct,
    Grouped,
    Materialized,
    Recurrence,
    Recursive,
    Relation,
    StateSchema,
    Turns,
    ValueFunction,
    Windowed,
    WindowFunction,
)
from weft.algebra.scalar import Call, Case, Cast, ColumnRef, Literal, Param, Scalar, children
from weft.algebra.schema import DATE, DOUBLE, INTEGRAL, INTERVAL, STRING, TIMESTAMP, DataType, TableSchema, remembered
from weft.algebra.traverse import scalars, walk
from weft.derivation.stateful import RANKS
from weft.period_sql.groups import arguments
from weft.planning.plan import PARAMETERS, Branch
from weft.sql.dialects.duckdb_dialect import INT_FUNCTIONS, same_decimal_text, unlike

MOST_INPUTS: Final = 400_000
"""The most rows of a table, new rows, or rows that a look-up returns, for a state that DuckDB computes."""
MOST_LARGE: Final = 10_000_000
"""The most rows of the tables that DuckDB reads whole. A recursion has no such tables."""
_PLAIN: Final = (*INTEGRAL, "BOOLEAN", "STRING", "TIMESTAMP", "DATE", "DECIMAL", "DOUBLE")
"""The types whose values DuckDB and Spark exchange with Weft in the same form."""
_REWRITTEN: Final = frozenset(("%", "mod", "abs", "floor", "ceil", "ceiling", "round", "negative", "last_day"))
"""The functions that are the same in both engines only after the rewriting of views (``sql.null_on_overflow``)."""
_SAME_TEXT: Final = (*INTEGRAL, "BOOLEAN", "STRING", "TIMESTAMP", "DATE")
"""The types whose values have the same text in both engines, beside DECIMALs of few digits after the point."""
_PRODUCT_SCALE: Final = 8
"""The most digits after the point of a product. DuckDB gives DECIMALs of up to 18 digits a product of 18 digits."""
_AS_WIDE: Final = ("+", "-", "*", "%", "mod", "unix_micros", *INT_FUNCTIONS)
"""The functions whose integers have the same type in both engines."""
_OTHERS: Final = (Distinct, Grouped, Windowed, Materialized, Recurrence, Recursive)
"""The relations of which a branch for DuckDB has none. A state is a scan."""
_ORDERED: Final = ("<", "<=", ">", ">=", "+", "-", "*", "/", "is null", "is not null", "coalesce")
"""The functions of doubles whose results do not depend on the sign of zero, or keep it, in both engines."""
_OF_WINDOWS: Final = (*RANKS, *get_args(ValueFunction), "count", "min", "max")


def same_in_duckdb(state: StateSchema) -> bool:
    """Return whether DuckDB computes the rows of the state, and the keys of its groups, as Spark does.

    The SQL of a recursion for DuckDB has DuckDB's own operators (``recursion_plan.RecursionPlan``).
    """
    return _same(state.operator)


def branch_same_in_duckdb(branch: Branch) -> bool:
    """Return whether DuckDB computes the rows of the branch as Spark does, with their texts (``encoded_in_duckdb``)."""
    return _same_event(branch.event) and all(_same_text(output.value.type) for output in branch.leading)


@remembered
def _same_event(event: Event) -> bool:
    projection = event.projection
    if any(isinstance(part, _OTHERS) for part in walk(projection)):
        return False
    if not all(_same_text(output.value.type) for output in event.outputs):
        return False
    every = tuple(scalars(projection))
    return all(map(_same_scalar, every)) and not any(map(_tells_zeros_apart, every))


def _same_text(type: DataType) -> bool:
    if same_decimal_text(type) or type in (STRING, DOUBLE):
        return True
    return type.name in _SAME_TEXT and type.shape in (None, INTERVAL)


def _tells_zeros_apart(scalar: Scalar) -> bool:
    """Return whether the engines may tell 0.0 and -0.0 apart in different places."""
    inner = children(scalar)
    compared = isinstance(scalar, Call) and scalar.name not in _ORDERED and any(each.type == DOUBLE for each in inner)
    return compared or any(map(_tells_zeros_apart, inner))


def constants_same_in_duckdb(table: TableSchema) -> bool:
    """Return whether DuckDB computes the columns of a parameter table (``execution.parameters``) as Spark does."""
    return all(column.type.name in (*_SAME_TEXT, "INTERVAL") and column.type.name != "DATE" for column in table.columns)


@lru_cache(maxsize=1_000)
def _same(operator: Relation) -> bool:
    if any(isinstance(part, Turns) for part in walk(operator)):
        return False
    if isinstance(operator, Windowed) and not all(map(_same_function, operator.functions)):
        return False
    return all(map(_same_scalar, _scalars(operator)))


def _scalars(operator: Relation) -> Iterator[Scalar]:
    yield from scalars(operator)
    if isinstance(operator, Grouped):
        for each in operator.measures:
            if each.function in ("array_agg", "collect_set"):
                yield Call(each.function, arguments(each), each.output.type)
    if isinstance(operator, Windowed):
        # The engines may tell 0.0 and -0.0 apart in different places. Both sort them as equal.
        yield from (Cast(key, STRING) for key in operator.partition if key.type.name == "DOUBLE")


def _same_function(function: WindowFunction) -> bool:
    kind = function.output.type.name
    return function.function in _OF_WINDOWS or (function.function == "sum" and kind in INTEGRAL)


def _same_scalar(scalar: Scalar) -> bool:
    return unlike(scalar) is None and _as_written(scalar)


def _as_written(scalar: Scalar) -> bool:
    """Return whether DuckDB reads the expression's text as Spark does."""
    match scalar:
        case ColumnRef(scan=scan, type=type):
            return _is_plain(type) or (scan == PARAMETERS and type == INTERVAL)
        case Literal() | Param():
            return True
        case Call(name="like", args=(text, Literal())):
            return _as_written(text)
        case Call(name="+" | "-" | "*", args=args, type=type) if type.name in INTEGRAL:
            return all(map(_is_as_wide, args)) and all(map(_as_written, args))
        case Call(name="%" | "mod", args=(arg, Literal(value=int(by)))) if by > 0:
            return _as_written(arg)
        case Call(name="*") if not _is_exact_product(scalar.type):
            return False
        case Call(name=name, args=args):
            return name != "like" and name not in _REWRITTEN and all(map(_as_written, args))
        case Cast(arg=Literal(value=None), type=type):  # the other side of an outer join
            return _is_plain(type)
        case Cast(arg=arg, type=DataType(name="STRING")) if arg.type in (DATE, TIMESTAMP):
            # The engines write years before 1 and after 9999 differently. A column has none.
            return isinstance(arg, ColumnRef)
        case Cast(arg=arg, type=type):
            return _is_plain(arg.type) and arg.type != STRING and _is_plain(type) and _as_written(arg)
        case Case(branches=branches, default=default):
            parts = [part for branch in branches for part in branch] + ([] if default is None else [default])
            return all(map(_as_written, parts))
        case _:
            return False


def _is_exact_product(type: DataType) -> bool:
    return type in (INTERVAL, DOUBLE) or (type.name == "DECIMAL" and (type.scale or 0) <= _PRODUCT_SCALE)


def _is_as_wide(arg: Scalar) -> bool:
    """Return whether an integer has the same type in both engines. A wider result of DuckDB would not overflow."""
    return isinstance(arg, ColumnRef | Literal | Param | Cast) or (isinstance(arg, Call) and arg.name in _AS_WIDE)


def _is_plain(type: DataType) -> bool:
    return type == STRING or (type.name in _PLAIN and type.shape is None)
