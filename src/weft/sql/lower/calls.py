"""Translate function calls: check the number, the types and the constants of the arguments, and find the result type.

In ``PERIOD_START(e)`` and other period functions, ``e`` is an alias of FROM (paper, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from weft.algebra.relation import attributes
from weft.algebra.scalar import Call, Case, Literal, PeriodOf, Scalar, children
from weft.algebra.schema import BOOLEAN, DATE, DOUBLE, INTERVAL, MONTHS, MOST_DIGITS, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.sql.functions import (
    EXPANDING,
    FUNCTIONS,
    LONGEST_PADDING,
    REACHING_OUT,
    REFUSED_AGGREGATES,
    VOLATILE,
    WINDOW,
    WINDOWS,
    Function,
    fits,
    rounded_decimal,
)
from weft.sql.lower.advice import advice
from weft.sql.lower.arithmetic import beside_decimal, combined
from weft.sql.lower.conversion import converted, opened, typed
from weft.sql.lower.patterns import check_pattern, check_replacement
from weft.sql.lower.refusal import place, refuse
from weft.sql.lower.rewriting import NOT_TODAY, as_number, viewed
from weft.sql.lower.scope import TIME_WINDOW, Scope, suggestion
from weft.sql.rendering.render import PART_OF

_EXTRACTED: Final = {
    "YEAR": "year",
    "QUARTER": "quarter",
    "MONTH": "month",
    "WEEK": "weekofyear",
    "DAY": "day",
    "DAYOFWEEK": "dayofweek",
    "DOW": "dayofweek",
    "DOY": "dayofyear",
    "HOUR": "hour",
    "MINUTE": "minute",
}
_CALLED: Final = {
    "COLLECTION": "an ARRAY or a MAP",
    "ARRAY": "an ARRAY",
    "MAP": "a MAP",
    "STRINGS": "an ARRAY of STRINGs",
    "NESTED": "a STRUCT, an ARRAY or a MAP",
    "PART": "a value with a type",
    "ANY": "a plain value",
    "CHOICE": "a plain value",
}
_CALLED_NESTED: Final = frozenset(("COLLECTION", "ARRAY", "MAP", "STRINGS", "NESTED"))
_FROM_TEXT: Final = "Read JSON text first: FROM_JSON(doc, 'ARRAY<STRING>')."
_SECONDS: Final = DataType("DECIMAL", 8, 6)
_SHORTER: Final = f"Write a number up to {LONGEST_PADDING:,}."


def apply(name: str, args: list[Scalar], node: exp.Expr) -> Scalar:
    """Return a call of the function ``name``.

    Raise SqlError if Spark would refuse the arguments, or fail at some row.
    """
    function = FUNCTIONS[name]
    if name == "concat_ws" and (joined := _joined_array(args, node)) is not None:
        return joined
    args = [opened(arg) if _family(function, number) in _CALLED_NESTED else arg for number, arg in enumerate(args)]
    _fitting(name, function, args, node)
    if name == "mod":
        args = [beside_decimal(args[0], args[1], node), beside_decimal(args[1], args[0], node)]
    try:
        type = function.result([arg.type for arg in args])
    except TypeError as error:
        raise SqlError(f"{name.upper()}: {error} have no common type", where=place(node)) from None
    if (type == TIMESTAMP and function.takes == ("CHOICE",)) or name in ("hour", "minute", "second"):
        args = [converted(arg, TIMESTAMP) for arg in args]
    if name == "round":
        type = _rounded(type, args)
    if name.startswith("regexp_"):
        _regular(name, args, node)
    if name == "nvl2":
        first, *values = args
        present, absent = (converted(value, type) for value in values)
        return Case(((Call("is not null", (first,), BOOLEAN), present),), absent, type)
    if name == "try_divide":  # NULL without a value, as the operator / returns
        number, by = (typed(arg, DOUBLE) for arg in args)
        return combined("/", number, by, node)
    return Call(name, tuple(args), type)


def part_of_split(args: list[Scalar], number: Scalar, node: exp.Expr) -> Scalar:
    """Translate SPLIT(text, pattern[, limit])[number].  The first part has the number 0."""
    if not 2 <= len(args) <= 3:
        raise SqlError(f"SPLIT takes 2 to 3 arguments, not {len(args)}", where=place(node))
    text, pattern, *limit = args
    if not fits(text.type, "STRING") or not fits(number.type, "INTEGRAL"):
        raise SqlError("SPLIT takes a STRING, and an integer index in brackets", where=place(node))
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise SqlError(
            "SPLIT takes a constant pattern", where=place(node), hint="Write, for example, SPLIT(a, ',')[0]."
        )
    if any(not isinstance(each, Literal) or not isinstance(each.value, int) for each in limit):
        raise SqlError(
            "SPLIT takes a constant limit", where=place(node), hint="Write, for example, SPLIT(a, ',', 2)[1]."
        )
    check_pattern(pattern.value, node)
    fixed = (replace(each, fixed=True) for each in (pattern, *limit) if isinstance(each, Literal))
    return Call(PART_OF, (text, number, *fixed), STRING)


def extracted(field: str, value: Scalar, node: exp.Expr) -> Scalar:
    """Translate EXTRACT(field FROM value).

    Some fields correspond to a function with another name.  EXTRACT(SECOND …) returns a number with decimals.
    """
    if field == "SECOND":
        _fitting("extract", FUNCTIONS["second"], [value], node)
        return Call("date_part", (Literal(field, STRING, fixed=True), converted(value, TIMESTAMP)), _SECONDS)
    if field not in _EXTRACTED:
        construct = f"EXTRACT({field} …)"
        known = ", ".join([*_EXTRACTED, "SECOND"])
        raise refuse(construct, node, "a time has no such field", advice(construct) or f"The fields are {known}.")
    return apply(_EXTRACTED[field], [value], node)


def _fitting(name: str, function: Function, args: list[Scalar], node: exp.Expr) -> None:
    if not function.least <= len(args) <= function.most:
        wanted = f"{function.least}" if function.least == function.most else f"{function.least} to {function.most}"
        raise SqlError(
            f"{name.upper()} takes {wanted} argument{'s' * (function.most > 1)}, not {len(args)}",
            where=place(node),
            hint=advice(name),
        )
    for number, arg in enumerate(args):
        family = _family(function, number)
        if not fits(arg.type, family):
            wanted = _CALLED.get(family, family)
            hint = _converted(arg, family, number, node) or advice(name)
            if arg.type in (INTERVAL, MONTHS):
                hint = as_number(node)
            raise SqlError(f"{name.upper()} takes {wanted}, not {arg.type}", where=place(node), hint=hint)
        if function.constant is not None and number >= function.constant:
            _constant(name, number, arg, family, node)
        _in_range(name, number, arg, family, node)
    if name == "repeat" and (times := _repeated(name, args)) > LONGEST_PADDING:
        message = f"REPEAT within REPEAT repeats {times:,} times, more than {LONGEST_PADDING:,}"
        raise SqlError(f"{message}; a short row could grow to any size", where=place(node), hint=_SHORTER)


def _joined_array(args: list[Scalar], node: exp.Expr) -> Scalar | None:
    """Return CONCAT_WS of an ARRAY as ARRAY_JOIN, or None if no argument is a nested column."""
    if not any(arg.type.json is not None for arg in args):
        return None
    if len(args) != 2 or args[0].type.json is not None:
        hint = "Write ARRAY_JOIN(x, ',') for the array, and combine the texts with CONCAT_WS."
        raise refuse("CONCAT_WS of an array and other values", node, "an array is a column of JSON text", hint)
    of_array = apply("array_join", [args[1], args[0]], node)
    return Call("coalesce", (of_array, Literal("", STRING, fixed=True)), STRING)


def _family(function: Function, number: int) -> str:
    return function.takes[min(number, len(function.takes) - 1)]


def _converted(arg: Scalar, family: str, number: int, node: exp.Expr) -> str | None:
    if family in _CALLED and arg.type == STRING:
        return _FROM_TEXT
    if family != "STRING" or not (arg.type.numeric or arg.type in (BOOLEAN, DATE, TIMESTAMP)):
        return None
    argument = node.expressions[number].sql("spark") if number < len(node.expressions) else ""
    return f"Write CAST({argument if 0 < len(argument) <= 60 else '…'} AS STRING)."


def _constant(name: str, number: int, arg: Scalar, family: str, node: exp.Expr) -> None:
    if not isinstance(arg, Literal) or arg.value is None or (family == "INDEX" and arg.value == 0):
        wanted = "a constant other than 0" if family == "INDEX" else "a constant"
        bounded = "the greatest size of a row must be known in advance"
        reason = bounded if family == "LENGTH" else "a value from a row could make the query fail"
        hint = "Write the greatest length that you need as a number." if family == "LENGTH" else None
        message = f"{name.upper()} takes {wanted} as argument {number + 1}: {reason}"
        raise SqlError(message, where=place(node), hint=hint)
    if family == "LENGTH" and isinstance(arg.value, int) and arg.value > LONGEST_PADDING:
        message = f"{name.upper()} takes at most {LONGEST_PADDING:,}, not {arg.value:,}"
        raise SqlError(f"{message}; a short row could grow to any size", where=place(node), hint=_SHORTER)


def _in_range(name: str, number: int, arg: Scalar, family: str, node: exp.Expr) -> None:
    """Raise SqlError for an integer constant outside Spark's range.  In Spark, positions and numbers of digits are
    INTs.
    """
    if not isinstance(arg, Literal) or not isinstance(arg.value, int) or family not in ("INTEGRAL", "INDEX"):
        return
    if name == "round" and abs(arg.value) > MOST_DIGITS:
        message = f"ROUND takes at most {MOST_DIGITS} digits, not {arg.value:,}"
        raise SqlError(f"{message}: no number has more digits", where=place(node), hint="Write ROUND(value, 2).")
    if name != "timestamp_micros" and not -(2**31) <= arg.value < 2**31:
        message = f"{name.upper()} takes a number from -2^31 to 2^31 - 1 as argument {number + 1}, not {arg.value:,}"
        raise SqlError(message, where=place(node), hint="Write a smaller number; no text is longer than that.")


def _repeated(name: str, args: Sequence[Scalar]) -> int:
    """Return how often nested REPEATs copy the innermost text."""
    times = next((arg.value for arg in args[1:] if isinstance(arg, Literal) and isinstance(arg.value, int)), 1)
    inner = [_repeated(part.name, part.args) for part in args if isinstance(part, Call)]
    return (max(times, 1) if name == "repeat" else 1) * max(inner, default=1)


def unknown_function(name: str, node: exp.Expr, scope: Scope) -> SqlError:
    """Return the error for an unsupported function, with the reason."""
    shown = f"{name.upper()}()"
    if name == WINDOW:
        return refuse(f"{shown} here", node, "the moving window of a view belongs in GROUP BY")
    if name == TIME_WINDOW:
        error = refuse(f"{shown} here", node, "a window of time belongs in a select list, GROUP BY or HAVING")
        return scope.consequence(error, TIME_WINDOW)
    if name == "session_window":
        reason = "the end of a session depends on the rows that come later"
        return refuse(shown, node, reason, advice(name))
    if name in REFUSED_AGGREGATES:
        return refuse(shown, node, *REFUSED_AGGREGATES[name])
    if name in WINDOWS:
        return refuse(shown, node, "it needs OVER", advice(name))
    if name in VOLATILE:
        return refuse(
            shown,
            node,
            "the function returns a different value at every call, so Weft cannot determine which answers are new",
            advice(name),
        )
    if name in REACHING_OUT:
        return refuse(shown, node, "the function can run code outside the query")
    if name in EXPANDING:
        return refuse(shown, node, "the function can make a short row grow to any size")
    hint = advice(name) or suggestion(name, FUNCTIONS, "functions", 0.75)
    return refuse(shown, node, "Weft does not support this function", hint)


def _rounded(type: DataType, args: list[Scalar]) -> DataType:
    digits = args[1].value if len(args) > 1 and isinstance(args[1], Literal) else 0
    return rounded_decimal(type, digits if isinstance(digits, int) else 0) if type.name == "DECIMAL" else type


def _regular(name: str, args: list[Scalar], node: exp.Expr) -> None:
    constants = [arg.value for arg in args[1:] if isinstance(arg, Literal)]
    groups = check_pattern(str(constants[0]), node)
    if name == "regexp_replace":
        check_replacement(str(constants[1]), groups, node)
    if name == "regexp_extract":
        wanted = constants[1] if len(constants) > 1 else 1
        if not isinstance(wanted, int) or not 0 <= wanted <= groups:
            raise SqlError(
                f"REGEXP_EXTRACT refers to group {wanted!r}, but {constants[0]!r} has {groups}",
                where=place(node),
                hint="Name a group of the pattern: group 0 is the whole match, and group 1 is the default.",
            )


PERIOD_FUNCTIONS: Final[dict[str, tuple[int, DataType]]] = {
    "period_start": (1, TIMESTAMP),
    "period_end": (1, TIMESTAMP),
    "period_length": (1, INTERVAL),
    "period_contains": (2, BOOLEAN),
    "period_overlaps": (2, BOOLEAN),
}
"""The number of arguments (aliases) and the result type of each period function."""


def for_views_only(scope: Scope) -> str:
    """Return a hint for a construct that only views accept.

    If all tables of the text are tracked, the hint suggests a view.
    """
    text, other = scope.context.text, scope.context.other()
    if other is not None and other != NOT_TODAY:
        return other
    if text is not None and other is None:
        return (
            f'Create a view, and read the view when you need its rows: {viewed(text)}, then weft try "SELECT '
            '* FROM NAME". A standing query over the view is not supported today.'
        )
    return f"{NOT_TODAY} Only tracked tables record periods; rows of other tables have only ts."


def period_call(name: str, node: exp.Anonymous, scope: Scope) -> Scalar:
    """Translate a call of a period function.

    Raise SqlError outside views, or if an argument is not an alias of FROM.
    """
    if not scope.context.view:
        reason = "only the rows of views have several periods; in a standing query, a row is valid from its ts on"
        raise refuse(f"{name.upper()}()", node, reason, for_views_only(scope))
    wanted, type = PERIOD_FUNCTIONS[name]
    if len(node.expressions) != wanted:
        raise SqlError(f"{name.upper()} takes {wanted} alias{'es' * (wanted > 1)} of FROM", where=place(node))
    return Call(name, tuple(_period_of(name, part, scope) for part in node.expressions), type)


def _period_of(name: str, node: exp.Expr, scope: Scope) -> PeriodOf:
    plain = isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not node.table
    variables = scope.visible_variables()
    variable = variables.get(node.name.lower()) if plain else None
    if variable is None:
        message = f"{name.upper()} takes an alias of FROM, not {node.sql('spark')}"
        error = SqlError(message, where=place(node), hint=suggestion(node.name, variables, "aliases"))
        raise scope.consequence(error, node.name.lower())
    period = PeriodOf(attributes(variable.relation)[0].scan)
    if scope.in_outer_join(period.scan):
        reason = "a row of an outer join may have no row of this table"
        hint = "Write the condition in ON, or in a derived table: FROM (SELECT … WHERE …) AS d."
        raise refuse(f"{name.upper()}({node.name})", node, reason, hint)
    return period


def mentions_period(scalar: Scalar) -> bool:
    """Return whether the scalar contains a call of a period function."""
    return isinstance(scalar, PeriodOf) or any(map(mentions_period, children(scalar)))
