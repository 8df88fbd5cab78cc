"""Traverse and rewrite the tree of a query.

A node is a relation, a predicate, a scalar or a ``Query``.  The function ``walk`` searches a tree, and ``transform``
rewrites it.  To add a kind of node, name its parts in ``PARTS``.  ``algebra.temporal`` adds the operators that only
temporal relations have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeAlias, TypeVar, cast

from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    Grouped,
    Join,
    Materialized,
    Measure,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Output,
    Plain,
    Predicate,
    Project,
    Query,
    Recurrence,
    Recursive,
    Relation,
    Scan,
    Select,
    SortKey,
    Turns,
    Union,
    Unnest,
    Values,
    Windowed,
    WindowFunction,
    conjunction,
    disjunction,
)
from weft.algebra.scalar import (
    Call,
    Case,
    Cast,
    ColumnRef,
    Element,
    Literal,
    Now,
    Param,
    PeriodOf,
    Scalar,
    with_children,
)
from weft.algebra.scalar import children as scalar_children
from weft.algebra.tree import ITEMS, parts_in, with_parts_in

Node: TypeAlias = "Relation | Predicate | Scalar | Query"
N = TypeVar("N", bound="Relation | Predicate | Scalar | Query")


_BINDING: Final = (Scan, Values, Project, Union, Grouped, Windowed, Unnest, Materialized, Recurrence, Recursive)
"""The relations that bind a range variable."""


PARTS: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys((Scan, Recurrence), ()),
    **dict.fromkeys((Distinct, Materialized), ("input",)),
    **dict.fromkeys((Exists, NotExists), ("body",)),
    **dict.fromkeys((Join, Union), ("inputs",)),
    **dict.fromkeys((And, Or), ("items",)),
    **dict.fromkeys((NowFrom, NowBefore), ("threshold",)),
    **dict.fromkeys((Project, Query), ("input", "outputs")),
    Plain: ("condition",),
    Turns: ("comparison", "turns"),
    Values: ("rows",),
    Select: ("input", "predicate"),
    Grouped: ("input", "groups", "measures"),
    Windowed: ("input", "outputs", "partition", "functions", "most"),
    Unnest: ("value",),
    Recursive: ("seed", "step"),
}
"""The fields that contain the direct parts of a node, in the order of the query text."""
ITEMS.update({Output: ("value",), Measure: ("argument", "by"), WindowFunction: ("args", "order"), SortKey: ("value",)})


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a node, in the order of the query text.  The input of a projection comes first."""
    part: Any = node
    names = PARTS.get(type(part))
    if names is None:
        return scalar_children(part)
    return parts_in(part, names)


def rebuild(node: N, parts: tuple[Any, ...]) -> N:
    """Return a copy of the node after replacing its direct parts by ``parts``.

    ``parts`` must have the same length and the same kinds of nodes as the result of ``children``.
    """
    result: Any = node
    if type(node) not in PARTS:
        result = with_children(result, parts)
    elif isinstance(node, (And, Or)):
        result = (conjunction if isinstance(node, And) else disjunction)(*parts)
    else:
        result = with_parts_in(result, PARTS[type(node)], iter(parts))
    changed: N = result
    return changed


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it, outermost first, in the order of the query text.

    The input that several copies of a ``Materialized`` share is visited once.
    """
    return _walked(node, children)


def _walked(node: Node, parts_of: Callable[[Node], tuple[Node, ...]]) -> Iterator[Node]:
    waiting = [node]
    shared: set[Project] = set()
    while waiting:
        part = waiting.pop()
        yield part
        if type(part) is Materialized:
            if part.input in shared:
                continue
            shared.add(part.input)
        waiting.extend(reversed(parts_of(part)))


def operands(node: Node) -> tuple[Relation | Predicate, ...]:
    """Return the direct parts of a node that are not scalars.  A scalar never contains a relation or a threshold."""
    match node:
        case Scan() | Values() | Unnest() | Recurrence() | Plain() | NowFrom() | NowBefore():
            return ()
        case Project(input=inner) | Query(input=inner) | Grouped(input=inner) | Windowed(input=inner):
            return (inner,)
        case Turns(items=items):
            return items
        case _:
            return cast("tuple[Relation | Predicate, ...]", children(node))


def _above_scalars(node: Node) -> Iterator[Node]:
    """Yield the nodes of ``walk`` that are not scalars."""
    return _walked(node, operands)


def changed_parts(
    node: Node, parts: tuple[Node, ...], change: Callable[[Node], Node], shared: dict[Node, Node]
) -> tuple[Node, ...]:
    """Return the direct ``parts`` of a node after ``change``.

    ``shared`` keeps the changed inputs of ``Materialized``.  Their copies share an input, so it is changed once.
    Otherwise a chain of n outer joins would take 2ⁿ steps.
    """
    if type(node) is not Materialized:
        return tuple([change(part) for part in parts])
    inner = node.input
    if inner not in shared:
        shared[inner] = change(inner)
    return (shared[inner],)


def transform(node: N, change: Callable[[Any], Any]) -> N:
    """Apply ``change`` to the node and to all nodes below it, innermost first.

    ``change`` must return a relation for a relation, and a predicate for a predicate.
    """
    shared: dict[Node, Node] = {}

    def changed(part: Any) -> Any:
        below = children(part)
        if not below:
            return change(part)
        parts = changed_parts(part, below, changed, shared)
        return change(part if _same(parts, below) else rebuild(part, parts))

    result: N = changed(node)
    return result


def _same(changed: tuple[Node, ...], parts: tuple[Node, ...]) -> bool:
    return all(map(is_, changed, parts))


def is_scalar(node: Node) -> bool:
    """Return whether a node is a scalar."""
    return isinstance(node, (ColumnRef, Literal, Param, Now, PeriodOf, Element, Call, Cast, Case))


def scans(node: Node) -> Iterator[Scan]:
    """Yield every scan in the node and its subqueries, in the order of the query text."""
    return (part for part in _above_scalars(node) if isinstance(part, Scan))


def scalars(node: Node) -> Iterator[Scalar]:
    """Yield every condition, threshold and output in the node and its subqueries."""
    for part in _above_scalars(node):
        yield from (cast("Scalar", below) for below in children(part) if is_scalar(below))


def thresholds(node: Node) -> Iterator[NowFrom | NowBefore]:
    """Yield every threshold predicate in the node and its subqueries."""
    return (part for part in _above_scalars(node) if isinstance(part, (NowFrom, NowBefore)))


def turn_count(node: Node) -> int:
    """Return the number of thresholds.  A comparison that turns several times counts once for each turn."""
    parts = _walked(node, lambda part: () if isinstance(part, Turns) else operands(part))
    return sum(len(part.turns) if isinstance(part, Turns) else isinstance(part, (NowFrom, NowBefore)) for part in parts)


def mentioned(node: Node) -> frozenset[ColumnRef]:
    """Return all columns in the node and its subqueries."""
    return frozenset(part for part in walk(node) if isinstance(part, ColumnRef))


def params(node: Node) -> frozenset[Param]:
    """Return all parameters in the node and its subqueries."""
    return frozenset(part for part in walk(node) if isinstance(part, Param))


def range_variables(node: Node) -> tuple[str, ...]:
    """Return the distinct range variables that the node binds, in the order of the query text."""
    bound = (part.alias for part in _above_scalars(node) if isinstance(part, _BINDING))
    return tuple(dict.fromkeys(bound))


def free_columns(node: Node) -> frozenset[ColumnRef]:
    """Return those columns in the node whose range variables are bound outside the node."""
    bound = set(range_variables(node))
    return frozenset(ref for ref in mentioned(node) if ref.scan not in bound)


def substitute(node: N, replacement: Mapping[Any, Any]) -> N:
    """Replace every part of the node that is a key of ``replacement``, outermost first.

    The function does not look inside the replacements.
    """
    shared: dict[Node, Node] = {}

    def changed(part: Node) -> Node:
        if part in replacement:
            return cast("Node", replacement[part])
        below = children(part)
        if not below:
            return part
        parts = changed_parts(part, below, changed, shared)
        return part if _same(parts, below) else rebuild(part, parts)

    return cast("N", changed(node))


def rename(node: N, names: Mapping[str, str]) -> N:
    """Rename the bound and free range variables of the node according to ``names``."""

    def change(part: Node) -> Node:
        match part:
            case ColumnRef(scan=scan) | PeriodOf(scan=scan):
                return replace(part, scan=names[scan]) if scan in names else part
            case Grouped(alias=alias, measures=measures) if alias in names:
                named = tuple(replace(each, output=replace(each.output, scan=names[alias])) for each in measures)
                return replace(part, alias=names[alias], measures=named)
            case Windowed(alias=alias, functions=functions) if alias in names:
                called = tuple(replace(each, output=replace(each.output, scan=names[alias])) for each in functions)
                return replace(part, alias=names[alias], functions=called)
            case Scan() | Values() | Project() | Union() | Unnest() | Materialized() | Recurrence() | Recursive():
                alias = part.alias
                return replace(part, alias=names[alias]) if alias in names else part
            case _:
                return part

    return transform(node, change)
