"""Rules that keep a query's meaning and make it easier to run and to share: the pipeline ``NORMAL_FORM``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from weft.algebra.relation import Query, map_relation
from weft.algebra.scalar import Call, Literal, Scalar, children, with_children


def like_as_prefix(scalar: Scalar) -> Scalar:
    """LIKE with one wildcard at an end becomes STARTSWITH, ENDSWITH or CONTAINS, without any an equality.

    Not for beauty: a lifted LIKE pattern is a regular expression that would be compiled anew for every row.

    >>> from weft.algebra.scalar import ColumnRef
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
    """The query in normal form."""
    relation = map_relation(query.input, _everywhere)
    outputs = tuple(replace(output, value=_everywhere(output.value)) for output in query.outputs)
    return Query(relation, outputs)


def _everywhere(scalar: Scalar) -> Scalar:
    parts = children(scalar)
    if parts:
        scalar = with_children(scalar, tuple(_everywhere(part) for part in parts))
    for rule in NORMAL_FORM:
        scalar = rule(scalar)
    return scalar
