"""Traverse and rewrite the tree of a query.

A node is a relation, a predicate, a scalar or a ``Query``.  The function ``walk`` searches a tree, and ``transform``
rewrites it.  To add a kind of node, extend only ``children`` and ``rebuild``.
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
    Union,
    Unnest,
    Values,
    Windowed,
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

Node: TypeAlias = "Relation | Predicate | Scalar | Query"
N = TypeVar("N", bound="Relation | Predicate | Scalar | Query")


_BINDING: Final = (Scan, Values, Project, Union, Grouped, Windowed, Unnest, Materialized, Recurrence, Recursive)
"""The relations that bind a range variable."""


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a node, in the order of the query text.  The input of a projection comes first."""
    match node:  # the most frequent first
        case ColumnRef() | Literal() | Scan() | Recurrence():
            return ()
        case Plain(condition=scalar) | NowFrom(threshold=scalar) | NowBefore(threshold=scalar):
            return (scalar,)
        case Call(args=args):
            return args
        case Values(rows=rows):
            return tuple(value for row in rows for value in row)
        case Join(inputs=parts) | Union(inputs=parts):
            return parts
        case And(items=items) | Or(items=items):
            return items
        case Select(input=inner, predicate=predicate):
            return (inner, predicate)
        case Project(input=inner, outputs=outputs) | Query(input=inner, outputs=outputs):
            return (inner, *(output.value for output in outputs))
        case Distinct(input=inner) | Materialized(input=inner) | Exists(body=inner) | NotExists(body=inner):
            return (inner,)
        case Grouped() | Windowed() | Unnest() | Recursive():
            return _parts(node)
        case _:
            return scalar_children(node)


def _parts(node: Grouped | Windowed | Unnest | Recursive) -> tuple[Node, ...]:
    match node:
        case Grouped(input=inner, groups=groups, measures=measures):
            arguments = (part for measure in measures for part in (measure.argument, measure.by))
            return (inner, *(output.value for output in groups), *(arg for arg in arguments if arg is not None))
        case Windowed(input=inner, outputs=outputs, partition=partition, functions=functions):
            ordered = (part for each in functions for part in (*each.args, *(key.value for key in each.order)))
            limit = () if node.most is None else (node.most,)
            return (inner, *(output.value for output in outputs), *partition, *ordered, *limit)
        case Unnest(value=value):
            return (value,)
        case Recursive(seed=seed, step=step):
            return (seed, step)


def rebuild(node: N, parts: tuple[Node, ...]) -> N:
    """Return a copy of the node after replacing its direct parts by ``parts``.

    ``parts`` must have the same length and the same kinds of nodes as the result of ``children``.
    """
    new_parts: Any = parts
    result: Node
    match node:
        case Scan() | Recurrence():
            result = node
        case Values(rows=rows):
            scalars = iter(new_parts)
            result = replace(node, rows=tuple(tuple(next(scalars) for _ in row) for row in rows))
        case Join() | Union():
            result = replace(node, inputs=new_parts)
        case And():
            result = conjunction(*new_parts)
        case Or():
            result = disjunction(*new_parts)
        case Select():
            result = Select(new_parts[0], new_parts[1])
        case Project(outputs=outputs) | Query(outputs=outputs):
            named = tuple(Output(output.name, value) for output, value in zip(outputs, new_parts[1:], strict=True))
            result = replace(node, input=new_parts[0], outputs=named)
        case Distinct() | Exists() | NotExists() | Plain() | NowFrom() | NowBefore():
            result = type(node)(new_parts[0])
        case Materialized() | Grouped() | Windowed() | Unnest() | Recursive():
            result = _rebuilt(node, new_parts)
        case _:
            result = with_children(cast("Scalar", node), new_parts)
    return cast("N", result)


def _rebuilt(node: Materialized | Grouped | Windowed | Unnest | Recursive, parts: tuple[Any, ...]) -> Relation:
    match node:
        case Materialized():
            return replace(node, input=parts[0])
        case Grouped():
            return _regrouped(node, parts)
        case Windowed():
            return _rewindowed(node, parts)
        case Unnest():
            return replace(node, value=parts[0])
        case Recursive():
            return replace(node, seed=parts[0], step=parts[1])


def _regrouped(node: Grouped, parts: tuple[Any, ...]) -> Grouped:
    rest = iter(parts[1:])

    def following(part: Scalar | None) -> Scalar | None:
        return None if part is None else next(rest)

    groups = tuple(Output(output.name, next(rest)) for output in node.groups)
    measures = tuple(replace(each, argument=following(each.argument), by=following(each.by)) for each in node.measures)
    return replace(node, input=parts[0], groups=groups, measures=measures)


def _rewindowed(node: Windowed, parts: tuple[Any, ...]) -> Windowed:
    rest = iter(parts[1:])
    outputs = tuple(Output(output.name, next(rest)) for output in node.outputs)
    partition = tuple(next(rest) for _ in node.partition)
    functions = []
    for each in node.functions:
        args = tuple(next(rest) for _ in each.args)
        order = tuple(replace(key, value=next(rest)) for key in each.order)
        functions.append(replace(each, args=args, order=order))
    most = None if node.most is None else next(rest)
    return replace(node, input=parts[0], outputs=outputs, partition=partition, functions=tuple(functions), most=most)


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it, outermost first, in the order of the query text."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(children(part)))


def _above_scalars(node: Node) -> Iterator[Node]:
    """Yield the nodes of ``walk`` that are not scalars.  A scalar never contains a relation or a threshold."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        match part:
            case Scan() | Values() | Unnest() | Recurrence() | Plain() | NowFrom() | NowBefore():
                pass
            case Project(input=inner) | Query(input=inner) | Grouped(input=inner) | Windowed(input=inner):
                waiting.append(inner)
            case _:
                waiting.extend(reversed(children(part)))


def transform(node: N, change: Callable[[Any], Any]) -> N:
    """Apply ``change`` to the node and to all nodes below it, innermost first.

    ``change`` must return a relation for a relation, and a predicate for a predicate.
    """
    parts = children(node)
    if not parts:
        return cast("N", change(node))
    changed = tuple([transform(part, change) for part in parts])
    return cast("N", change(node if _same(changed, parts) else rebuild(node, changed)))


def _same(changed: tuple[Node, ...], parts: tuple[Node, ...]) -> bool:
    return all(map(is_, changed, parts))


def map_scalars(node: N, change: Callable[[Scalar], Scalar]) -> N:
    """Apply ``change`` to every condition, threshold and output of the node."""
    parts = tuple(change(cast("Scalar", p)) if is_scalar(p) else map_scalars(p, change) for p in children(node))
    return rebuild(node, parts) if parts else node


def is_scalar(node: Node) -> bool:
    """Return whether a node is a scalar."""
    return isinstance(node, (ColumnRef, Literal, Param, Now, PeriodOf, Element, Call, Cast, Case))


def scans(node: Node) -> Iterator[Scan]:
    """Yield every scan in the node and its subqueries, in the order of the query text."""
    return (part for part in _above_scalars(node) if isinstance(part, Scan))


def scalars(node: Node) -> Iterator[Scalar]:
    """Yield every condition, threshold and output in the node and its subqueries."""
    for part in children(node):
        if is_scalar(part):
            yield cast("Scalar", part)
        else:
            yield from scalars(part)


def thresholds(node: Node) -> Iterator[NowFrom | NowBefore]:
    """Yield every threshold predicate in the node and its subqueries."""
    return (part for part in _above_scalars(node) if isinstance(part, (NowFrom, NowBefore)))


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
    if node in replacement:
        return cast("N", replacement[node])
    parts = children(node)
    if not parts:
        return node
    changed = tuple([substitute(part, replacement) for part in parts])
    return node if _same(changed, parts) else rebuild(node, changed)


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
