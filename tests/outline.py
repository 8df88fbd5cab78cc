"""Print the algebra as indented text, with one operator per line."""

from __future__ import annotations

from collections.abc import Iterator

from weft.algebra.event import Driver
from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    Grouped,
    Join,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
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
    Values,
    Windowed,
    attributes,
)
from weft.sql.rendering import render
from weft.sql.rendering.render import item

STEP = "  "


def outline(query: Query) -> str:
    """Return the query as text, with the outermost operator first.

    Query of m.msgid
      Select
        NOW >= m.ts + INTERVAL '4' WEEK
        Scan msgs AS m
    """
    lines = [f"Query of {', '.join(item(output) for output in query.outputs)}", *_relation(query.input, 1)]
    return "\n".join(lines)


def _relation(relation: Relation, depth: int) -> Iterator[str]:
    indent = STEP * depth
    match relation:
        case Scan(table=table, alias=alias):
            yield f"{indent}Scan {table.name}" + (f" AS {alias}" if alias != table.name else "")
        case Values(alias=alias, columns=columns, rows=rows):
            yield f"{indent}Values {alias} of {', '.join(column.name for column in columns)}"
            for row in rows:
                yield f"{indent}{STEP}{', '.join(map(render.scalar, row))}"
        case Project(input=inner, alias=alias, outputs=outputs):
            yield f"{indent}Project {alias} of {', '.join(map(item, outputs))}"
            yield from _relation(inner, depth + 1)
        case Distinct(input=inner):
            yield f"{indent}Distinct"
            yield from _relation(inner, depth + 1)
        case Join(inputs=inputs):
            yield f"{indent}Join"
            for part in inputs:
                yield from _relation(part, depth + 1)
        case Union(inputs=inputs):
            yield f"{indent}Union of {', '.join(map(render.scalar, attributes(relation)))}"
            for part in inputs:
                yield from _relation(part, depth + 1)
        case Grouped() | Windowed() | Recursive() | Recurrence():
            yield from _stateful(relation, depth)
        case Select(input=inner, predicate=predicate):
            yield f"{indent}Select"
            yield from _predicate(predicate, depth + 1)
            yield from _relation(inner, depth + 1)


def _stateful(operator: Grouped | Windowed | Recursive | Recurrence, depth: int) -> Iterator[str]:
    indent, inputs = STEP * depth, list[Relation]()
    match operator:
        case Recurrence(name=name, alias=alias):
            yield f"{indent}Recurrence of {name} as {alias}"
        case Recursive(name=name, alias=alias, duplicates=duplicates):
            yield f"{indent}Recursive {name} as {alias}{' with duplicates' if duplicates else ''}"
            inputs += [operator.seed, operator.step]
        case Grouped(alias=alias, groups=groups, measures=measures):
            aggregates = (f"{render.measure_text(each)} AS {each.output.column}" for each in measures)
            yield f"{indent}Grouped {alias} by {', '.join(map(item, groups)) or 'nothing'}: {', '.join(aggregates)}"
            inputs.append(operator.input)
        case Windowed(alias=alias, outputs=outputs, partition=partition, functions=functions):
            yield f"{indent}Windowed {alias} of {', '.join(map(item, outputs))}"
            yield f"{indent}{STEP}partition by {', '.join(map(render.scalar, partition)) or 'nothing'}"
            for each in functions:
                args = ", ".join(map(render.scalar, each.args))
                keys = (f"{render.scalar(key.value)}{' DESC' if key.descending else ''}" for key in each.order)
                yield f"{indent}{STEP}{each.output.column}: {each.function}({args}) order by {', '.join(keys)}"
            inputs.append(operator.input)
    for part in inputs:
        yield from _relation(part, depth + 1)


def _predicate(predicate: Predicate, depth: int) -> Iterator[str]:
    indent = STEP * depth
    match predicate:
        case Plain(condition=condition):
            yield indent + render.scalar(condition)
        case NowFrom(threshold=threshold):
            yield f"{indent}NOW >= {render.scalar(threshold)}"
        case NowBefore(threshold=threshold):
            yield f"{indent}NOW < {render.scalar(threshold)}"
        case And(items=items) | Or(items=items) | Turns(items=items):
            yield f"{indent}{type(predicate).__name__}"
            for part in items:
                yield from _predicate(part, depth + 1)
        case Exists(body=body) | NotExists(body=body):
            yield f"{indent}{type(predicate).__name__}"
            yield from _relation(body, depth + 1)


def driver(found: Driver) -> str:
    """Describe a driver: the event, and the subqueries that contain it."""
    if found.kind == "greatest":
        what = "the latest of the block's starts"
    elif found.kind == "beginning":
        what = "time begins"
    elif found.scan is not None:
        turn = "arrives" if found.kind == "arrival" else "ends"
        what = f"a row of {found.scan.table.name} AS {found.scan.alias} {turn}"
    else:
        what = f"NOW reaches {render.scalar(found.instant)}"
    return " inside ".join([what, *(name for name in reversed(found.inside))])
