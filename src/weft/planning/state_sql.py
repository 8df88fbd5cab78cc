"""Render the rows of states, with their periods, as SQL (``derivation.stateful``, ``derivation.lives``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final, TypeAlias

from weft.algebra import relation as relational
from weft.algebra.relation import (
    Distinct,
    Grouped,
    Output,
    Plain,
    Project,
    Recursive,
    StateSchema,
    Union,
    Windowed,
    WindowFunction,
)
from weft.algebra.scalar import (
    MICROSECOND,
    TICK_END,
    TICK_START,
    TIME_START,
    Call,
    Literal,
    Scalar,
    call,
    greatest,
    minus,
)
from weft.algebra.schema import BIGINT, DataType
from weft.algebra.traverse import substitute
from weft.derivation.exact import Delta
from weft.derivation.lives import Lives, with_scalars
from weft.derivation.recursion import opened
from weft.derivation.stateful import RANKS, key_count
from weft.errors import DerivationError
from weft.period_sql import windows
from weft.period_sql.groups import Grouping, Measure, amounts, arguments, extremes, measure_of
from weft.period_sql.notation import SPARK, VALID_TIME, Dialect, listed
from weft.period_sql.sweep import Sweep
from weft.sql.rendering import render

Window: TypeAlias = tuple[Scalar, Scalar, Scalar]
_BEGINNING: Final = -(2**62)


def inputs(operator: relational.Relation) -> tuple[relational.Relation, tuple[Output, ...], int]:
    """Return the relation whose lives an operator needs, the columns of these lives, and the number of its keys.

    The first columns are the operator's keys (``stateful.key_columns``).
    """
    match operator:
        case Grouped(input=inner, groups=groups, measures=measures):
            values = [positive(output.value) for output in groups]
            return inner, _columns(values, [part for each in measures for part in _arguments(each)]), len(values)
        case Windowed(input=inner, partition=partition, outputs=outputs):
            rest = [*(output.value for output in outputs), *_window_values(operator)]
            return inner, _columns(partition, rest), len(partition)
        case Distinct(input=inner):
            refs = relational.attributes(inner)
            return inner, _columns(refs, ()), len(refs)
        case Union() | Project():
            refs = relational.attributes(operator)
            return operator, _columns(refs, ()), key_count(operator)
        case Recursive(duplicates=duplicates):
            refs = relational.attributes(operator)
            return opened(operator), _columns(refs if duplicates else [positive(ref) for ref in refs], ()), 0
        case _:
            raise DerivationError(f"{type(operator).__name__} has no state")


def _arguments(measure: relational.Measure) -> tuple[Scalar, ...]:
    extreme = measure.function in ("min", "max")
    return tuple(map(positive, arguments(measure))) if extreme else arguments(measure)


def positive(value: Scalar) -> Scalar:
    """Return a DOUBLE without the sign of zero: rows with 0.0 and -0.0 are one group, whose value is 0.0."""
    if value.type.name not in ("FLOAT", "DOUBLE"):
        return value
    return Call("+", (value, Literal(0.0, value.type, fixed=True)), value.type)


def _columns(keys: Sequence[Scalar], rest: Sequence[Scalar]) -> tuple[Output, ...]:
    named = [Output(f"c{number}", key) for number, key in enumerate(keys, 1)]
    return (*named, *(Output(f"x{number}", value) for number, value in enumerate(rest, 1)))


def _window_values(operator: Windowed) -> list[Scalar]:
    return [part for each in operator.functions for part in (*each.args, *(key.value for key in each.order))]


def order_of(operator: Windowed) -> list[list[str]]:
    """Return the columns of ``inputs`` with the values of ORDER BY, for each function."""
    found, before = [], len(operator.outputs)
    for function in operator.functions:
        first = before + len(function.args) + 1
        before += len(function.args) + len(function.order)
        found.append([f"x{number}" for number in range(first, before + 1)])
    return found


def state_sql(state: StateSchema, given: str, dialect: Dialect = SPARK, *, settled: bool = False) -> str:
    """Return SQL for the columns of a state.  ``given`` is SQL for the columns of ``inputs`` and periods.

    ``settled`` means that no row of a group ends, or that the window functions of a row never change (``is_settled``).
    """
    sweep, operator = Sweep(VALID_TIME, dialect), state.operator
    width = len(relational.attributes(operator))
    match operator:
        case Grouped():
            text = _grouping(operator, given, state.window, sweep, lasting=settled).measured()
        case Windowed():
            text = _windowed(operator, given, sweep, settled=settled, many=is_unbounded(state.window))
        case Distinct() | Recursive(duplicates=False):
            text = sweep.coalesced(given, width)
        case _:
            text = given
    names = [column.name for column in state.columns]
    values = [*VALID_TIME.columns(width), *VALID_TIME.period]
    heads = listed(f"{value} AS {render.quoted(name)}" for value, name in zip(values, names, strict=True))
    return f"SELECT {heads} FROM ({text}) AS rows_"


def measures_of(operator: Grouped) -> list[Measure]:
    """Return the measures of an operator over the columns of ``inputs``."""
    places = (f"x{number}" for number in count(1))
    return [measure_of(each, [next(places) for _ in arguments(each)]) for each in operator.measures]


def _grouping(operator: Grouped, given: str, window: Window, sweep: Sweep, *, lasting: bool = False) -> Grouping:
    span = None
    if not operator.groups:
        begins = window[2] if is_unbounded(window) else greatest((window[2], minus(window[0], MICROSECOND)))
        span = (render.scalar(begins), VALID_TIME.forever)
    return Grouping(sweep, given, len(operator.groups), measures_of(operator), span, lasting=lasting)


def deltas_sql(state: StateSchema, parts: Sequence[tuple[Delta, Mapping[str, str]]]) -> str:
    """Return SQL for the columns of ``inputs``, the period and the ``sign`` of exact deltas.

    Each part has its own map from range variables to views.
    """
    texts = []
    for delta, views in parts:
        text = _combinations(bound_life(delta.life, state.window), state.window, views)
        texts.append(f"SELECT *, {delta.sign} AS sign FROM ({text}) AS given")
    return "\nUNION ALL ".join(texts)


def continued_sql(state: StateSchema, deltas: str, before: str, dialect: Dialect) -> str:
    """Return SQL for the columns of a state and its running totals.

    ``deltas`` is the name of a relation with the columns of ``deltas_sql``.  ``before`` is the name of a relation with
    the groups and the totals just before the window, or an empty text.
    """
    operator, tau = state.operator, state.window[0]
    assert isinstance(operator, Grouped)
    sweep, width = Sweep(VALID_TIME, dialect), len(operator.groups)
    names = [*amounts(measures_of(operator)), *extremes(measures_of(operator))]
    start = f"CAST({render.scalar(minus(tau, MICROSECOND))} AS TIMESTAMP)" if before else ""
    earlier = listed(VALID_TIME.columns(width), names, start, "CAST(NULL AS TIMESTAMP)")
    grouping = _grouping(operator, f"SELECT * FROM {deltas}", state.window, sweep)
    text = grouping.continued(f"SELECT {earlier} FROM {before}" if before else "")
    values = [*VALID_TIME.columns(len(relational.attributes(operator))), *VALID_TIME.period]
    heads = [f"{value} AS {render.quoted(column.name)}" for value, column in zip(values, state.columns, strict=True)]
    return f"SELECT {listed(heads, (f'{name} AS _{name}' for name in names))} FROM ({text}) AS rows_"


def added_sql(state: StateSchema, deltas: str) -> str:
    """Return SQL for the keys and for what exact deltas add to the running totals by the end of the window.

    ``deltas`` is the name of a relation with the columns of ``deltas_sql``.
    """
    assert isinstance(state.operator, Grouped)
    measures = measures_of(state.operator)
    signed = {name: f"sign * {value}" for name, value in amounts(measures).items()}
    signed |= {name: value for name, (_, value) in extremes(measures).items()}
    heads = listed(
        VALID_TIME.columns(len(state.operator.groups)), (f"{value} AS {name}" for name, value in signed.items())
    )
    return added_up_sql(state, f"(SELECT {heads} FROM {deltas} WHERE {VALID_TIME.end} IS NULL)")


def added_up_sql(state: StateSchema, totals: str, further: Sequence[tuple[str, DataType]] = ()) -> str:
    """Return SQL that adds up the rows of each group. ``totals`` is a relation with the keys and the totals.

    ``further`` are further columns to add up. A group whose totals are 0 has no row.
    """
    assert isinstance(state.operator, Grouped)
    keys, ends = VALID_TIME.columns(len(state.operator.groups)), extremes(measures_of(state.operator))
    heads = [
        f"{ends[name][0]}({name}) AS {name}" if name in ends else f"CAST(SUM({name}) AS {kind}) AS {name}"
        for name, kind in (*totals_of(state), *further)
    ]
    some = " OR ".join(f"SUM({name}) <> 0" for name, _ in (*totals_of(state), *further) if name not in ends)
    by = f" GROUP BY {listed(keys)}" if keys else ""
    return f"SELECT {listed(keys, heads)} FROM {totals} AS totals{by} HAVING {some}"


def totals_of(state: StateSchema) -> tuple[tuple[str, DataType], ...]:
    """Return the names and types of the running totals of a state with exact measures."""
    operator = state.operator
    assert isinstance(operator, Grouped)
    kinds = {each.argument: each.type for each in measures_of(operator) if each.type is not None}
    named = []
    for name in amounts(measures_of(operator)):
        kind = kinds.get(name[2:])
        scale = (kind.scale or 0) if kind is not None and kind.name == "DECIMAL" and not name.startswith("h") else 0
        named.append((name, BIGINT if name.startswith("n") else DataType("DECIMAL", 38, scale)))
    ends = {each.extreme_name: each.type for each in measures_of(operator) if each.extreme and each.type is not None}
    return (*named, *ends.items())


def bound_life(life: Lives, window: Window) -> Lives:
    """Replace τ, t and t0 in a life."""
    known: dict[Scalar, Scalar] = dict(zip((TICK_START, TICK_END, TIME_START), window, strict=True))
    return with_scalars(life, lambda scalar: substitute(scalar, known))


def is_settled(operator: relational.Relation, rows: Sequence[Lives]) -> bool:
    """Return whether no row of a group ends, or whether the window functions of a row keep their first values.

    The rows of a window must never end, their order must be that of their starts, and no function may look at later
    rows.
    """
    if isinstance(operator, Grouped):
        return not any(life.ends or life.subqueries for life in rows)
    if not isinstance(operator, Windowed) or not all(map(_looks_back, operator.functions)):
        return False
    for key, *_ in order_of(operator):
        for life in rows:
            value = next(output.value for output in life.outputs if output.name == key)
            if life.ends or life.subqueries or life.starts != (value,):
                return False
    return True


def _looks_back(function: WindowFunction) -> bool:
    if not function.order or function.order[0].descending:
        return False
    if function.function in RANKS or lag_of(function) is not None:
        return True
    return function.function not in ("lag", "lead") and function.frame is not None and function.frame.end == 0


def lag_of(function: WindowFunction) -> int | None:
    """Return how many rows LAG looks back, or None for another function, or if LAG looks ahead."""
    offset = function.args[1] if function.function == "lag" else None
    back = offset.value if isinstance(offset, Literal) else None
    return back if isinstance(back, int) and back >= 0 else None


def _windowed(operator: Windowed, given: str, sweep: Sweep, *, settled: bool, many: bool) -> str:
    width, keys = len(operator.outputs), len(operator.partition)
    partition = [f"p{number}" for number in range(1, keys + 1)]
    values = len(_window_values(operator))
    renamed = listed(
        (f"x{number} AS c{number}" for number in range(1, width + 1)),
        (f"c{number} AS p{number}" for number in range(1, keys + 1)),
        (f"x{width + number} AS w{number}" for number in range(1, values + 1)),
        VALID_TIME.period,
    )
    rows = f"SELECT {renamed} FROM ({given}) AS given"
    if operator.most is not None and not settled:
        order = tuple(f"w{number}" for number in range(1, values + 1))
        (function,), most = operator.functions, render.scalar(operator.most)
        spelled = order_sql(function, [f"r.{each}" for each in order])
        rank = windows.Rank(function.function.upper(), order, spelled, most)
        return windows.topmost(sweep, rows, width, partition, rank, many=many)
    named: dict[Scalar, str] = {}
    for number, value in enumerate(_window_values(operator), 1):
        named.setdefault(value, f"r.w{number}")
    # An engine sorts once for functions with the same ORDER BY, so that equal rows have one order.
    places = iter(named[value] for value in _window_values(operator))
    functions = [
        window_function(each, [next(places) for _ in each.args], [next(places) for _ in each.order])
        for each in operator.functions
    ]
    if settled:
        return windows.settled(sweep.axis, rows, width, partition, functions)
    return windows.windowed(sweep, rows, width, partition, functions)


def window_function(function: WindowFunction, args: Sequence[str], order: Sequence[str]) -> str:
    """Return SQL for a function of rows, in which ``PARTITION`` stands for the keys of the partition.

    ``args`` and ``order`` are SQL for the function's arguments and for the items of its ORDER BY.
    """
    by = f" ORDER BY {order_sql(function, order)}" if order else ""
    given = [
        render.scalar(value) if isinstance(value, Literal) else place
        for place, value in zip(args, function.args, strict=True)
    ]
    frame = "" if function.frame is None else render.frame_text(function)
    called = f"{function.function.upper()}({listed(given) or ('' if function.function in RANKS else '*')})"
    text = f"{called} OVER (PARTITION BY {windows.PARTITION}{by}{f' {frame}' if frame else ''})"
    return f"CAST({text} AS {render.spelled(function.output.type)})"


def order_sql(function: WindowFunction, order: Sequence[str]) -> str:
    """Return SQL for the items of a function's ORDER BY. ``order`` is SQL for their values."""
    return listed(
        f"{place}{' DESC' if key.descending else ''} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for place, key in zip(order, function.order, strict=True)
    )


def lives_sql(rows: Sequence[Lives], window: Window, views: Mapping[str, str], dialect: Dialect) -> str:
    """Return SQL for the outputs of lives, with periods within the window.

    A life that begins before the window begins just before it, and a life that ends after the window has no end.
    """
    return "\nUNION ALL ".join(_life(each, window, views, dialect) for each in rows)


def _life(life: Lives, window: Window, views: Mapping[str, str], dialect: Dialect) -> str:
    own = _combinations(life, window, views)
    if not life.subqueries:
        return own
    names = [output.name for output in life.outputs]
    counters = [f"n{number}" for number in range(1, len(life.subqueries) + 1)]
    none = [f"0 AS {each}" for each in counters]
    parts = [f"SELECT {listed(names, VALID_TIME.period, '1 AS n', none)} FROM ({own}) AS own"]
    for counter, (_, bodies) in zip(counters, life.subqueries, strict=True):
        counts = [f"{int(each == counter)} AS {each}" for each in counters]
        for body in bodies:
            text = _life(body, window, views, dialect)
            parts.append(f"SELECT {listed(names, VALID_TIME.period, '0 AS n', counts)} FROM ({text}) AS met")
    given = "\nUNION ALL ".join(parts)
    amounts = {name: name for name in ("n", *counters)}
    totals = Sweep(VALID_TIME, dialect).totals(given, names, amounts, ["n", *counters])
    alive = " AND ".join(
        f"{counter} {'>' if wanted else '='} 0" for counter, (wanted, _) in zip(counters, life.subqueries, strict=True)
    )
    copies = dialect.numbers.format("1", "CAST(n AS BIGINT) + 1")
    copied = f"SELECT {listed(names, VALID_TIME.period, f'{copies} AS copy')} FROM ({totals}) AS totals WHERE {alive}"
    return f"SELECT {listed(names[: len(names) - life.carried], VALID_TIME.period)} FROM ({copied}) AS copied"


def _combinations(life: Lives, window: Window, views: Mapping[str, str]) -> str:
    tau, t, _ = window
    begins = substitute(life.start, {TIME_START: window[2]})
    start, end = render.scalar(begins), "CAST(NULL AS TIMESTAMP)"
    if not is_unbounded(window):
        start = render.scalar(greatest((begins, minus(tau, MICROSECOND))))
    conditions = [*life.conditions, call("<", begins, t)]
    if life.end is not None:
        open_ended = call("is null", life.end)
        conditions.append(call("or", open_ended, call("<", begins, life.end)))
        if not is_unbounded(window):
            conditions.append(call("or", open_ended, call("<=", tau, life.end)))
        end = f"CASE WHEN {render.scalar(call('<', life.end, t))} THEN {render.scalar(life.end)} END"
    items = listed(
        (f"{render.scalar(output.value)} AS {output.name}" for output in life.outputs),
        f"{start} AS {VALID_TIME.start}",
        f"{end} AS {VALID_TIME.end}",
    )
    condition = relational.conjunction(*map(Plain, conditions))
    return render.select(items, relational.block(life.sources or (relational.UNIT,), condition), views)


def is_unbounded(window: Window) -> bool:
    """Return whether the window has no start."""
    return isinstance(window[0], Literal) and isinstance(window[0].value, int) and window[0].value <= _BEGINNING
