"""The algebra as indented text, an operator a line: what ``explain`` shows of a query before anything is derived."""

from __future__ import annotations

from collections.abc import Iterator

from weft.algebra.event import Driver
from weft.algebra.relation import (
    And,
    Domain,
    Exists,
    Filter,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Plain,
    Predicate,
    Product,
    Query,
    Relation,
    Scan,
)
from weft.sql import render
from weft.sql.branch import item

STEP = "  "


def outline(query: Query) -> str:
    """The query, outermost operator first.

    SELECT m.msgid
      Filter
        NOW >= m.ts + INTERVAL '4' WEEK
        Scan msgs AS m
    """
    lines = [f"Select {', '.join(item(output) for output in query.outputs)}", *_relation(query.input, 1)]
    return "\n".join(lines)


def _relation(relation: Relation, depth: int) -> Iterator[str]:
    indent = STEP * depth
    match relation:
        case Scan(table=table, alias=alias):
            yield f"{indent}Scan {table.name}" + (f" AS {alias}" if alias != table.name else "")
        case Domain(alias=alias, columns=columns, of=of):
            yield f"{indent}Domain {alias} of {', '.join(render.scalar(ref) for ref in columns)}"
            yield from _relation(of, depth + 1)
        case Product(inputs=inputs):
            yield f"{indent}Product"
            for part in inputs:
                yield from _relation(part, depth + 1)
        case Filter(input=inner, predicate=predicate):
            yield f"{indent}Filter"
            yield from _predicate(predicate, depth + 1)
            yield from _relation(inner, depth + 1)


def _predicate(predicate: Predicate, depth: int) -> Iterator[str]:
    indent = STEP * depth
    match predicate:
        case Plain(condition=condition):
            yield indent + render.scalar(condition)
        case NowFrom(threshold=threshold):
            yield f"{indent}NOW >= {render.scalar(threshold)}"
        case NowBefore(threshold=threshold):
            yield f"{indent}NOW < {render.scalar(threshold)}"
        case And(items=items) | Or(items=items):
            yield f"{indent}{type(predicate).__name__}"
            for part in items:
                yield from _predicate(part, depth + 1)
        case Exists(body=body) | NotExists(body=body):
            yield f"{indent}{type(predicate).__name__}"
            yield from _relation(body, depth + 1)


def driver(found: Driver) -> str:
    """A driver in a few words: what begins or ends, and inside of which subqueries."""
    if found.kind == "greatest":
        what = "the latest of the block's starts"
    elif found.scan is not None:
        turn = "arrives" if found.kind == "arrival" else "ends"
        what = f"a row of {found.scan.table.name} AS {found.scan.alias} {turn}"
    else:
        what = f"NOW reaches {render.scalar(found.instant)}"
    return " inside ".join([what, *(name for name in reversed(found.inside))])
