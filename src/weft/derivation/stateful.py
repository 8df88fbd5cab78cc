"""Replace each stateful operator of a query by a scan of its state.

Aggregates, window functions and recursions depend on many rows at once.  Their rows begin and end as the input changes.
The module replaces such an operator by a scan of a table whose rows have periods (``relation.StateSchema``).  The rules
of ``replay`` for a table whose rows end therefore apply to the rest of the query.  A tick computes the rows of the
table (``lives``).

The rows of a state are a multiset.  An input of a stateful operator must therefore keep its duplicates, and a
``Distinct`` inside such an input becomes a state too.  ``merge`` removes every other ``Distinct``.

Law: at every instant of its window, a state has the rows of its operator.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, cast

from weft.algebra import relation as relational
from weft.algebra.relation import (
    And,
    Distinct,
    Grouped,
    Join,
    NowBefore,
    NowFrom,
    Or,
    Output,
    Plain,
    Predicate,
    Query,
    Recursive,
    Relation,
    Scan,
    Source,
    StateSchema,
    Turns,
    Windowed,
)
from weft.algebra.scalar import (
    TICK_END,
    TICK_START,
    TIME_START,
    Call,
    ColumnRef,
    Literal,
    Param,
    Scalar,
)
from weft.algebra.schema import TIMESTAMP, Column, DataType, remembered
from weft.algebra.traverse import (
    Node,
    children,
    free_columns,
    is_scalar,
    mentioned,
    params,
    range_variables,
    rebuild,
    rename,
    scans,
    substitute,
    thresholds,
    walk,
)
from weft.derivation.merge import block_count
from weft.errors import DerivationError

STARTS: Final = "_from"
ENDS: Final = "_to"
SHARED: Final = "_k"
"""The beginning of the names of the keys by which queries with other constants share a state."""
MOST_BLOCKS: Final = 8
"""A join or a union with more blocks reads the unions inside it as states.

An outer join is a union.  Without this limit, each outer join would double the number of branches.
"""
_BLOCKS_OF_STEP: Final = 4
"""The number of blocks of a state that joins a part of the inputs of a join."""
_TIMED_BLOCKS: Final = 12
"""The number of blocks of unions that compare columns of other inputs of a join with NOW: two such values."""


@dataclass
class _Outline:
    """What the derivation of the states of one query shares.

    ``used`` are the columns that the query mentions.  ``counted`` has the ``Materialized`` inputs in which the number
    of equal rows matters at one place at least.  ``shared`` maps each ``Materialized`` input to a scan of its state.
    ``moved`` maps a column to the column of a state that replaces it.  ``steps`` maps the range variable of a part of a
    join to the rows of this part.
    """

    used: frozenset[ColumnRef]
    counted: frozenset[Node]
    shared: dict[Node, Scan] = field(default_factory=dict)
    moved: dict[ColumnRef, ColumnRef] = field(default_factory=dict)
    steps: dict[str, Relation] = field(default_factory=dict)


def stateful(query: Query) -> Query:
    """Return the query with scans of states in place of its stateful operators.

    Raise DerivationError if a stateful operator refers to columns of the surrounding query.
    """
    outline = _Outline(mentioned(query), frozenset(_counted(query.input, set())))
    return substitute(Query(cast("Relation", _outlined(query.input, outline)), query.outputs), outline.moved)


def _outlined(node: Node, outline: _Outline, *, bag: bool = False, selected: bool = False) -> Node:
    """``bag`` means that the number of equal rows matters.  ``selected`` means that the node above is a ``Select``."""
    if isinstance(node, relational.Materialized):
        if node.input not in outline.shared:
            inner = cast("Source", _outlined(node.input, outline, bag=node.input in outline.counted))
            outline.shared[node.input] = state_scan(inner)
        return replace(outline.shared[node.input], alias=node.alias)
    node = _limited(node) if isinstance(node, relational.Select) else node
    below, above = _counts_below(node, bag=bag), isinstance(node, relational.Select)
    parts = tuple(
        part if is_scalar(part) else _outlined(part, outline, bag=below, selected=above) for part in children(node)
    )
    if isinstance(node, (relational.Union, Recursive)):
        parts = tuple(map(_without_periods, parts))
    rebuilt = rebuild(node, parts) if parts else node
    rebuilt = substitute(rebuilt, outline.moved) if outline.moved else rebuilt
    match rebuilt:
        case Grouped() | Windowed():
            return _shared(rebuilt)
        case Recursive():
            return state_scan(rebuilt)
        case Distinct() if bag:
            return state_scan(rebuilt)
        case relational.Union(inputs=inputs) if block_count(rebuilt) > MOST_BLOCKS and not _is_flat(rebuilt):
            return replace(rebuilt, inputs=tuple(map(_materialized, inputs)))
        case relational.Select(input=Join() as join) if block_count(join) > MOST_BLOCKS:
            return _in_steps(join, relational.conjuncts(rebuilt.predicate), outline)
        case Join() if block_count(rebuilt) > MOST_BLOCKS and not selected:
            return _in_steps(rebuilt, (), outline)
        case _:
            return rebuilt


def _in_steps(join: Join, conditions: Sequence[Predicate], outline: _Outline) -> Relation:
    """Return the rows of ``join`` that satisfy the conditions, with few blocks.

    A union inside the join becomes a scan of its state.  A union that refers to other inputs, such as the value of a
    correlated subquery, has no state of its own.  Its state is that of a join of few inputs with the union, under the
    conditions on these inputs.  A union that compares columns of other inputs with NOW is in one state with these
    columns, up to ``_TIMED_BLOCKS``.  Otherwise each tick would compute the whole state to find the rows that are due.
    """
    parts = [_materialized(part) for part in join.inputs]
    base = [part for part in parts if block_count(part) == 1]
    unions = [part for part in parts if block_count(part) > 1]
    items = list(conditions)
    timed = tuple(filter(_is_timed, unions))
    most_timed = _TIMED_BLOCKS if block_count(Join(timed)) <= _TIMED_BLOCKS else _BLOCKS_OF_STEP
    while block_count(Join((*base, *unions))) > (MOST_BLOCKS if len(timed) < len(unions) else _TIMED_BLOCKS):
        step = Join(tuple(base))
        for union in sorted(unions, key=_is_timed, reverse=True):
            wider = Join((*step.inputs, union))
            most = most_timed if _is_timed(union) else _BLOCKS_OF_STEP
            fits = block_count(wider) <= most or len(step.inputs) == len(base)
            if fits and _has_state(wider, outline.used):
                step = wider
        if step.inputs == tuple(base):
            break
        inner = [each for each in items if _is_below(each, step)]
        scan, columns = _step(step, inner, outline)
        outline.moved = {ref: columns.get(known, known) for ref, known in outline.moved.items()} | columns
        base = [scan]
        unions = [substitute(each, columns) for each in unions if each not in step.inputs]
        items = [substitute(each, columns) for each in items if each not in inner]
        outline.used |= set(columns.values())
    whole = Join((*base, *unions))
    return relational.Select(whole, relational.conjunction(*items)) if items else whole


def _is_timed(union: Relation) -> bool:
    """Return whether the union compares columns of other inputs with NOW."""
    outer = free_columns(union)
    return any(mentioned(each) & outer for each in thresholds(union))


def _has_state(step: Join, used: frozenset[ColumnRef]) -> bool:
    """Return whether a state can have the rows: they refer to no outer rows, and have no nested values."""
    return not free_columns(step) and not any(ref.type.nested for ref in relational.attributes(step) if ref in used)


def _is_below(item: Predicate, step: Join) -> bool:
    """Return whether a condition moves into the state of ``step``.

    A comparison with a constant remains above it, as in ``_shared``, unless the state has constants anyway.
    """
    if not {ref.scan for ref in mentioned(item)} <= set(range_variables(step)):
        return False
    if not all(isinstance(part, (Plain, And, Or, NowFrom, NowBefore, Turns)) or is_scalar(part) for part in walk(item)):
        return False
    return bool(params(step)) or _compared_with_constant(item) is None


def _step(step: Join, conditions: Sequence[Predicate], outline: _Outline) -> tuple[Scan, dict[ColumnRef, ColumnRef]]:
    """Return a scan of the state of ``step``, and its column for each used column of ``step``.

    The inputs of an outer join occur again in its NOT EXISTS, where equal rows do not matter.  Their states differ, and
    so do the range variables.
    """
    refs = [ref for part in step.inputs for ref in relational.attributes(part) if ref in outline.used]
    rows = relational.Select(step, relational.conjunction(*conditions)) if conditions else step
    base = f"{relational.attributes(step.inputs[-1])[0].scan}_step"
    spelled = (base if number == 1 else f"{base}{number}" for number in count(1))
    alias = next(name for name in spelled if outline.steps.setdefault(name, rows) == rows)
    names = relational.distinct_names(refs)
    outputs = tuple(Output(name, ref) for ref, name in names.items())
    columns = {ref: ColumnRef(alias, name, ref.type) for ref, name in names.items()}
    return state_scan(relational.Project(rows, alias, outputs)), columns


def _counts_below(node: Node, *, bag: bool) -> bool:
    """Return whether the number of equal rows in the inputs matters.  With ``bag``, it matters in the node's rows."""
    if isinstance(node, Recursive):
        return node.duplicates
    return (bag or isinstance(node, (Grouped, Windowed))) and not isinstance(node, _SUBQUERIES)


def _counted(node: Node, seen: set[tuple[Node, bool]], *, bag: bool = False) -> Iterator[Node]:
    """Yield the ``Materialized`` inputs in which the number of equal rows matters.

    A query may mention an input both in a join and in NOT EXISTS, with one range variable.  Both then read one state.
    """
    if isinstance(node, relational.Materialized):
        if (node.input, bag) in seen:
            return
        seen.add((node.input, bag))
        if bag:
            yield node.input
    for part in children(node):
        if not is_scalar(part):
            yield from _counted(part, seen, bag=_counts_below(node, bag=bag))


def _without_periods(part: Node) -> Node:
    """Hide the periods of a state: the inputs of a union or of a recursion match by position."""
    if not isinstance(part, Scan) or not isinstance(part.table, StateSchema):
        return part
    shown = (Output(ref.column, ref) for ref in relational.attributes(part) if ref.column not in (STARTS, ENDS))
    return relational.Project(part, f"{part.alias}_rows", tuple(shown))


def _limited(select: relational.Select) -> relational.Select:
    """Mark window functions with the greatest rank that the condition needs.  The condition itself remains."""
    inner = select.input
    project = inner if isinstance(inner, relational.Project) else None
    windowed = inner if project is None else project.input
    if not isinstance(windowed, Windowed) or len(windowed.functions) != 1:
        return select
    rank = windowed.functions[0]
    if rank.function not in RANKS:
        return select
    names: dict[Scalar, Scalar] = {}
    if project is not None:
        names = dict(zip(relational.attributes(project), (output.value for output in project.outputs), strict=True))
    for item in relational.conjuncts(select.predicate):
        match item:
            case (
                relational.Plain(condition=Call(name="<=" | "<" | "=", args=(ref, (Literal() | Param()) as most)))
                | relational.Plain(condition=Call(name=">=" | ">" | "=", args=((Literal() | Param()) as most, ref)))
            ) if names.get(ref, ref) == rank.output:
                limited = replace(windowed, most=most)
                return replace(select, input=limited if project is None else replace(project, input=limited))
            case _:
                continue
    return select


RANKS: Final = ("row_number", "rank", "dense_rank")
"""The window functions that number rows."""
_SUBQUERIES: Final = (relational.Exists, relational.NotExists)


def _is_flat(union: relational.Union) -> bool:
    """Return whether the union has only the blocks that its text has: no input joins or filters another union."""
    inner = (part.input if isinstance(part, (relational.Project, Distinct)) else part for part in union.inputs)
    return all((isinstance(part, relational.Union) and _is_flat(part)) or block_count(part) == 1 for part in inner)


def _materialized(part: Relation) -> Relation:
    """Replace the unions in a relation, but not those in its subqueries, by scans of their states."""
    match part:
        case relational.Union():
            return part if free_columns(part) else state_scan(part)
        case Join(inputs=inputs):
            return Join(tuple(map(_materialized, inputs)))
        case relational.Project(input=inner) | relational.Select(input=inner) | Distinct(input=inner):
            return replace(part, input=_materialized(inner))
        case _:
            return part


def state_scan(operator: Source) -> Scan:
    """Return a scan of the operator's state, with the operator's range variable."""
    lost = free_columns(operator)
    if lost:
        names = ", ".join(sorted(f"{ref.scan}.{ref.column}" for ref in lost))
        raise DerivationError(f"an aggregate or a window function refers to columns of the surrounding query: {names}")
    return Scan(state_of(operator, (TICK_START, TICK_END, TIME_START)), relational.attributes(operator)[0].scan)


def state_of(operator: Relation, window: tuple[Scalar, Scalar, Scalar], names: tuple[str, ...] = ()) -> StateSchema:
    """Return the schema of the operator's state in the window.  Equal operators in equal windows have equal names.

    ``names`` are the range variables in the query's text, unless the operator has them.
    """
    names = names or range_variables(operator)
    operator = renamed(operator)
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
        names,
    )


@remembered
def written(state: StateSchema) -> Relation:
    """Return the operator with the range variables of the query's text."""
    return rename(state.operator, dict(zip(range_variables(state.operator), state.names, strict=True)))


def renamed(operator: Relation) -> Relation:
    """Return the operator with range variables that do not depend on the query's text.

    A scan has the name of its table, and other relations have the names ``d1``, ``d2`` ….  Equal operators of several
    queries therefore have one state.
    """
    tables = {scan.alias: re.sub(r"\W", "_", scan.table.name) for scan in scans(operator)}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for alias in range_variables(operator):
        base = tables.get(alias, "d")
        wanted = (base if n == 1 and alias in tables else f"{base}{n}" for n in count(1))
        names[alias] = next(name for name in wanted if name.lower() not in taken)
        taken.add(names[alias].lower())
    return rename(operator, names)


def _shared(operator: Grouped | Windowed) -> Relation:
    """Return a scan of a state that queries with other constants can share.

    A condition ``x = constant`` below the operator becomes a condition on the state, and ``x`` becomes one of its keys.
    A ``Grouped`` without groups keeps the condition, because its group exists without rows.
    """
    inner = operator.input
    if not isinstance(inner, relational.Select) or (isinstance(operator, Grouped) and not operator.groups):
        return state_scan(operator)
    keys: list[Output] = []
    above: list[relational.Predicate] = []
    below: list[relational.Predicate] = []
    for item in relational.conjuncts(inner.predicate):
        key = _compared_with_constant(item)
        if key is None:
            below.append(item)
            continue
        keys.append(Output(f"{SHARED}{len(keys) + 1}", key))
        ref = ColumnRef(operator.alias, keys[-1].name, key.type)
        above.append(substitute(item, {key: ref}))
    if not keys:
        return state_scan(operator)
    rest = relational.Select(inner.input, relational.conjunction(*below)) if below else inner.input
    wider: Grouped | Windowed
    if isinstance(operator, Grouped):
        wider = replace(operator, input=rest, groups=(*operator.groups, *keys))
    else:
        partition = (*operator.partition, *(key.value for key in keys))
        wider = replace(operator, input=rest, outputs=(*operator.outputs, *keys), partition=partition)
    return relational.Select(state_scan(wider), relational.conjunction(*above))


def _compared_with_constant(item: relational.Predicate) -> Scalar | None:
    """Return the scalar that the condition compares with a parameter, or None for another condition."""
    match item:
        case relational.Plain(condition=Call(name="=", args=(Param(), key) | (key, Param()))):
            return None if isinstance(key, (Param, Literal)) or params(key) else key
        case _:
            return None


def has_own_constants(state: StateSchema) -> bool:
    """Return whether the rows of the state depend on parameters of the query."""
    return bool(params(state.operator)) or any(map(has_own_constants, states(state.operator)))


def states(node: Node) -> tuple[StateSchema, ...]:
    """Return the states that the node reads directly, each once."""
    return tuple(dict.fromkeys(scan.table for scan in scans(node) if isinstance(scan.table, StateSchema)))


def key_columns(state: StateSchema) -> tuple[tuple[str, DataType], ...]:
    """Return the name of the state's column and the type of each key of its operator.

    The keys are the groups, the partition, or the columns that ``key_count`` counts.  A recursion has no keys.
    """
    operator = state.operator
    if isinstance(operator, Recursive):
        return ()
    if isinstance(operator, Windowed):
        shown = {output.value: output.name for output in operator.outputs}
        return tuple((shown.get(value, ""), value.type) for value in operator.partition)
    refs: Sequence[ColumnRef] = relational.attributes(operator)
    refs = refs[: len(operator.groups) if isinstance(operator, Grouped) else key_count(operator)]
    return tuple((ref.column, ref.type) for ref in refs)


def bodies(predicate: Predicate) -> list[Relation]:
    """Return the relations of EXISTS and NOT EXISTS in a condition, but not of those inside them."""
    match predicate:
        case relational.Exists(body=body) | relational.NotExists(body=body):
            return [body]
        case And(items=items) | Or(items=items):
            return [body for item in items for body in bodies(item)]
        case Plain() | NowFrom() | NowBefore() | Turns():
            return []


def compared_columns(demanded: Predicate) -> tuple[ColumnRef, ...]:
    """Return the columns that equal a column of a subquery of the condition.  Both columns have the same type."""
    refs: set[ColumnRef] = set()
    for body in bodies(demanded):
        for item in relational.conjuncts(relational.condition(body)):
            match item:
                case Plain(condition=Call(name="=", args=(ColumnRef() as left, ColumnRef() as right))):
                    refs |= {left, right} & free_columns(body)
                case _:
                    continue
    return tuple(sorted(refs, key=lambda ref: (ref.scan, ref.column)))


def key_count(operator: Relation) -> int:
    """Return the number of the first columns of a ``Distinct``, ``Union`` or ``Project`` that are keys of its state.

    All columns are keys, except of a ``Project`` that begins with the ``compared_columns`` of its input.
    """
    columns = len(relational.attributes(operator))
    if not isinstance(operator, relational.Project):
        return columns
    refs = compared_columns(relational.condition(operator.input))
    begins = tuple(output.value for output in operator.outputs[: len(refs)])
    return len(refs) if refs and set(begins) == set(refs) else columns


def depends_on_time(state: StateSchema) -> bool:
    """Return whether time alone can change the rows of the state."""
    return any(True for _ in thresholds(state.operator)) or any(map(depends_on_time, states(state.operator)))


def begins_with_time(state: StateSchema) -> bool:
    """Return whether the state can have rows from the beginning of time on, without rows of tables."""
    if any(
        isinstance(part, relational.Values) or (isinstance(part, Grouped) and not part.groups)
        for part in walk(state.operator)
    ):
        return True
    return any(map(begins_with_time, states(state.operator)))
