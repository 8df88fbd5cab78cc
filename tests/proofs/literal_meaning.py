"""Evaluate relations of the algebra over a few rows by their definitions: nested loops over range variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from weft.algebra import relation as relational
from weft.algebra.event import INSTANT, Event
from weft.algebra.scalar import TIME_START, Call, ColumnRef, Literal, Param, Scalar

Tables = Mapping[str, Sequence[Mapping[str, Any]]]
Bindings = Mapping[str, Mapping[str, Any]]
"""The row of each range variable: its columns and their values."""
T0 = 0
"""The beginning of time."""


def rows(relation: relational.Relation, tables: Tables, outer: Bindings) -> list[Bindings]:
    """Return the rows of a relation, each as bindings. ``outer`` has the rows around a subquery."""
    match relation:
        case relational.Scan(table=table, alias=alias):
            return [{alias: row} for row in tables[table.name]]
        case relational.Values(alias=alias, columns=columns, rows=constants):
            names = [column.name for column in columns]
            return [{alias: dict(zip(names, (value(each, outer) for each in row), strict=True))} for row in constants]
        case relational.Join(inputs=inputs):
            combined = product(*(rows(part, tables, outer) for part in inputs))
            return [{name: row for part in parts for name, row in part.items()} for parts in combined]
        case relational.Select(input=inner, predicate=predicate):
            return [row for row in rows(inner, tables, outer) if holds(predicate, tables, {**outer, **row})]
        case relational.Project(input=inner, alias=alias, outputs=outputs):
            return [
                {alias: {output.name: value(output.value, {**outer, **row}) for output in outputs}}
                for row in rows(inner, tables, outer)
            ]
        case relational.Union(alias=alias, inputs=inputs):
            names = [ref.column for ref in relational.attributes(relation)]
            return [
                {alias: dict(zip(names, (value(ref, row) for ref in relational.attributes(part)), strict=True))}
                for part in inputs
                for row in rows(part, tables, outer)
            ]
        case relational.Distinct(input=inner):
            found = rows(inner, tables, outer)
            return list({tuple(value(ref, row) for ref in relational.attributes(inner)): row for row in found}.values())
    raise AssertionError(f"not in these cases: {relation}")


def holds(predicate: relational.Predicate, tables: Tables, outer: Bindings) -> bool:
    """Return whether a predicate of a replay is true. It does not mention NOW."""
    match predicate:
        case relational.Plain(condition=condition):
            return value(condition, outer) is True
        case relational.And(items=items):
            return all(holds(item, tables, outer) for item in items)
        case relational.Or(items=items):
            return any(holds(item, tables, outer) for item in items)
        case relational.Exists(body=body):
            return bool(rows(body, tables, outer))
        case relational.NotExists(body=body):
            return not rows(body, tables, outer)
    raise AssertionError(f"not in a replay: {predicate}")


def value(scalar: Scalar, bound: Bindings) -> Any:
    """Return the value of a scalar. A comparison with NULL is NULL."""
    match scalar:
        case ColumnRef(scan=scan, column=column):
            return bound[scan][column]
        case Literal(value=constant):
            return constant
        case Param() if scalar == TIME_START:
            return T0
        case Call(name="is null", args=(one,)):
            return value(one, bound) is None
        case Call(name="is not null", args=(one,)):
            return value(one, bound) is not None
        case Call(name=("=" | "<" | "<=") as name, args=(left, right)):
            one, other = value(left, bound), value(right, bound)
            if one is None or other is None:
                return None
            return bool({"=": one == other, "<": one < other, "<=": one <= other}[name])
    raise AssertionError(f"not in these cases: {scalar}")


def occurrences(event: Event, tables: Tables) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield the rows of a merged event, each with its instant. A NULL instant is never reached."""
    for bound in rows(event.relation, tables, {}):
        (row,) = bound.values()
        if row[INSTANT] is not None:
            yield tuple(row[output.name] for output in event.outputs), row[INSTANT]
