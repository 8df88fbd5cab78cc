"""Translate WINDOW(ts, '10 minutes'[, '5 minutes'[, '2 minutes']]), the windows of time that contain a row.

A window begins at a multiple of the slide after 1970-01-01 UTC, plus the start time, and has the given length.  Without
a slide, each row is in one window.  With a slide, a row is in at most length / slide windows, rounded up:

    FROM msgs   becomes   FROM msgs, VALUES (0), (1) AS w(number)
                          WHERE the window that begins ``number`` slides before the last one contains ts

As in Spark, a row without a time is in no window, and a SELECT has only one WINDOW.  Its value is a STRUCT with the
fields ``start`` and ``end``.  The SELECT can also name it ``window``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from weft.algebra.calendar import last_multiple
from weft.algebra.relation import Join, Plain, Relation, Select, Values, attributes
from weft.algebra.scalar import Call, Literal, Scalar, call, mentions_now, minus, plus
from weft.algebra.schema import DATE, INT, INTERVAL, STRING, TIMESTAMP, Column, DataType
from weft.errors import SqlError
from weft.sql.lower import literals
from weft.sql.lower.conversion import converted
from weft.sql.lower.refusal import place, refuse
from weft.sql.lower.scalar import lower_scalar
from weft.sql.lower.scope import TIME_WINDOW, Scope
from weft.sql.rendering.render import STRUCT

MOST_WINDOWS: Final = 100
"""The maximal number of windows that contain a row."""
_TYPE: Final = DataType("STRUCT", fields=(("start", TIMESTAMP), ("end", TIMESTAMP)))
_LIKE: Final = (
    "Write WINDOW(ts, '10 minutes'), WINDOW(ts, '10 minutes', '5 minutes') or WINDOW(ts, '1 day', '1 day', '2 hours')."
)


def with_time_window(select: exp.Select, relation: Relation, scope: Scope) -> Relation:
    """Return the rows of ``relation`` in each of their windows, and add the window to ``scope``.

    Without WINDOW in the select list, GROUP BY, HAVING, QUALIFY or ORDER BY with LIMIT, return ``relation``.  In these
    clauses, the name ``window`` becomes a copy of the call.
    """
    parts = list(_parts(select))
    calls = [part for part in parts if _is_window(part)]
    if not calls:
        return relation
    first = calls[0]
    with scope.source(first):
        other = next((each for each in calls if each != first), None)
        if other is not None:
            hint = "Use two queries, or a derived table."
            raise refuse("a second WINDOW", other, "a SELECT has one window of time", hint)
        time, length, slide, start = _arguments(first, scope)
    for part in parts:
        if isinstance(part, exp.Column) and part.parts[0].name.lower() == TIME_WINDOW and not _known(part, scope):
            fields = part.parts[1:]
            if isinstance(part.parent, exp.Ordered) and not fields:  # windows are in the order of their starts
                fields = [exp.to_identifier("start")]
            part.replace(_with_fields(first.copy(), fields))
    count = -(-length // slide)
    begun = last_multiple(slide, start, time)
    held: Scalar = call("is not null", time)
    if count > 1:
        rows = tuple((Literal(number, INT, fixed=True),) for number in range(count))
        numbers = Values(scope.fresh(TIME_WINDOW), (Column(1, "number", INT),), rows)
        begun = minus(begun, Call("*", (Literal(slide, INTERVAL, fixed=True), attributes(numbers)[0]), INTERVAL))
        relation = Join((relation, numbers))
        held = call("<", time, plus(begun, Literal(length, INTERVAL, fixed=True)))
    end = plus(begun, Literal(length, INTERVAL, fixed=True))
    names = (Literal(name, STRING, fixed=True) for name, _ in _TYPE.fields)
    value = Call(STRUCT, (next(names), begun, next(names), end), _TYPE)
    scope.time_windows[first] = value
    return Select(relation, Plain(held))


def _parts(select: exp.Select) -> Iterator[exp.Expr]:
    ordered = ("order",) if select.args.get("limit") else ()
    clauses = (*select.expressions, *(select.args.get(key) for key in ("group", "having", "qualify", *ordered)))
    for clause in clauses:
        if clause is not None:
            yield from list(clause.walk(prune=lambda part: isinstance(part, exp.Query)))


def _is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == TIME_WINDOW


def _known(column: exp.Column, scope: Scope) -> bool:
    """Return whether FROM has an alias or a column called ``window``."""
    if len(column.parts) > 1 and TIME_WINDOW in scope.variables:
        return True
    return scope.owners(TIME_WINDOW, column) is not None


def _with_fields(value: exp.Expr, fields: list[exp.Expr]) -> exp.Expr:
    for name in fields:
        value = exp.Dot(this=value, expression=name.copy())
    return value


def _arguments(node: exp.Expr, scope: Scope) -> tuple[Scalar, int, int, int]:
    """Return the time, and the length, the slide and the start time in microseconds."""
    arguments = node.expressions
    if not 2 <= len(arguments) <= 4:
        raise SqlError(f"WINDOW takes 2 to 4 arguments, not {len(arguments)}", where=place(node), hint=_LIKE)
    time = lower_scalar(arguments[0], scope)
    if time.type not in (TIMESTAMP, DATE) or mentions_now(time):
        what = "NOW()" if mentions_now(time) else str(time.type)
        raise SqlError(f"WINDOW takes a time of the row, not {what}", where=place(arguments[0]), hint=_LIKE)
    length, *others = [_duration(each) for each in arguments[1:]]
    slide, start = ([*others, length, 0] if not others else [*others, 0])[:2]
    if not 0 < slide <= length or abs(start) >= slide:
        reason = "the slide is positive and at most the length, and the start time is shorter than the slide"
        raise SqlError(f"WINDOW: {reason}", where=place(node), hint=_LIKE)
    if -(-length // slide) > MOST_WINDOWS:
        raise SqlError(
            f"WINDOW: each row would be in {-(-length // slide):,} windows; at most {MOST_WINDOWS} are allowed",
            where=place(node),
            hint="Write a longer slide.",
        )
    return converted(time, TIMESTAMP), length, slide, start


def _duration(node: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise SqlError("WINDOW takes its lengths as constant texts", where=place(node), hint=_LIKE)
    interval = exp.Interval(this=node.copy())
    if literals.months(interval) is not None:
        raise refuse("WINDOW of months", node, "a month has no fixed length", "Group by DATE_TRUNC('MONTH', ts).")
    length = literals.interval(interval).value
    assert isinstance(length, int)
    return length
