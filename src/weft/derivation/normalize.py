"""Rewrite a query to an equivalent query that runs faster and shares its plan with more queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from weft.algebra.relation import Query
from weft.algebra.scalar import Call, Literal, Scalar
from weft.algebra.traverse import Node, is_scalar, transform


def like_as_prefix(scalar: Scalar) -> Scalar:
    """Replace LIKE by =, STARTSWITH, ENDSWITH or CONTAINS if possible.

    The pattern must have no wildcards, apart from a % as its first or last character.  If a LIKE pattern is a
    parameter, Spark compiles the pattern again for every row.

    >>> from weft.algebra.scalar import ColumnRef
    >>> from weft.algebra.schema import STRING
    >>> x = ColumnRef("m", "x", STRING)
    >>> pattern = Literal("comp.sys.%", STRING)
    >>> like_as_prefix(Call("like", (x, pattern), STRING)).name
    'startswith'
    """
    if not isinstance(scalar, Call) or scalar.name != "like":
        return scalar
    value, pattern = scalar.args
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        text = pattern.value
        for name, before, after in _SHAPES:
            core = text[len(before) : len(text) - len(after)]
            shaped = text.startswith(before) and text.endswith(after) and len(text) >= len(before + after)
            if shaped and not any(special in core for special in "%_\\"):
                return Call(name, (value, Literal(core, pattern.type)), scalar.type)
    return scalar


_SHAPES: Final = (("=", "", ""), ("startswith", "", "%"), ("endswith", "%", ""), ("contains", "%", "%"))

Rule = Callable[[Scalar], Scalar]
NORMAL_FORM: Final[tuple[Rule, ...]] = (like_as_prefix,)


def normalize(query: Query) -> Query:
    """Apply the rules ``NORMAL_FORM`` to the query."""
    return transform(query, _rewritten)


def _rewritten(node: Node) -> Node:
    if is_scalar(node):
        for rule in NORMAL_FORM:
            node = rule(cast("Scalar", node))
    return node
