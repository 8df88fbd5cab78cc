"""Draw the bound query as a tree of its operators, for a person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    Turns,
    Union,
    Unnest,
    Values,
    Windowed,
)
from weft.algebra.traverse import operands
from weft.printable import counted
from weft.sql.rendering import render


@dataclass(frozen=True)
class PlanNode:
    """An operator or a condition: what it does in words, and its part of the query as SQL.

    ``parts`` are the operators and conditions below it.
    """

    words: str
    sql: str = ""
    parts: tuple[PlanNode, ...] = ()


def plan_tree(query: Query) -> PlanNode:
    """Return the operators of a query, the last one first."""
    return PlanNode("answers", _items(query.outputs), _nodes(query.input, set()))


def _nodes(node: Relation | Predicate, shown: set[Relation]) -> tuple[PlanNode, ...]:
    """Return the node of an operator or a condition, or the nodes of its parts if it only passes them on.

    ``shown`` are the relations that a tick computes once.  Another copy has only the name of the relation.
    """
    if isinstance(node, Materialized):
        if node.input in shown:
            return (PlanNode(f"the rows of {node.input.alias}", f"AS {node.alias}"),)
        shown.add(node.input)
    below = [_nodes(part, shown) for part in operands(node)]
    match node:
        case Or():
            parts = tuple(each[0] if len(each) == 1 else PlanNode("all of", parts=each) for each in below)
        case Select():  # the conditions first
            parts = (*below[1], *below[0])
        case _:
            parts = tuple(part for each in below for part in each)
    passed = isinstance(node, (And, Materialized)) or (isinstance(node, Join) and len(node.inputs) == 1)
    return parts if passed else (PlanNode(*_described(node), parts),)


def _described(node: Relation | Predicate) -> tuple[str, str]:
    """Return the words and the SQL of a node."""
    match node:
        case Scan(table=table, alias=alias):
            named = alias if alias == table.name else f"{table.name} AS {alias}"
            return "rows of the results" if table.source == "results" else "rows of the table", named
        case Values(alias=alias, rows=rows):
            return counted(len(rows), "constant row"), f"AS {alias}"
        case Recurrence(name=name, alias=alias):
            return f"rows of the last round of {name}", f"AS {alias}"
        case Project(alias=alias, outputs=outputs):
            return f"computed as {alias}", _items(outputs)
        case Union(alias=alias):
            return f"together as {alias}", ""
        case Recursive(name=name):
            return f"round after round as {name}", ""
        case Grouped(groups=groups, measures=measures):
            by = f"for each {_items(groups)}" if groups else "for all rows"
            return f"aggregated {by}", ", ".join(map(render.measure_text, measures))
        case Windowed(partition=partition, functions=functions):
            by = f" for each {', '.join(map(render.scalar, partition))}" if partition else ""
            names = (f"{each.function} AS {each.output.column}" for each in functions)
            return f"with the rows around{by}", ", ".join(names)
        case Unnest(value=value, alias=alias):
            return f"elements as {alias}", render.scalar(value)
        case Plain() | NowFrom() | NowBefore() | Turns():
            return "", render.predicate(node, {})
        case _:
            return _WORDS[type(node)], ""


_WORDS = {
    Join: "all combinations of",
    Select: "filtered by",
    Distinct: "without repetitions",
    Or: "at least one of",
    Exists: "there is a row of",
    NotExists: "there is no row of",
}


def _items(outputs: Iterable[Output]) -> str:
    return ", ".join(render.item(each) for each in outputs)
