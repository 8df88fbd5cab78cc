"""Refuse a text if the parser groups its operators differently from Spark.

The parser and Spark assign different precedences (Spark 4.1, ``booleanExpression`` and ``valueExpression``).  In the
parser, IN, BETWEEN, LIKE and IS bind more tightly than comparisons, ``=`` binds less tightly than ``<``, and ``||``
binds less tightly than ``+``.  The parser also accepts NOT as an operand.

If Spark's grammar allows every operand without parentheses, Spark builds the same tree as the parser.  Otherwise the
trees may differ, and the text needs parentheses.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.lower.refusal import place

WRITTEN: Final = "weft_written"
"""The metadata key for parentheses that occur in the text."""
_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _SUM, _PRODUCT, _SIGN, _PRIMARY = range(9)
"""The precedence levels in Spark's grammar, from the loosest to the tightest."""

_BINARY: Final[dict[type[exp.Expr], int]] = {
    exp.Or: _OR,
    exp.And: _AND,
    exp.EQ: _COMPARISON,
    exp.NEQ: _COMPARISON,
    exp.LT: _COMPARISON,
    exp.LTE: _COMPARISON,
    exp.GT: _COMPARISON,
    exp.GTE: _COMPARISON,
    exp.Add: _SUM,
    exp.Sub: _SUM,
    exp.DPipe: _SUM,
    exp.Mul: _PRODUCT,
    exp.Div: _PRODUCT,
    exp.Mod: _PRODUCT,
}
_PREDICATES: Final = (
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.RegexpLike,
    exp.Escape,
    exp.Is,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
_BOUNDS: Final = ("this", "expression", "low", "high")
"""The unbracketed arguments of a predicate."""


def check_precedence(statement: exp.Expr) -> None:
    """Raise SqlError with the place in the text if Spark would group the operators differently."""
    for node in statement.walk():
        level = _level(node)
        if level == _PRIMARY:
            continue
        if isinstance(node, _PREDICATES):
            least = dict.fromkeys(_BOUNDS, _COMPARISON)
            if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):  # the forms that both read alike
                least = {"this": _SUM, "expression": _SUM}
            elif isinstance(node, exp.Escape):  # part of the preceding LIKE
                least = {}
        elif isinstance(node, (exp.Not, exp.Neg)):
            least = {"this": level}
        else:
            least = {"this": level, "expression": level + (level > _AND)}
        for key, lowest in least.items():
            operand = node.args.get(key)
            if isinstance(operand, exp.Expr) and _level(operand) < lowest and not _one_interval(operand):
                raise _ambiguous(node, operand)


def _level(node: exp.Expr) -> int:
    if isinstance(node, exp.Paren) and not node.meta.get(WRITTEN):
        return _level(node.this)
    if isinstance(node, exp.Not):
        return _PREDICATE if isinstance(node.this, _PREDICATES) else _NOT
    if isinstance(node, _PREDICATES):
        return _PREDICATE
    if isinstance(node, exp.Neg):
        return _SIGN
    return _BINARY.get(type(node), _PRIMARY)


def _one_interval(node: exp.Expr) -> bool:
    """The parser returns ``INTERVAL 1 DAY 2 HOURS`` as a sum of two intervals."""
    if isinstance(node, exp.Add):
        return _one_interval(node.this) and _one_interval(node.expression)
    return isinstance(node, exp.Interval)


def _ambiguous(node: exp.Expr, operand: exp.Expr) -> SqlError:
    return SqlError(
        f"{_sign(operand)} next to {_sign(node)} is ambiguous: Spark groups {node.sql('spark')} differently",
        where=place(operand) or place(node),
        hint=f"Add parentheses, for example ({operand.sql('spark')}).",
    )


_SIGNS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Neg: "-",
    exp.DPipe: "||",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def _sign(node: exp.Expr) -> str:
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Not) and _level(node) == _PREDICATE):
        node = node.this
    return _SIGNS.get(type(node), type(node).__name__.upper())
