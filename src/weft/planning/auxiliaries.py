"""Auxiliary views as the catalog stores them: a bound query over one table, and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.algebra.relation import Output, Plain, Query, Scan, Select, condition, conjunction, conjuncts
from weft.algebra.schema import TableSchema
from weft.algebra.traverse import scans, transform
from weft.derivation.temporal.auxiliary import Auxiliary
from weft.sql import render


def query_of(auxiliary: Auxiliary) -> Query:
    """Return the query of an auxiliary view: SELECT its columns FROM its table WHERE its conditions."""
    scan = Scan(auxiliary.table, auxiliary.table.name)
    demanded = conjunction(*(Plain(each) for each in sorted(auxiliary.conditions, key=repr)))
    rows = Select(scan, demanded) if auxiliary.conditions else scan
    return Query(rows, tuple(Output(name, scan.ref(name)) for name in auxiliary.columns))


def auxiliary_of(query: Query) -> Auxiliary:
    """Return the auxiliary view of a query in the form of ``query_of``."""
    (scan,) = scans(query)
    demanded = (part.condition for part in conjuncts(condition(query.input)) if isinstance(part, Plain))
    return Auxiliary(scan.table, tuple(output.name for output in query.outputs), frozenset(demanded))


def text_of(auxiliary: Auxiliary) -> str:
    """Return the query of an auxiliary view in one line.

    >>> from weft.algebra.schema import INT, TIMESTAMP, Column
    >>> bounds = Column(2, "valid_from", TIMESTAMP), Column(3, "valid_to", TIMESTAMP)
    >>> text_of(Auxiliary(TableSchema(1, "staff", (Column(1, "id", INT), *bounds)), ("id",), frozenset()))
    'SELECT staff.id FROM staff'
    """
    query = query_of(auxiliary)
    return " ".join(render.select(", ".join(map(render.item, query.outputs)), query.input, {}).split())


def over_tables(query: Query, others: Mapping[int, TableSchema]) -> Query:
    """Replace tables of a query, by id, with others that have the same columns."""

    def change(node: Any) -> Any:
        return (
            replace(node, table=others[node.table.id]) if isinstance(node, Scan) and node.table.id in others else node
        )

    return transform(query, change)
