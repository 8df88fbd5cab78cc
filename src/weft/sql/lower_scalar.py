"""AST -> scalar expressions, typed.  What has no rule here is refused: this dispatch *is* the allow-list."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from sqlglot import exp

from weft.algebra.scalar import Call, Case, Cast, Literal, Now, Scalar
from weft.algebra.schema import BOOLEAN, DATE, INT, INTERVAL, NULL, STRING, TIMESTAMP, DataType
from weft.errors import SqlError
from weft.sql import literals
from weft.sql.conversion import as_time, comparable, converted, typed
from weft.sql.functions import (
    AGGREGATES,
    EXPANDING,
    FUNCTIONS,
    REACHING_OUT,
    VOLATILE,
    WINDOWS,
    arithmetic,
    castable,
    common,
    fits,
)
from weft.sql.parse import place
from weft.sql.refusal import only, refuse, spaced
from weft.sql.scope import Scope, suggestion

NOW_NAMES: Final = frozenset(("now", "current_timestamp", "getdate", "localtimestamp"))
COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_SUBQUERIES: Final = (exp.Subquery, exp.Select, exp.Exists, exp.Any, exp.All)


def lower_scalar(node: exp.Expr, scope: Scope) -> Scalar:
    """The scalar expression that ``node`` means; raises SqlError for what is not in the language."""
    only_known_parts(node)
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, scope)
    if type(node) in COMPARISONS:
        return lower_comparison(node, scope)
    if type(node) in _ARITHMETIC:
        return _arithmetic(_ARITHMETIC[type(node)], node, scope)
    if isinstance(node, _SUBQUERIES):
        raise refuse("a subquery used as a value", node, "only [NOT] EXISTS and [NOT] IN take a subquery for now")
    if isinstance(node, exp.Concat):
        raise refuse(
            "one string right after another",
            node,
            "it could mean a quote, or both strings joined",
            "Write \\' for a quote within a string.",
        )
    raise refuse(_name(node), node, "it is outside the language of standing queries")


def only_known_parts(node: exp.Expr) -> None:
    """Refuses a node of the language that has a part which no rule reads: a part that is passed over changes the
    meaning."""
    if type(node) in _RULES or type(node) in COMPARISONS or type(node) in _ARITHMETIC:
        only(node, *_PARTS.get(type(node), ("this", "expression")))


def _name(node: exp.Expr) -> str:
    if isinstance(node, (exp.QueryTransform, exp.Parameter, exp.Placeholder)):
        return "TRANSFORM … USING" if isinstance(node, exp.QueryTransform) else "a parameter mark"
    return node.sql_name() if isinstance(node, exp.Func) else spaced(node)


def _column(node: exp.Column, scope: Scope) -> Scalar:
    return scope.resolve(node)


def _literal(node: exp.Literal, scope: Scope) -> Scalar:
    return Literal(node.name, STRING) if node.is_string else literals.number(node)


def _paren(node: exp.Paren, scope: Scope) -> Scalar:
    return lower_scalar(node.this, scope)


def _negative(node: exp.Neg, scope: Scope) -> Scalar:
    value = lower_scalar(node.this, scope)
    if not (value.type.numeric or value.type == INTERVAL):
        raise SqlError(f"- takes a number, not {value.type}", where=place(node))
    if isinstance(value, Literal) and isinstance(value.value, (int, float, Decimal)):
        return Literal(-value.value, value.type)
    return Call("negative", (value,), value.type)


def _logical(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    def lower(node: exp.Expr, scope: Scope) -> Scalar:
        return Call(name, tuple(lower_boolean(part, scope) for part in node.flatten()), BOOLEAN)

    return lower


def _distinct(node: exp.NullSafeNEQ, scope: Scope) -> Scalar:
    same = exp.NullSafeEQ(this=node.this, expression=node.expression)
    return Call("not", (lower_comparison(same, scope),), BOOLEAN)


def _not(node: exp.Not, scope: Scope) -> Scalar:
    return Call("not", (lower_boolean(node.this, scope),), BOOLEAN)


def lower_boolean(node: exp.Expr, scope: Scope) -> Scalar:
    """A condition; raises SqlError for what is not one."""
    value = lower_scalar(node, scope)
    if value.type not in (BOOLEAN, NULL):
        raise SqlError(f"a condition is wanted, {node.sql('spark')} is {value.type}", where=place(node))
    return typed(value, BOOLEAN)


def _is(node: exp.Is, scope: Scope) -> Scalar:
    value, what = lower_scalar(node.this, scope), node.expression
    if isinstance(what, exp.Null):
        return Call("is null", (value,), BOOLEAN)
    if isinstance(what, exp.Boolean) and value.type == BOOLEAN:
        return Call("<=>", (value, Literal(bool(what.this), BOOLEAN, fixed=True)), BOOLEAN)
    raise refuse(node.sql("spark"), node, "IS takes NULL, TRUE or FALSE")


def lower_comparison(node: exp.Expr, scope: Scope) -> Call:
    """A comparison with both sides brought to one type."""
    left, right = lower_scalar(node.this, scope), lower_scalar(node.expression, scope)
    return Call(COMPARISONS[type(node)], comparable(left, right, node), BOOLEAN)


def _arithmetic(operator: str, node: exp.Expr, scope: Scope) -> Scalar:
    left, right = lower_scalar(node.this, scope), lower_scalar(node.expression, scope)
    timely = _time_arithmetic(operator, left, right, node)
    if timely is not None:
        return timely
    if not (left.type.numeric or left.type == NULL) or not (right.type.numeric or right.type == NULL):
        raise SqlError(
            f"{left.type} {operator} {right.type} has no meaning", where=place(node), hint="Convert with CAST(… AS …)."
        )
    return Call(operator, (left, right), arithmetic(operator, left.type, right.type))


def _time_arithmetic(operator: str, left: Scalar, right: Scalar, node: exp.Expr) -> Scalar | None:
    times = (TIMESTAMP, DATE)
    if operator in "+-" and left.type in times and right.type == INTERVAL:
        return Call(operator, (converted(left, TIMESTAMP), right), TIMESTAMP)
    if operator == "+" and left.type == INTERVAL and right.type in times:
        return Call("+", (converted(right, TIMESTAMP), left), TIMESTAMP)
    if operator == "-" and left.type in times and right.type in times:
        return Call("-", (converted(left, TIMESTAMP), converted(right, TIMESTAMP)), INTERVAL)
    if operator in "+-" and left.type == right.type == INTERVAL:
        return Call(operator, (left, right), INTERVAL)
    if operator == "*" and INTERVAL in (left.type, right.type) and (left.type.numeric or right.type.numeric):
        number, span = (left, right) if right.type == INTERVAL else (right, left)
        if isinstance(number, Literal) and isinstance(span, Literal) and isinstance(number.value, int):
            assert isinstance(span.value, int)
            return literals.length(number.value * span.value, node)
        return Call("*", (span, number), INTERVAL)
    return None


def _concat(node: exp.DPipe, scope: Scope) -> Scalar:
    parts = tuple(lower_scalar(part, scope) for part in node.flatten())
    if not all(fits(part.type, "TEXT") for part in parts):
        raise SqlError("|| joins strings", where=place(node))
    return Call("concat", parts, STRING)


def _cast(node: exp.Cast, scope: Scope) -> Scalar:
    value = lower_scalar(node.this, scope)
    target = _type(node.to)
    if isinstance(value, Literal) and value.type == STRING and target in (TIMESTAMP, DATE):
        return converted(as_time(value, target, node), target)
    if value.type == INTERVAL or target == INTERVAL:
        raise refuse(node.sql("spark"), node, "intervals are not converted")
    if not castable(value.type, target):
        raise refuse(node.sql("spark"), node, f"{value.type} is never converted to {target}")
    return Cast(value, target)


def _type(node: exp.Expr) -> DataType:
    text = node.sql("spark")
    try:
        found = DataType.parse({"TIMESTAMP_NTZ": "TIMESTAMP", "TIMESTAMP_LTZ": "TIMESTAMP"}.get(text.upper(), text))
    except ValueError:
        raise refuse(f"the type {text}", node, "Weft stores plain scalar types") from None
    if found in (NULL, INTERVAL):
        raise refuse(f"the type {text}", node, "nothing can be converted to it")
    if found.name == "DECIMAL":
        literals.decimal(found.precision or 0, found.scale or 0, node)
    return found


def _case(node: exp.Case, scope: Scope) -> Scalar:
    subject = node.this
    conditions, values = [], []
    for branch in node.args["ifs"]:
        test = exp.EQ(this=subject.copy(), expression=branch.this) if subject is not None else branch.this
        conditions.append(lower_boolean(test, scope))
        values.append(lower_scalar(branch.args["true"], scope))
    default = node.args.get("default")
    otherwise = lower_scalar(default, scope) if default is not None else None
    type = _common([v.type for v in values] + ([otherwise.type] if otherwise else []), node)
    pairs = tuple((c, converted(v, type)) for c, v in zip(conditions, values, strict=True))
    return Case(pairs, converted(otherwise, type) if otherwise else None, type)


def _if(node: exp.If, scope: Scope) -> Scalar:
    """IF(condition, then, otherwise) is a CASE of one branch."""
    return _case(exp.Case(ifs=[node], default=node.args.get("false")), scope)


def _common(types: list[DataType], node: exp.Expr) -> DataType:
    try:
        return common(types)
    except TypeError as error:
        raise SqlError(f"{error} have no common type", where=place(node), hint="Use CAST(… AS …).") from None


def _like(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    def lower(node: exp.Expr, scope: Scope) -> Scalar:
        if isinstance(node.expression, (exp.Any, exp.All)):
            raise refuse(f"{name.upper()} ANY or ALL", node, "write the patterns one by one with OR or AND")
        parts = (lower_scalar(node.this, scope), lower_scalar(node.expression, scope))
        if any(part.type not in (STRING, NULL) for part in parts):
            raise SqlError(f"{name.upper()} compares strings", where=place(node))
        if name == "regexp_like":
            _constant(name, 1, parts[1], "STRING", node)
        elif isinstance(parts[1], Literal):
            literals.pattern(str(parts[1].value), node)
        like = Call(name, parts, BOOLEAN)
        return Call("not", (like,), BOOLEAN) if node.args.get("negate") else like

    return lower


def _in_list(node: exp.In, scope: Scope) -> Scalar:
    value = lower_scalar(node.this, scope)
    pairs = [comparable(value, lower_scalar(item, scope), node) for item in listed(node)]
    if len({left for left, _ in pairs}) > 1:  # each is compared in a type of its own
        return Call("or", tuple(Call("=", pair, BOOLEAN) for pair in pairs), BOOLEAN)
    return Call("in", (pairs[0][0], *(right for _, right in pairs)), BOOLEAN)


def listed(node: exp.In) -> list[exp.Expr]:
    """What IN compares with; raises SqlError for a subquery, which is no value, and for an empty list."""
    if node.args.get("query") is not None:
        raise refuse(
            "IN (SELECT …) used as a value", node, "it is a condition of WHERE or ON, with AND, OR, NOT around it"
        )
    if not node.expressions:
        raise SqlError("IN takes at least one value", where=place(node))
    return list(node.expressions)


def _between(node: exp.Between, scope: Scope) -> Scalar:
    value = lower_scalar(node.this, scope)
    low = comparable(value, lower_scalar(node.args["low"], scope), node)
    high = comparable(value, lower_scalar(node.args["high"], scope), node)
    return Call("and", (Call(">=", low, BOOLEAN), Call("<=", high, BOOLEAN)), BOOLEAN)


def _extract(node: exp.Extract, scope: Scope) -> Scalar:
    name = node.this.name.lower()
    if name not in FUNCTIONS or FUNCTIONS[name].takes != ("TIME",) or FUNCTIONS[name].result([]) != INT:
        raise refuse(f"EXTRACT({name.upper()} …)", node, "it is not on the list of functions")
    return _apply(name, [lower_scalar(node.expression, scope)], node)


def _now(node: exp.Expr, scope: Scope) -> Scalar:
    return Now()


def _function(node: exp.Anonymous, scope: Scope) -> Scalar:
    name = str(node.this).lower()
    if not isinstance(node.this, str):
        raise refuse(node.sql("spark"), node, "a function is called by its plain name")
    if name in NOW_NAMES and not node.expressions:
        return Now()
    if name not in FUNCTIONS:
        raise _unknown_function(name, node)
    return _apply(name, [lower_scalar(part, scope) for part in node.expressions], node)


def _unknown_function(name: str, node: exp.Expr) -> SqlError:
    shown = f"{name.upper()}()"
    if name in AGGREGATES:
        return refuse(shown, node, "aggregates come in a later release")
    if name in WINDOWS:
        return refuse(shown, node, "window functions come in a later release")
    if name in VOLATILE:
        return refuse(shown, node, "it gives another value at every call, so no answer could be told to be new")
    if name in REACHING_OUT:
        return refuse(shown, node, "it runs code of the machine that Weft runs on")
    if name in EXPANDING:
        return refuse(shown, node, "it can make a row of any size out of a short one")
    if name in ("current_date", "curdate"):
        return refuse(shown, node, "NOW() rounded to a day comes in a later release", "Compare with NOW() itself.")
    return refuse(shown, node, "it is not on the list of functions", suggestion(name, FUNCTIONS, "functions"))


def _apply(name: str, args: list[Scalar], node: exp.Expr) -> Scalar:
    function = FUNCTIONS[name]
    if not function.least <= len(args) <= function.most:
        wanted = f"{function.least}" if function.least == function.most else f"{function.least} to {function.most}"
        raise SqlError(f"{name.upper()} takes {wanted} arguments, not {len(args)}", where=place(node))
    for number, arg in enumerate(args):
        family = function.takes[min(number, len(function.takes) - 1)]
        if not fits(arg.type, family):
            raise SqlError(f"{name.upper()} takes {family}, not {arg.type}", where=place(node))
        if function.constant is not None and number >= function.constant:
            _constant(name, number, arg, family, node)
    try:
        type = function.result([arg.type for arg in args])
    except TypeError as error:
        raise SqlError(f"{name.upper()}: {error} have no common type", where=place(node)) from None
    return Call(name, tuple(args), type)


def _constant(name: str, number: int, arg: Scalar, family: str, node: exp.Expr) -> None:
    if not isinstance(arg, Literal) or arg.value is None or (family == "INDEX" and arg.value == 0):
        wanted = "a constant other than 0" if family == "INDEX" else "a constant"
        reason = "with what a row may hold there the query would fail"
        raise SqlError(f"{name.upper()} takes {wanted} as argument {number + 1}: {reason}", where=place(node))


_RULES: Final[dict[type[exp.Expr], Callable[..., Scalar]]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: lambda node, scope: Literal(None, NULL),
    exp.Boolean: lambda node, scope: Literal(bool(node.this), BOOLEAN, fixed=True),
    exp.Interval: lambda node, scope: literals.interval(node),
    exp.Paren: _paren,
    exp.Neg: _negative,
    exp.And: _logical("and"),
    exp.Or: _logical("or"),
    exp.Not: _not,
    exp.Is: _is,
    exp.DPipe: _concat,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.RegexpLike: _like("regexp_like"),
    exp.In: _in_list,
    exp.Between: _between,
    exp.NullSafeNEQ: _distinct,
    exp.Extract: _extract,
    exp.CurrentTimestamp: _now,
    exp.Anonymous: _function,
}

_PARTS: Final[dict[type[exp.Expr], tuple[str, ...]]] = {
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Literal: ("this", "is_string"),
    exp.Interval: ("this", "unit"),
    exp.DPipe: ("this", "expression", "safe"),
    exp.Div: ("this", "expression", "safe", "typed"),
    exp.Cast: ("this", "to", "safe", "_type"),
    exp.TryCast: ("this", "to", "safe", "_type"),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Like: ("this", "expression", "negate"),
    exp.ILike: ("this", "expression", "negate"),
    exp.In: ("this", "expressions", "query"),
    exp.Between: ("this", "low", "high"),
    exp.CurrentTimestamp: (),
    exp.Anonymous: ("this", "expressions"),
}
"""The parts of a node that its rule reads; "this" and "expression" where nothing is said."""
