"""Literals lifted into parameters: queries of one shape share one plan (design section 5; NiagaraCQ's signatures)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weft.algebra.relation import Query, map_relation
from weft.algebra.scalar import Call, Literal, Param, Scalar, children, with_children
from weft.algebra.schema import BOOLEAN, INTERVAL, NULL

LIFTED_FROM: Final = frozenset(
    ("=", "<>", "<", "<=", ">", ">=", "<=>", "in", "like", "ilike", "startswith", "endswith", "contains")
)
"""Operators whose constant operands are lifted.  Those of other functions stay: some of them must be constants to
Spark (ROUND's digits), and they rarely are what tells one user's query from another's."""
_THROUGH: Final = frozenset(("+", "-", "*", "and", "or", "not"))


@dataclass(frozen=True)
class Lifted:
    """A query without its constants, and the constants: ``values[i]`` belongs to the parameter ``p{i+1}``."""

    query: Query
    values: tuple[Literal, ...]


def lift(query: Query) -> Lifted:
    """Takes the constants of conditions and thresholds out of ``query``, in the order of the text.

    Constants of the select list stay: they are part of what the answer looks like.
    """
    values: list[Literal] = []

    def change(scalar: Scalar) -> Scalar:
        return _lift_operand(scalar, values)

    return Lifted(Query(map_relation(query.input, change), query.outputs), tuple(values))


def _lift(scalar: Scalar, values: list[Literal]) -> Scalar:
    if not isinstance(scalar, Call) or scalar.name not in LIFTED_FROM | _THROUGH:
        parts = children(scalar)
        below = tuple(_lift(part, values) if isinstance(part, Call) else part for part in parts)
        return with_children(scalar, below) if parts else scalar
    parts = tuple(_lift_operand(part, values) for part in scalar.args)
    return Call(scalar.name, parts, scalar.type)


def _lift_operand(operand: Scalar, values: list[Literal]) -> Scalar:
    if not isinstance(operand, Literal):
        return _lift(operand, values)
    if operand.fixed or operand.type in (NULL, BOOLEAN):
        return operand
    values.append(operand)
    sign = None
    if operand.type == INTERVAL and isinstance(operand.value, int):
        sign = (operand.value > 0) - (operand.value < 0)
    return Param(f"p{len(values)}", operand.type, sign)


def bind_params(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """``scalar`` with every parameter that ``values`` names replaced by its value."""
    if isinstance(scalar, Param):
        return values.get(scalar.name, scalar)
    parts = children(scalar)
    return with_children(scalar, tuple(bind_params(part, values) for part in parts)) if parts else scalar
