"""Merge nested blocks into one, so that Spark runs the query without nested derived tables.

Nested joins and selections become one block.  A derived table is replaced by its input.  Each column of a derived table
is replaced by the definition of the column.  A block over a union becomes several blocks.  Under EXISTS, a union
becomes an OR.  δ is removed, because the rows of an answer are distinct anyway (design section 1).

Law: the blocks of a relation together have the rows of the relation, apart from duplicates.

Proof: proofs/Rewrites.v: merge_rule, merged_exists, merged_not_exists.

>>> from shown import M, R, show
>>> from weft.algebra.relation import Output
>>> from weft.algebra.scalar import call
>>> from weft.algebra.schema import STRING
>>> ids = Project(Join((M, R)), "d", (Output("id", M.ref("msgid")),))
>>> for merged in blocks(Query(Select(ids, Plain(call("=", ColumnRef("d", "id", STRING), R.ref("inreplyto")))),
...                            (Output("id", ColumnRef("d", "id", STRING)),))):
...     show(merged.input)
FROM msgs AS m, replies AS r
WHERE m.msgid = r.inreplyto
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import prod

from weft.algebra.event import Event
from weft.algebra.relation import (
    TRUE,
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
    Plain,
    Predicate,
    Project,
    Query,
    Recurrence,
    Recursive,
    Relation,
    Scan,
    Select,
    Source,
    Turns,
    Union,
    Unnest,
    Values,
    Windowed,
    attributes,
    block,
    conjunction,
    disjunction,
)
from weft.algebra.scalar import ColumnRef, Scalar
from weft.algebra.traverse import free_columns, mentioned, range_variables, rename, substitute
from weft.errors import DerivationError

Meaning = Mapping[ColumnRef, Scalar]


@dataclass(frozen=True)
class _Block:
    """``meaning`` maps each column of a derived table to the definition of the column."""

    sources: tuple[Source, ...]
    condition: Predicate
    meaning: Meaning

    @property
    def relation(self) -> Relation:
        return block(opened(self.sources, self.meaning), substitute(self.condition, self.meaning))


def opened(sources: tuple[Source, ...], meaning: Meaning) -> tuple[Source, ...]:
    """Return ``sources`` in which arrays name columns of sources, and follow the sources that they name."""
    ordered: list[Source] = [each for each in sources if not isinstance(each, Unnest)]
    arrays = [substitute(each, meaning) for each in sources if isinstance(each, Unnest)]
    while arrays:
        waiting = {each.alias for each in arrays}
        ready = next(each for each in arrays if not {ref.scan for ref in mentioned(each)} & waiting)
        ordered.append(ready)
        arrays.remove(ready)
    return tuple(ordered)


@dataclass(frozen=True)
class MergedBlock:
    """One block of a relation, with the ``values`` of scalars over the relation."""

    sources: tuple[Source, ...]
    condition: Predicate
    values: tuple[Scalar, ...]


def mergeable_blocks(relation: Relation, values: Sequence[Scalar]) -> tuple[MergedBlock, ...]:
    """Split a relation without ``Distinct`` into blocks that together have its rows, with their multiplicities."""
    return tuple(
        MergedBlock(
            opened(part.sources, part.meaning),
            substitute(part.condition, part.meaning),
            tuple(substitute(value, part.meaning) for value in values),
        )
        for part in _blocks(relation)
    )


def blocks(query: Query) -> tuple[Query, ...]:
    """Split a query into queries of one block each.  The union of these queries equals the original query."""
    return tuple(Query(part.relation, substitute(query, part.meaning).outputs) for part in _blocks(query.input))


def merged(event: Event) -> tuple[Event, ...]:
    """Split an event into events of one block each.  Together, these events have the rows of the original event."""
    top = event.projection
    events = []
    for part in _blocks(top.input):
        outputs = tuple(replace(output, value=substitute(output.value, part.meaning)) for output in top.outputs)
        meaning = {ref: output.value for ref, output in zip(attributes(top), outputs, strict=True)}
        driver = replace(event.driver, instant=substitute(event.driver.instant, meaning))
        events.append(_whole(Event(driver, Project(part.relation, top.alias, outputs))))
    return tuple(events)


def _whole(branch: Event) -> Event:
    """Raise DerivationError if the branch names a column that none of its sources has."""
    lost = free_columns(branch.projection) | {
        ref for ref in mentioned(branch.instant) if ref.scan not in range_variables(branch.block)
    }
    if lost:
        names = ", ".join(sorted(f"{ref.scan}.{ref.column}" for ref in lost))
        raise DerivationError(f"a branch names columns that it does not have: {names}")
    return branch


def _blocks(relation: Relation) -> list[_Block]:
    match relation:
        case Scan() | Values() | Unnest():
            return [_Block((relation,), TRUE, {})]
        case Join(inputs=inputs):
            return [_joined(parts) for parts in product(*map(_blocks, inputs))]
        case Select(input=inner, predicate=predicate):
            opened = merged_predicate(predicate)
            return [replace(part, condition=conjunction(part.condition, opened)) for part in _blocks(inner)]
        case Project(input=inner):
            return [_derived(part, relation) for part in _blocks(inner)]
        case Distinct(input=inner):
            return _blocks(inner)
        case Union(inputs=inputs):
            return [_of_union(part, one, relation) for one in inputs for part in _blocks(one)]
        case Grouped() | Windowed() | Materialized() | Recurrence() | Recursive():
            raise DerivationError("a stateful operator must be a scan of its state (derivation.stateful)")


def block_count(node: Relation | Predicate) -> int:
    """Return the number of blocks of a relation without building the blocks.  A predicate counts as one block."""
    match node:
        case Join(inputs=parts):
            return prod(map(block_count, parts))
        case Union(inputs=parts):
            return sum(map(block_count, parts))
        case Select(input=inner) | Project(input=inner) | Distinct(input=inner):
            return block_count(inner)
        case _:
            return 1


def _joined(parts: tuple[_Block, ...]) -> _Block:
    sources = tuple(source for part in parts for source in part.sources)
    meaning: dict[ColumnRef, Scalar] = reduce(lambda known, part: {**known, **part.meaning}, parts, {})
    return _Block(sources, conjunction(*(part.condition for part in parts)), _settled(meaning))


def _settled(meaning: Meaning) -> Meaning:
    """Expand each definition until the definition names only columns of sources.

    The definition of a column may name a column of another derived table ``d``.  An example is ``d.id IN (SELECT d.id
    FROM …)`` if the subquery is the driver and is joined with ``d``.
    """
    while any(mentioned(value) & meaning.keys() for value in meaning.values()):
        meaning = {ref: substitute(value, meaning) for ref, value in meaning.items()}
    return meaning


def _derived(part: _Block, project: Project) -> _Block:
    values = (substitute(output.value, part.meaning) for output in project.outputs)
    return replace(part, meaning={**part.meaning, **dict(zip(attributes(project), values, strict=True))})


def _of_union(part: _Block, one: Relation, union: Union) -> _Block:
    values = (substitute(ref, part.meaning) for ref in attributes(one))
    return replace(part, meaning={**part.meaning, **dict(zip(attributes(union), values, strict=True))})


def merged_predicate(predicate: Predicate) -> Predicate:
    """Return an equivalent predicate in which the body of each subquery is one block."""
    match predicate:
        case Plain() | NowFrom() | NowBefore() | Turns():
            return predicate
        case And(items=items):
            return conjunction(*map(merged_predicate, items))
        case Or(items=items):
            return disjunction(*map(merged_predicate, items))
        case Exists(body=body):
            return disjunction(*map(Exists, _disjoint_blocks(body)))
        case NotExists(body=body):
            return conjunction(*map(NotExists, _disjoint_blocks(body)))


def _disjoint_blocks(body: Relation) -> Iterator[Relation]:
    """The blocks have disjoint range variables."""
    taken: set[str] = set()
    for position, part in enumerate(_blocks(body)):
        relation = part.relation
        names: dict[str, str] = {}
        for alias in range_variables(relation):
            name = alias
            while name in taken:
                name = f"{alias}_or{position}" if name == alias else f"{name}_"
            taken.add(name)
            names[alias] = name
        yield rename(relation, {alias: name for alias, name in names.items() if alias != name})
