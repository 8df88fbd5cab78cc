"""Translate expressions into typed scalars.

Weft refuses all expressions that this module does not translate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from sqlglot import exp

from weft.algebra.scalar import Call, Case, Literal, Now, Scalar
from weft.algebra.schema import BOOLEAN, INTERVAL, MONTHS, NULL, STRING, DataType
from weft.errors import Reasons, SqlError, of_each
from weft.sql.functions import FUNCTIONS, common, fits
from weft.sql.lower import literals
from weft.sql.lower.aggregate import is_aggregate, lower_aggregate, misplaced
from weft.sql.lower.arithmetic import combined
from weft.sql.lower.calls import PERIOD_FUNCTIONS, apply, extracted, period_call, unknown_function
from weft.sql.lower.conversion import cast, comparable, compared_as_text, converted, typed
from weft.sql.lower.intervals import as_interval
from weft.sql.lower.literals import interval, months
from weft.sql.lower.nested import (
    NESTED_FORMS,
    field_of,
    lower_element,
    lower_field,
    lower_item,
    lower_nested_form,
)
from weft.sql.lower.refusal import only, place, refuse, spaced
from weft.sql.lower.scope import Scope
from weft.sql.lower.times import FORMS, lower_time_form, today
from weft.sql.lower.value import lower_existence, lower_membership, lower_value
from weft.sql.lower.window import lower_window

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


def lower_scalar(node: exp.Expr, scope: Scope) -> Scalar:
    """Translate ``node`` into a scalar.  Raise SqlError for an expression outside the language."""
    only_known_parts(node)
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, scope)
    if type(node) in COMPARISONS:
        return lower_comparison(node, scope)
    if type(node) in _ARITHMETIC:
        return _arithmetic(_ARITHMETIC[type(node)], node, scope)
    if is_aggregate(node):
        return _aggregate(node, scope)
    if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
        return lower_value(node, scope)
    if isinstance(node, exp.Exists):
        return lower_existence(node.this, scope)
    if isinstance(node, (exp.Any, exp.All)):
        what, hint = (
            "ANY or ALL of a subquery used as a value",
            "For x > ANY (SELECT y …) write EXISTS (SELECT 1 … WHERE x > y).",
        )
        raise refuse(what, node, "it must be a condition of WHERE, ON or HAVING", hint)
    if isinstance(node, exp.Window):
        return lower_window(node, scope, lower_scalar)
    if isinstance(node, exp.Concat):
        raise refuse(
            "a string directly after another string",
            node,
            "the two strings could mean a string with a quote, or a concatenation",
            "Write \\' for a quote within a string.",
        )
    raise refuse(_name(node), node, "standing queries do not support it")


def lower_each(nodes: Iterable[exp.Expr], scope: Scope) -> list[Scalar]:
    """Translate ``nodes`` into scalars.  If several nodes are invalid, raise one SqlError with all errors."""
    reasons, scalars = Reasons(), []  # no helper function, to keep the stack shallow for deep expressions
    for node in nodes:
        try:
            scalars.append(lower_scalar(node, scope))
        except SqlError as error:
            reasons.add(error)
    reasons.check()
    return scalars


def only_known_parts(node: exp.Expr) -> None:
    """Raise SqlError if a node has a part that no rule reads.  Ignoring such a part would change the meaning."""
    if type(node) in _RULES or type(node) in COMPARISONS or type(node) in _ARITHMETIC:
        only(node, *_PARTS.get(type(node), ("this", "expression")))


def _name(node: exp.Expr) -> str:
    name = spaced(node)
    return node.sql_name() if isinstance(node, exp.Func) and name == name.upper() and name.isalpha() else name


def _column(node: exp.Column, scope: Scope) -> Scalar:
    first, *fields = node.parts
    value: Scalar | None = scope.element(first.name)
    if value is None:
        value, fields = scope.path(node)
        value = as_interval(value)
    for field in fields:
        value = field_of(value, field.name, node)
    return value


def _literal(node: exp.Literal, scope: Scope) -> Scalar:
    if not node.is_string:
        return literals.number(node)
    text, start = scope.context.text or "", node.meta.get("start")
    quoted = isinstance(start, int) and text[start : start + 1] == '"'
    if quoted and any(variable.find(node.name) for variable in scope.visible_variables().values()):
        raise refuse(
            f'"{node.name}"',
            node,
            "Spark reads a text in double quotes as a string, and FROM has a column of this name",
            f"Write `{node.name}` for the column, or '{node.name}' for the string.",
        )
    return Literal(node.name, STRING)


def _paren(node: exp.Paren, scope: Scope) -> Scalar:
    return lower_scalar(node.this, scope)


def _negative(node: exp.Neg, scope: Scope) -> Scalar:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return literals.number(node.this, negative=True)
    value = lower_scalar(node.this, scope)
    if not (value.type.numeric or value.type in (INTERVAL, MONTHS)):
        raise SqlError(f"- takes a number, not {value.type}", where=place(node))
    if isinstance(value, Literal) and value.type in (INTERVAL, MONTHS) and isinstance(value.value, int):
        return Literal(-value.value, value.type)
    return Call("negative", (value,), value.type)


def _logical(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    def lower(node: exp.Expr, scope: Scope) -> Scalar:
        return Call(name, tuple(of_each(lambda part: lower_boolean(part, scope), node.flatten())), BOOLEAN)

    return lower


def _distinct(node: exp.NullSafeNEQ, scope: Scope) -> Scalar:
    same = exp.NullSafeEQ(this=node.this, expression=node.expression)
    return Call("not", (lower_comparison(same, scope),), BOOLEAN)


def _not(node: exp.Not, scope: Scope) -> Scalar:
    return Call("not", (lower_boolean(node.this, scope),), BOOLEAN)


def lower_boolean(node: exp.Expr, scope: Scope) -> Scalar:
    """Translate a condition into a scalar.  Raise SqlError if the type is not BOOLEAN."""
    value = lower_scalar(node, scope)
    if value.type not in (BOOLEAN, NULL):
        raise SqlError(f"expected a condition, but {node.sql('spark')} is {value.type}", where=place(node))
    return typed(value, BOOLEAN)


def _is(node: exp.Is, scope: Scope) -> Scalar:
    value, test = lower_scalar(node.this, scope), node.expression
    if isinstance(test, exp.Null):
        return Call("is null", (value,), BOOLEAN)
    if isinstance(test, exp.Boolean) and value.type == BOOLEAN:
        return Call("<=>", (value, Literal(bool(test.this), BOOLEAN, fixed=True)), BOOLEAN)
    raise refuse(node.sql("spark"), node, "IS takes NULL, TRUE or FALSE")


def lower_comparison(node: exp.Expr, scope: Scope) -> Call:
    """Translate a comparison, and convert both sides to comparable types."""
    left, right = lower_each((node.this, node.expression), scope)
    return Call(COMPARISONS[type(node)], comparable(left, right, node), BOOLEAN)


def _arithmetic(operator: str, node: exp.Expr, scope: Scope) -> Scalar:
    left, right = lower_each((node.this, node.expression), scope)
    return combined(operator, left, right, node)


def _concat(node: exp.DPipe, scope: Scope) -> Scalar:
    parts = tuple(lower_each(node.flatten(), scope))
    if not all(fits(part.type, "TEXT") for part in parts):
        raise SqlError("|| takes strings", where=place(node))
    return Call("concat", parts, STRING)


def _cast(node: exp.Cast, scope: Scope) -> Scalar:
    return cast(lower_scalar(node.this, scope), node)


def _case(node: exp.Case, scope: Scope) -> Scalar:
    subject = node.this
    conditions, values = [], []
    default, otherwise = node.args.get("default"), None
    reasons = Reasons()
    for branch in node.args["ifs"]:
        test = exp.EQ(this=subject.copy(), expression=branch.this) if subject is not None else branch.this
        with reasons.part():
            if isinstance(test.unnest(), exp.Null):
                raise refuse("CASE WHEN NULL", test, "Spark requires a condition", "Write FALSE.")
            conditions.append(lower_boolean(test, scope))
        with reasons.part():
            values.append(lower_scalar(branch.args["true"], scope))
    with reasons.part():
        otherwise = lower_scalar(default, scope) if default is not None else None
    reasons.check()
    type = _common([v.type for v in values] + ([otherwise.type] if otherwise else []), node)
    pairs = tuple((c, converted(v, type)) for c, v in zip(conditions, values, strict=True))
    return Case(pairs, converted(otherwise, type) if otherwise else None, type)


def _if(node: exp.If, scope: Scope) -> Scalar:
    if isinstance(node.this.unnest(), exp.Null):
        node.this.replace(exp.false())
    return _case(exp.Case(ifs=[node], default=node.args.get("false")), scope)


def _common(types: list[DataType], node: exp.Expr) -> DataType:
    try:
        return common(types)
    except TypeError as error:
        raise SqlError(f"{error} have no common type", where=place(node), hint="Use CAST(… AS …).") from None


def _like(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    def lower(node: exp.Expr, scope: Scope) -> Scalar:
        if isinstance(node.expression, (exp.Any, exp.All)):
            hint = "Write the patterns one by one with OR or AND."
            raise refuse(f"{name.upper()} ANY or ALL", node, "Weft does not support it", hint)
        value, pattern = lower_scalar(node.this, scope), lower_scalar(node.expression, scope)
        if any(part.type not in (STRING, NULL) for part in (value, pattern)):
            raise SqlError(f"{name.upper()} takes strings", where=place(node))
        like: Scalar = Call(name, (value, pattern), BOOLEAN)
        if name == "regexp_like":
            like = apply(name, [value, pattern], node)
        elif not isinstance(pattern, Literal):
            like = Case(((_is_pattern(pattern), like),), None, BOOLEAN)
        elif pattern.value is not None:
            literals.pattern(str(pattern.value), node)
        return Call("not", (like,), BOOLEAN) if node.args.get("negate") else like

    return lower


def _escaped(node: exp.Escape, scope: Scope) -> Scalar:
    r"""Translate LIKE with an escape character into a LIKE that uses the backslash."""
    like = node.this
    if not isinstance(like, (exp.Like, exp.ILike)):
        raise refuse("ESCAPE", node, "it belongs to LIKE and ILIKE")
    pattern, character = lower_scalar(like.expression, scope), lower_scalar(node.expression, scope)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise refuse("ESCAPE", node, "its pattern must be a constant")
    if not isinstance(character, Literal) or not isinstance(character.value, str) or len(character.value) != 1:
        raise refuse("ESCAPE", node, "it takes one character, as in ESCAPE '!'")
    plain = like.copy()
    plain.set("expression", exp.Literal.string(literals.escaped_by_backslash(pattern.value, character.value, node)))
    return lower_scalar(plain, scope)


def _is_pattern(pattern: Scalar) -> Scalar:
    r"""Return the condition that every backslash of a pattern precedes %, _ or a backslash.

    Spark fails at run time for any other pattern.
    """
    rest = pattern
    for escape in ("\\\\", "\\%", "\\_"):  # \\ first, so that what remains of a run of them is an odd one
        rest = Call("replace", (rest, Literal(escape, STRING, fixed=True), Literal("", STRING, fixed=True)), STRING)
    return Call("not", (Call("contains", (rest, Literal("\\", STRING, fixed=True)), BOOLEAN),), BOOLEAN)


def _in(node: exp.In, scope: Scope) -> Scalar:
    if node.args.get("query") is not None:
        return lower_membership(node, scope, lower_scalar)
    value, *items = lower_each((node.this, *listed(node)), scope)
    compared_as_text([value, *items], node)
    pairs = [comparable(value, item, node) for item in items]
    if len({left for left, _ in pairs}) > 1:  # each pair is compared in its own type
        return Call("or", tuple(Call("=", pair, BOOLEAN) for pair in pairs), BOOLEAN)
    return Call("in", (pairs[0][0], *(right for _, right in pairs)), BOOLEAN)


def listed(node: exp.In) -> list[exp.Expr]:
    """Return the values of IN.  Raise SqlError for a subquery or an empty list."""
    if node.args.get("query") is not None:
        raise refuse(
            "IN (SELECT …) used as a value",
            node,
            "it must be a condition of WHERE or ON, within AND, OR and NOT",
            "Write EXISTS (SELECT 1 FROM t WHERE t.y = x), which may be a value.",
        )
    if not node.expressions:
        raise SqlError(
            "IN takes at least one value", where=place(node), hint="Write IN (1, 2), or remove the condition."
        )
    return list(node.expressions)


def _between(node: exp.Between, scope: Scope) -> Scalar:
    value, least, most = lower_each((node.this, node.args["low"], node.args["high"]), scope)
    low, high = comparable(value, least, node), comparable(value, most, node)
    return Call("and", (Call(">=", low, BOOLEAN), Call("<=", high, BOOLEAN)), BOOLEAN)


def _extract(node: exp.Extract, scope: Scope) -> Scalar:
    return extracted(node.this.name.upper(), lower_scalar(node.expression, scope), node)


def _interval(node: exp.Interval, scope: Scope) -> Scalar:
    """The number of months is fixed in a standing query, so it does not become a parameter of a plan."""
    of_months = months(node)
    return interval(node) if of_months is None else replace(of_months, fixed=not scope.context.view)


def _now(node: exp.Expr, scope: Scope) -> Scalar:
    return Now()


def _function(node: exp.Anonymous, scope: Scope) -> Scalar:
    name = str(node.this).lower()
    if not isinstance(node.this, str):
        raise refuse(node.sql("spark"), node, "a function must be called by its plain name")
    if name in NOW_NAMES and not node.expressions:
        return Now()
    if name in PERIOD_FUNCTIONS:
        return period_call(name, node, scope)
    if is_aggregate(node):
        return _aggregate(node, scope)
    if node in scope.time_windows:
        return scope.time_windows[node]
    if name in FORMS:
        return lower_time_form(name, node, lambda part: lower_scalar(part, scope))
    if name in NESTED_FORMS:
        return lower_nested_form(name, node, scope, lower_scalar)
    if name not in FUNCTIONS:
        raise unknown_function(name, node, scope)
    return apply(name, lower_each(node.expressions, scope), node)


def _aggregate(node: exp.Expr, scope: Scope) -> Scalar:
    if scope.grouping is None:
        raise misplaced(node)
    return lower_aggregate(node, scope, scope.grouping, lower_scalar)


_RULES: Final[dict[type[exp.Expr], Callable[..., Scalar]]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: lambda node, scope: Literal(None, NULL),
    exp.Boolean: lambda node, scope: Literal(bool(node.this), BOOLEAN, fixed=True),
    exp.Interval: _interval,
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
    exp.Escape: _escaped,
    exp.In: _in,
    exp.Between: _between,
    exp.NullSafeNEQ: _distinct,
    exp.Extract: _extract,
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: lambda node, scope: today(),
    exp.Bracket: lambda node, scope: lower_item(node, scope, lower_scalar),
    exp.Dot: lambda node, scope: lower_field(node, scope, lower_scalar),
    exp.Identifier: lambda node, scope: lower_element(node, scope),
    exp.Anonymous: _function,
    exp.Filter: _aggregate,
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
    exp.CurrentDate: (),
    exp.Bracket: ("this", "expressions", "offset", "safe"),
    exp.Identifier: ("this", "quoted"),
    exp.Anonymous: ("this", "expressions"),
}
"""The arguments that the translation of a node reads, for each node class.  The default is "this" and "expression"."""
