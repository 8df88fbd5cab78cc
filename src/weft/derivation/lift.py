"""Replace constants by parameters, so that queries of one shape share one plan (design section 5).

NiagaraCQ calls the shape of a query its expression signature.

Proof: proofs/Parameters.v: lift_rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, cast

from weft.algebra.relation import Project, Query, Relation, Scan, StateSchema, Values
from weft.algebra.scalar import Call, Literal, Param, Scalar, children, with_children
from weft.algebra.schema import BOOLEAN, INTERVAL, NULL, remembered
from weft.algebra.traverse import N, Node, changed_parts, is_scalar, rebuild, transform
from weft.algebra.traverse import children as parts_of
from weft.derivation.stateful import state_of

LIFTED_FROM: Final = frozenset(
    ("=", "<>", "<", "<=", ">", ">=", "<=>", "in", "like", "ilike", "startswith", "endswith", "contains")
)
"""The operators whose constant operands become parameters.

Constant arguments of other functions remain, because some functions, such as ROUND, require constants. Constant
arguments also rarely distinguish the queries of two users.
"""
_THROUGH: Final = frozenset(("+", "-", "*", "and", "or", "not"))


@dataclass(frozen=True)
class Lifted:
    """A query with parameters, where ``values[i]`` is the value of the parameter ``p{i+1}``."""

    query: Query
    values: tuple[Literal, ...]


def lift(query: Query) -> Lifted:
    """Replace the constants in conditions and thresholds by parameters.

    The numbers of the parameters follow the order of the text.  Constants in select lists and in VALUES stay, because
    they are part of the answer.
    """
    values: list[Literal] = []
    relation = _in_conditions(query.input, lambda scalar: _lift_operand(scalar, values))
    return Lifted(Query(relation, query.outputs), tuple(values))


def _in_conditions(node: N, change: Callable[[Scalar], Scalar]) -> N:
    shared: dict[Node, Node] = {}

    def changed(part: Node) -> Node:
        if is_scalar(part):
            return change(cast("Scalar", part))
        if isinstance(part, Project):
            return replace(part, input=cast("Relation", changed(part.input)))
        if isinstance(part, Values):
            return part
        parts = changed_parts(part, parts_of(part), changed, shared)
        return rebuild(part, parts) if parts else part

    return cast("N", changed(node))


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


def bind_params(node: N, values: Mapping[str, Scalar]) -> N:
    """Replace each parameter by its value in ``values``.  Parameters without a value stay unchanged."""
    return _bound(node, tuple(values.items()))


_Values: TypeAlias = tuple[tuple[str, Scalar], ...]


def _bound(node: N, values: _Values) -> N:
    known = dict(values)

    def change(part: Node) -> Node:
        if isinstance(part, Scan) and isinstance(part.table, StateSchema):
            return replace(part, table=_bound_state(part.table, values))
        return known.get(part.name, part) if isinstance(part, Param) else part

    return transform(node, change)


def bound_state(state: StateSchema, values: Mapping[str, Scalar]) -> StateSchema:
    """Replace the parameters of a state, and of the states below it, by their values.

    If ``values`` has the instant ``since``, the window of the state begins at this instant instead of τ.
    """
    return _bound_state(state, tuple(values.items()))


@remembered
def _bound_state(state: StateSchema, values: _Values) -> StateSchema:
    known = dict(values)
    if "since" in known:
        values = tuple((known | {"tau": known["since"]}).items())
    tau, t, t0 = (_bound(each, values) for each in state.window)
    return state_of(_bound(state.operator, values), (tau, t, t0), state.names)
