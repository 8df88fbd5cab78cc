"""Replace each stateful operator of a query by a scan of its state.

Aggregates and window functions depend on many rows at once.  Their rows begin and end as the input changes.  The module
replaces such an operator by a scan of a table whose rows have periods (``relation.StateSchema``).  The rules of
``replay`` for a table whose rows end therefore apply to the rest of the query.  A tick computes the rows of the table
(``lives``).

The rows of a state are a multiset.  An input of a stateful operator must therefore keep its duplicates, and a
``Distinct`` inside such an input becomes a state too.  ``merge`` removes every other ``Distinct``.

Law: at every instant of its window, a state has the rows of its operator.
"""

from __future__ import annotations

import hashlib
from typing import Final, cast

from weft.algebra import relation as relational
from weft.algebra.relation import Distinct, Grouped, Join, Query, Relation, Scan, Source, StateSchema, Windowed
from weft.algebra.scalar import TICK_END, TICK_START, TIME_START, Scalar
from weft.algebra.schema import TIMESTAMP, Column
from weft.algebra.traverse import Node, children, free_columns, is_scalar, rebuild, scans, thresholds
from weft.derivation.merge import block_count
from weft.errors import DerivationError

STARTS: Final = "_from"
ENDS: Final = "_to"
MOST_BLOCKS: Final = 16
"""A join of unions with more blocks reads the unions as states."""


def stateful(query: Query) -> Query:
    """Return the query with scans of states in place of its stateful operators.

    Raise DerivationError if a stateful operator refers to columns of the surrounding query.
    """
    return Query(cast("Relation", _outlined(query.input, bag=False)), query.outputs)


def _outlined(node: Node, *, bag: bool) -> Node:
    """``bag`` means that the number of equal rows matters."""
    inside = bag or isinstance(node, (Grouped, Windowed))
    parts = tuple(
        part if is_scalar(part) else _outlined(part, bag=inside and not isinstance(node, _SUBQUERIES))
        for part in children(node)
    )
    rebuilt = rebuild(node, parts) if parts else node
    match rebuilt:
        case Grouped() | Windowed():
            return state_scan(rebuilt)
        case Distinct() if bag:
            return state_scan(rebuilt)
        case Join(inputs=inputs) if block_count(rebuilt) > MOST_BLOCKS:
            return Join(tuple(_materialized(part) for part in inputs))
        case _:
            return rebuilt


_SUBQUERIES: Final = (relational.Exists, relational.NotExists)


def _materialized(part: Relation) -> Relation:
    return (
        state_scan(part) if isinstance(part, (relational.Union, relational.Project)) and block_count(part) > 1 else part
    )


def state_scan(operator: Source) -> Scan:
    """Return a scan of the operator's state, with the operator's range variable."""
    lost = free_columns(operator)
    if lost:
        names = ", ".join(sorted(f"{ref.scan}.{ref.column}" for ref in lost))
        raise DerivationError(f"an aggregate or a window function refers to columns of the surrounding query: {names}")
    return Scan(state_of(operator, (TICK_START, TICK_END, TIME_START)), relational.attributes(operator)[0].scan)


def state_of(operator: Relation, window: tuple[Scalar, Scalar, Scalar]) -> StateSchema:
    """Return the schema of the operator's state in the window.  Equal operators in equal windows have equal names."""
    refs = relational.attributes(operator)
    columns = [*((ref.column, ref.type) for ref in refs), (STARTS, TIMESTAMP), (ENDS, TIMESTAMP)]
    digest = hashlib.sha256(repr((operator, window)).encode()).hexdigest()[:12]
    return StateSchema(
        -1,
        f"state_{digest}",
        tuple(Column(number, name, type) for number, (name, type) in enumerate(columns, 1)),
        STARTS,
        ENDS,
        "state",
        operator,
        window,
    )


def states(node: Node) -> tuple[StateSchema, ...]:
    """Return the states that the node reads directly, each once."""
    return tuple(dict.fromkeys(scan.table for scan in scans(node) if isinstance(scan.table, StateSchema)))


def depends_on_time(state: StateSchema) -> bool:
    """Return whether time alone can change the rows of the state."""
    return any(True for _ in thresholds(state.operator)) or any(map(depends_on_time, states(state.operator)))
