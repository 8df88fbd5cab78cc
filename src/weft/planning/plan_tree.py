"""Draw the bound query as a tree of its operators, for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    Grouped,
    Join,
    Materialized,
    NotExists,
    Or,
    Output,
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
)
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
    return PlanNode("answers", _items(query.outputs), (_relation(query.input),))


def _relation(relation: Relation) -> PlanNode:
    match relation:
        case Scan(table=table, alias=alias):
            named = alias if alias == table.name else f"{table.name} AS {alias}"
            return PlanNode("rows of the results" if table.source == "results" else "rows of the table", named)
        case Values(alias=alias, rows=rows):
            return PlanNode(counted(len(rows), "constant row"), f"AS {alias}")
        case Join(inputs=inputs) if len(inputs) == 1:
            return _relation(inputs[0])
        case Join(inputs=inputs):
            return PlanNode("all combinations of", parts=tuple(map(_relation, inputs)))
        case Select(input=inner, predicate=predicate):
            return PlanNode("of which are kept", parts=(*_conditions(predicate), _relation(inner)))
        case Project(input=inner, alias=alias, outputs=outputs):
            return PlanNode(f"computed as {alias}", _items(outputs), (_relation(inner),))
        case Distinct(input=inner):
            return PlanNode("without repetitions", parts=(_relation(inner),))
        case Union(alias=alias, inputs=inputs):
            return PlanNode(f"together as {alias}", parts=tuple(map(_relation, inputs)))
        case Materialized(input=inner):
            return _relation(inner)
        case Recurrence(name=name, alias=alias):
            return PlanNode(f"rows of the last round of {name}", f"AS {alias}")
        case Recursive(name=name, seed=seed, step=step):
            return PlanNode(f"round after round as {name}", parts=(_relation(seed), _relation(step)))
        case _:
            return _computed(relation)


def _computed(relation: Grouped | Windowed | Unnest) -> PlanNode:
    match relation:
        case Grouped(input=inner, groups=groups, measures=measures):
            by = f"for each {_items(groups)}" if groups else "for all rows"
            return PlanNode(f"aggregated {by}", ", ".join(map(render.measure_text, measures)), (_relation(inner),))
        case Windowed(input=inner, partition=partition, functions=functions):
            by = f" for each {', '.join(map(render.scalar, partition))}" if partition else ""
            names = ", ".join(f"{each.function} AS {each.output.column}" for each in functions)
            return PlanNode(f"with the rows around{by}", names, (_relation(inner),))
        case Unnest(value=value, alias=alias):
            return PlanNode(f"elements as {alias}", render.scalar(value))


def _items(outputs: Iterable[Output]) -> str:
    return ", ".join(render.item(each) for each in outputs)


def _conditions(predicate: Predicate) -> Iterator[PlanNode]:
    match predicate:
        case And(items=items):
            for each in items:
                yield from _conditions(each)
        case Or(items=items):
            yield PlanNode("at least one of", parts=tuple(map(_together, items)))
        case Exists(body=body):
            yield PlanNode("there is a row of", parts=(_relation(body),))
        case NotExists(body=body):
            yield PlanNode("there is no row of", parts=(_relation(body),))
        case _:
            yield PlanNode("", render.predicate(predicate, {}))


def _together(predicate: Predicate) -> PlanNode:
    nodes = tuple(_conditions(predicate))
    return nodes[0] if len(nodes) == 1 else PlanNode("all of", parts=nodes)
