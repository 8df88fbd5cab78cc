"""Translate the calls of window functions: ``f(x) OVER (PARTITION BY … ORDER BY … ROWS or RANGE BETWEEN …)``.

``windowed`` builds the relation that computes the functions.  As in Spark, an aggregate with ORDER BY and without a
frame uses the rows up to the current row and the rows that tie with it.

The first and the last value of a frame may depend on the order of rows that tie in ORDER BY.  Weft numbers the rows of
the partition in a total order, and reads the value of the row with the least or the greatest number in the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

from sqlglot import exp

from weft.algebra.relation import AggregateFunction, Frame, SortKey, ValueFunction, WindowFunction
from weft.algebra.scalar import Call, Case, ColumnRef, Literal, Scalar, is_constant, mentions_now
from weft.algebra.schema import BIGINT, BOOLEAN, DATE, INT, INTEGRAL, MONTHS, NULL, TIMESTAMP, DataType
from weft.errors import SqlError, of_each
from weft.sql.functions import aggregate_type, common
from weft.sql.lower import literals
from weft.sql.lower.aggregate import is_measure, read_aggregate
from weft.sql.lower.conversion import converted, typed
from weft.sql.lower.intervals import as_interval, as_stored, averaged
from weft.sql.lower.nested import as_column
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import Scope, Windows

Lower: TypeAlias = "Callable[[exp.Expr, Scope], Scalar]"
"""A function that translates a part of an expression."""
_RANKS: Final = ("row_number", "rank", "dense_rank")
_BESIDE: Final = ("lag", "lead")
_VALUES: Final = {
    "first_value": "first_value",
    "first": "first_value",
    "any_value": "first_value",
    "last_value": "last_value",
    "last": "last_value",
    "nth_value": "nth_value",
}
_DAY: Final = 86_400_000_000
_OTHERS: Final = {
    "ntile": "Write ROW_NUMBER() and COUNT(*) OVER the same partition, and compute the part from them.",
    "percent_rank": "Write (RANK() - 1) / (COUNT(*) OVER (PARTITION BY …) - 1).",
    "cume_dist": "Write COUNT(*) OVER (PARTITION BY … ORDER BY …) / COUNT(*) OVER (PARTITION BY …).",
}
UP_TO_PEERS: Final = Frame("range", None, 0)
"""The default frame of a window with ORDER BY."""

_SO_FAR: Final = Frame("rows", None, 0)


@dataclass(frozen=True)
class _Over:
    """The translated window: its partition, its order, and its frame, or None without a frame in the text."""

    partition: tuple[Scalar, ...]
    order: tuple[SortKey, ...]
    frame: Frame | None


@dataclass(frozen=True)
class _Window:
    """The parts of OVER after the names of windows are replaced."""

    partition: Sequence[exp.Expr] = ()
    order: exp.Order | None = None
    spec: exp.WindowSpec | None = None


def lower_window(node: exp.Window, scope: Scope, lower: Lower) -> Scalar:
    """Return the column of a window function.  Raise SqlError where no window function may stand."""
    return as_interval(_window_column(node, scope, lower))


def _window_column(node: exp.Window, scope: Scope, lower: Lower) -> Scalar:
    windows = scope.windows
    if windows is None:
        reason = "a window function belongs in a select list, in QUALIFY or in ORDER BY with LIMIT"
        hint = "Put the function into a derived table: (SELECT …) AS d."
        if scope.context.view:
            reason, hint = "views do not support window functions", "Use it in a standing query over the view."
        raise refuse("a window function here", node, reason, hint)
    only(node, "this", "partition_by", "order", "spec", "alias", "over")
    inside = replace(scope, windows=None)
    over = _over(_named(node, windows), inside, lower, node)
    call, ignoring = _called(node)
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if name in _RANKS or name in _BESIDE:
        return _ranked(name, call, over, windows, inside, lower, ignoring=ignoring)
    if name in _VALUES:
        return _value(_VALUES[name], call, over, windows, inside, lower, ignoring=ignoring)
    if ignoring and is_measure(call):
        what = f"IGNORE NULLS of {call.sql('spark')}"
        raise refuse(what, node, "an aggregate ignores NULLs by itself", "Remove IGNORE NULLS.")
    if not is_measure(call):
        raise refuse(f"{name.upper() or call.sql('spark')}() OVER", node, "Weft does not support it", _OTHERS.get(name))
    return _aggregate(call, over, windows, inside, lower)


def _called(node: exp.Window) -> tuple[exp.Expr, bool]:
    """Return the call, and whether IGNORE NULLS follows it or stands in it."""
    call, ignoring = node.this, False
    while isinstance(call, (exp.IgnoreNulls, exp.RespectNulls)):
        call, ignoring = call.this, isinstance(call, exp.IgnoreNulls)
    for part in list(call.expressions) if isinstance(call, exp.Anonymous) else ():
        if isinstance(part, (exp.IgnoreNulls, exp.RespectNulls)):
            ignoring = isinstance(part, exp.IgnoreNulls)
            part.replace(part.this)
    return call, ignoring


def _named(node: exp.Window, windows: Windows, depth: int = 0) -> _Window:
    """Add the parts of the named window, to which OVER refers, to the parts of OVER."""
    own = _Window(node.args.get("partition_by") or (), node.args.get("order"), node.args.get("spec"))
    name = node.args.get("alias")
    if name is None:
        return own
    known = windows.definitions.get(name.name.lower())
    if known is None or depth > len(windows.definitions):
        hint = "Name it in the clause WINDOW: SELECT … FROM … WINDOW w AS (PARTITION BY … ORDER BY …)."
        raise SqlError(f"there is no window {name.name!r}", where=place(node), hint=hint)
    base = _named(known, windows, depth + 1)
    if (own.partition and base.partition) or (own.order and base.order) or (own.spec and base.spec):
        raise refuse(f"a second part of the window {name.name!r}", node, "the named window has this part already")
    return _Window(own.partition or base.partition, own.order or base.order, own.spec or base.spec)


def _over(window: _Window, scope: Scope, lower: Lower, node: exp.Expr) -> _Over:
    partition = of_each(lambda part: _key(part, scope, lower), window.partition)
    ordered = [] if window.order is None else window.order.expressions
    order = of_each(lambda part: sort_key(part, _key(part.this, scope, lower)), ordered)
    kept = tuple(key for key in order if not is_constant(key.value))
    frame = None if window.spec is None else _frame(window.spec, kept, node)
    if frame is not None and frame.unit == "range" and not kept:  # all rows of the partition tie
        frame = Frame("rows", None, None)
    return _Over(tuple(dict.fromkeys(part for part in partition if not is_constant(part))), kept, frame)


def _key(node: exp.Expr, scope: Scope, lower: Lower) -> Scalar:
    value = as_stored(lower(node, scope))
    if mentions_now(value):
        raise refuse("NOW() in a window", node, "the window would change every microsecond")
    if value.type == MONTHS or value.type.nested:
        raise SqlError(f"a window cannot order or group values of type {value.type}", where=place(node))
    return value


def sort_key(ordered: exp.Expr, value: Scalar) -> SortKey:
    """Return the key for an item of ORDER BY whose scalar is ``value``."""
    only(ordered, "this", "desc", "nulls_first")
    return SortKey(value, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


def _frame(spec: exp.WindowSpec, order: Sequence[SortKey], node: exp.Expr) -> Frame:
    only(spec, "kind", "start", "start_side", "end", "end_side")
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE"):
        raise refuse(f"{kind} in a window", node, "Spark has frames of ROWS and RANGE", "Write ROWS or RANGE.")
    rows = kind == "ROWS"
    start, end = (_bound(spec, side, rows=rows, order=order, node=node) for side in ("start", "end"))
    if start is not None and end is not None and start > end:
        raise SqlError("the frame of the window ends before it starts", where=place(node))
    return Frame("rows" if rows else "range", start, end)


def _bound(spec: exp.WindowSpec, side: str, *, rows: bool, order: Sequence[SortKey], node: exp.Expr) -> int | None:
    value, direction = spec.args.get(side), str(spec.args.get(f"{side}_side") or "")
    if value is None or value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        if direction != ("PRECEDING" if side == "start" else "FOLLOWING"):
            raise SqlError(f"the frame of the window {side}s at UNBOUNDED {direction}", where=place(node))
        return None
    sign = -1 if direction == "PRECEDING" else 1
    if rows:
        if isinstance(value, exp.Literal) and value.name.isdigit() and int(value.name) <= _greatest(INT):
            return sign * int(value.name)
        raise refuse(
            "this frame of ROWS", node, "ROWS takes a constant number, at most 2,147,483,647", "Write ROWS 2 PRECEDING."
        )
    return sign * _distance(value, order, node)


def _distance(value: exp.Expr, order: Sequence[SortKey], node: exp.Expr) -> int:
    """Return the distance of a RANGE frame in the units of ``Frame``."""
    kind = order[0].value.type if len(order) == 1 else None
    hint = "Write RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW over ORDER BY ts."
    if kind is None:
        raise refuse("a distance in a frame of RANGE", node, "ORDER BY must have one key", hint)
    if isinstance(value, exp.Interval) and kind in (TIMESTAMP, DATE):
        length = literals.interval(value).value
        assert isinstance(length, int)
        if kind == TIMESTAMP:
            return length
        if length % _DAY == 0:
            return length // _DAY
    elif isinstance(value, exp.Literal) and value.name.isdigit() and (kind.numeric or kind == DATE):
        if int(value.name) <= _greatest(kind):
            return int(value.name)
        hint = "Write UNBOUNDED PRECEDING or UNBOUNDED FOLLOWING."
        raise refuse(f"this distance over {kind}", node, f"it is greater than {_greatest(kind):,}", hint)
    raise refuse(f"this distance over {kind}", node, "it is no number of the unit of ORDER BY", hint)


def _greatest(kind: DataType) -> int:
    """Return the greatest distance of a frame over values of the type. For a DATE it is a number of days."""
    if kind == DATE:
        return literals.LONGEST // _DAY
    if kind.name == "DECIMAL":
        return int(10 ** ((kind.precision or 0) - (kind.scale or 0))) - 1
    return int(2 ** {"TINYINT": 7, "SMALLINT": 15, "INT": 31}.get(kind.name, 63)) - 1


def _ranked(
    name: str, call: exp.Expr, over: _Over, windows: Windows, scope: Scope, lower: Lower, *, ignoring: bool
) -> Scalar:
    shown = f"{name.upper()}()"
    if not over.order:
        raise refuse(f"{shown} without ORDER BY", call, "it counts rows in an order", "Write OVER (… ORDER BY ts).")
    if over.frame is not None or (ignoring and name in _RANKS):
        what = "a frame" if over.frame is not None else "IGNORE NULLS"
        raise refuse(f"{what} of {shown}", call, "it uses the whole partition", f"Remove {what}.")
    if name in _BESIDE:
        args, type = _beside(call, scope, lower)
        if ignoring:
            return _beside_with_value(name, args, type, over, windows, call)
        return windows.column(over.partition, _function(name, args, over.order, None, type))
    if call.expressions:
        raise SqlError(f"{shown} takes no argument", where=place(call))
    return windows.column(over.partition, _function(name, (), over.order, None, INT))


def _beside(call: exp.Expr, scope: Scope, lower: Lower) -> tuple[tuple[Scalar, ...], DataType]:
    """Return the value, the offset and the default of LAG or LEAD, and the type of the result."""
    given = call.expressions
    if not 1 <= len(given) <= 3:
        raise SqlError(f"{call.name.upper()} takes 1 to 3 arguments, not {len(given)}", where=place(call))
    value = _argument(given[0], scope, lower)
    offset = lower(given[1], scope) if len(given) > 1 else Literal(1, INT)
    if isinstance(offset, Literal) and isinstance(offset.value, int) and offset.type.name in INTEGRAL:
        offset = replace(offset, fixed=True)
    else:
        raise SqlError(f"the offset of {call.name.upper()} must be a constant whole number", where=place(call))
    if len(given) < 3:
        return (value, offset), value.type
    default = _argument(given[2], scope, lower)
    try:
        type = common([value.type, default.type])
    except TypeError as error:
        raise SqlError(f"{error} have no common type", where=place(call), hint="Use CAST(… AS …).") from None
    return (converted(value, type), offset, typed(converted(default, type), type)), type


def _beside_with_value(
    name: str, args: tuple[Scalar, ...], type: DataType, over: _Over, windows: Windows, call: exp.Expr
) -> Scalar:
    """Translate LAG or LEAD with IGNORE NULLS.

    The n-th value before a row is the value n - 1 places before the nearest value, among the rows with values.
    """
    value, offset, *default = args
    assert isinstance(offset, Literal)
    assert isinstance(offset.value, int)
    if offset.value == 0:
        raise refuse(f"the offset 0 of {name.upper()}() IGNORE NULLS", call, "it is the row itself", "Write the value.")
    before = (name == "lag") == (offset.value > 0)
    place_ = windows.column(over.partition, _function("row_number", (), over.order, None, INT))
    order = (SortKey(place_),)
    present = Call("is not null", (value,), BOOLEAN)
    found = value
    if abs(offset.value) > 1:
        further = (value, replace(offset, value=abs(offset.value) - 1))
        function = _function("lag" if before else "lead", further, order, None, value.type)
        found = windows.column((*over.partition, present), function)
    by = Case(((present, place_),), None, INT)
    frame = Frame("rows", None, -1) if before else Frame("rows", 1, None)
    nearest = _function("max_by" if before else "min_by", (found, by), order, frame, type)
    column = windows.column(over.partition, nearest)
    return Call("coalesce", (column, *default), type) if default else column


def _argument(node: exp.Expr, scope: Scope, lower: Lower) -> Scalar:
    value = as_column(lower(node, scope))
    if value.type in (NULL, MONTHS):
        raise SqlError(f"a window function cannot return values of type {value.type}", where=place(node))
    if mentions_now(value):
        raise refuse("NOW() in a window function", node, "its value would change every microsecond")
    return replace(value, fixed=True) if isinstance(value, Literal) else value


def _value(
    name: str, call: exp.Expr, over: _Over, windows: Windows, scope: Scope, lower: Lower, *, ignoring: bool
) -> Scalar:
    """Translate FIRST_VALUE, LAST_VALUE or NTH_VALUE."""
    given = list(call.expressions)
    if name != "nth_value" and len(given) == 2 and isinstance(given[1], exp.Boolean):
        ignoring = bool(given.pop().this)  # Spark's spelling of IGNORE NULLS
    count = _count(given.pop(), scope, lower) if name == "nth_value" and len(given) == 2 else None
    if len(given) != 1 or (name == "nth_value" and count is None):
        wanted = "2 arguments" if name == "nth_value" else "1 argument"
        raise SqlError(f"{call.name.upper()} takes {wanted}", where=place(call))
    value = _argument(given[0], scope, lower)
    frame = over.frame or (UP_TO_PEERS if over.order else Frame("rows", None, None))
    if ignoring and count is not None and frame.start is not None:
        reason, hint = (
            "the values before it count, too",
            "Let the frame begin at UNBOUNDED PRECEDING, or use FIRST_VALUE.",
        )
        raise refuse("NTH_VALUE with IGNORE NULLS in this frame", call, reason, hint)
    in_rows = frame if frame.unit == "rows" else _same_in_rows(name, frame)
    if not ignoring and in_rows is not None:
        args = (value,) if count is None else (value, count)
        return windows.column(over.partition, _function(name, args, over.order, in_rows, value.type))
    place_ = windows.column(over.partition, _function("row_number", (), over.order, None, INT))
    order = over.order if frame.unit == "range" else (SortKey(place_),)
    if count is not None:
        if frame.start is not None:
            raise refuse("NTH_VALUE in this frame of RANGE", call, "rows that tie have no order", "Write ROWS.")
        if ignoring:
            place_ = windows.column(over.partition, _function("count", (value,), (SortKey(place_),), _SO_FAR, BIGINT))
        chosen = Case(((Call("=", (place_, count), BOOLEAN), value),), None, value.type)
        return windows.column(over.partition, _function("max", (chosen,), order, frame, value.type))
    by: Scalar = place_
    if ignoring:
        by = Case(((Call("is not null", (value,), BOOLEAN), place_),), None, INT)
    function: AggregateFunction = "min_by" if name == "first_value" else "max_by"
    return windows.column(over.partition, _function(function, (value, by), order, frame, value.type))


def _same_in_rows(name: str, frame: Frame) -> Frame | None:
    """Return a frame of ROWS with the same value, or None if rows that tie with the current row matter."""
    if (frame.start, frame.end) == (None, None):
        return Frame("rows", None, None)
    if name == "first_value" and frame.start is None and (frame.end or 0) >= 0:
        return Frame("rows", None, 0)
    if name == "last_value" and frame.end is None and (frame.start or 0) <= 0:
        return Frame("rows", 0, None)
    return None


def _count(node: exp.Expr, scope: Scope, lower: Lower) -> Literal:
    value = lower(node, scope)
    if isinstance(value, Literal) and isinstance(value.value, int) and value.value > 0 and value.type == INT:
        return replace(value, fixed=True)
    raise SqlError("NTH_VALUE takes a constant positive number", where=place(node))


def _aggregate(call: exp.Expr, over: _Over, windows: Windows, scope: Scope, lower: Lower) -> Scalar:
    function, argument, distinct, by = read_aggregate(call, scope, lower)
    if distinct or function in ("array_agg", "collect_set", "median"):
        shown = "DISTINCT" if distinct else f"{function.upper()}()"
        raise refuse(f"{shown} in a window function", call, "Weft does not support it", "Use GROUP BY and a join.")
    type = aggregate_type(function, None if argument is None else argument.type)
    frame = over.frame or (UP_TO_PEERS if over.order else None)
    if argument is not None and by is not None:
        function, by = "min_by", _place_by(function, argument, by, over, windows)
    args = tuple(replace(part, fixed=True) if isinstance(part, Literal) else part for part in (argument, by) if part)
    return averaged(windows.column(over.partition, _function(function, args, over.order, frame, type)), argument)


def _place_by(function: str, argument: Scalar, by: Scalar, over: _Over, windows: Windows) -> Scalar:
    """Return the place of a row in the order of MIN_BY or MAX_BY.  The least value with the same ``by`` is first."""
    order = (SortKey(by, function == "max_by", nulls_first=False), SortKey(argument, nulls_first=False))
    place_ = windows.column(over.partition, _function("row_number", (), order, None, INT))
    return Case(((Call("is not null", (by,), BOOLEAN), place_),), None, INT)


def _function(
    name: str, args: tuple[Scalar, ...], order: tuple[SortKey, ...], frame: Frame | None, type: DataType
) -> WindowFunction:
    return WindowFunction(cast("ValueFunction", name), args, order, frame, ColumnRef("", "", type))
