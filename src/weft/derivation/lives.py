"""Derive the lives of a relation: its rows with the periods in which they are in the relation.

A combination of rows is alive from the latest of the starts of its rows and of its thresholds NOW >= c, to the earliest
of their ends and of its thresholds NOW < d.  A condition with OR is split into alternatives that exclude each other.
The number of equal rows is therefore right at every instant.  A comparison that turns several times (``Turns``) has
periods that exclude each other.  The combination is joined with these periods, which are the elements of an array.  A
combination with subqueries is alive while each EXISTS has a row and each NOT EXISTS has none.

Law: at every instant s, the lives that contain s are the rows of ``at(E, s)``, with their multiplicities.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.relation import (
    And,
    Exists,
    NotExists,
    NowBefore,
    NowFrom,
    Or,
    Output,
    Plain,
    Predicate,
    Relation,
    Scan,
    Source,
    Turns,
    Unnest,
)
from weft.algebra.scalar import TIME_START, TRUE, Call, ColumnRef, Literal, Scalar, call, greatest
from weft.algebra.schema import BOOLEAN, STRING, TIMESTAMP, Column, DataType
from weft.algebra.traverse import mentioned, substitute
from weft.derivation.merge import mergeable_blocks
from weft.derivation.simplify import present, starts_of
from weft.errors import DerivationError, SqlError
from weft.instants import from_datetime

MOST_ALTERNATIVES: Final = 64
"""An OR of conditions that depend on time or on subqueries may have at most this number of alternatives."""
_NEVER: Final = Literal(from_datetime(dt.datetime(1, 1, 3)), TIMESTAMP, fixed=True)
_ALWAYS: Final = Literal(from_datetime(dt.datetime(9999, 12, 29)), TIMESTAMP, fixed=True)
"""Instants that NOW does not reach.  They are two days within the years 1 to 9999: each zone's clock shows them."""
_PERIOD: Final = DataType("STRUCT", fields=(("begun", TIMESTAMP), ("ended", TIMESTAMP)))
PERIODS: Final = "_p"
"""The beginning of the range variables of periods."""
KEYS: Final = "_k"
"""The range variable of the keys to which a tick restricts a state."""


@dataclass(frozen=True)
class Lives:
    """The combinations of rows of ``sources`` for which ``conditions`` are true, with the period [``start``, ``end``).

    No instant of ``starts`` is NULL.  An instant of ``ends`` is NULL for a row that does not end.  ``subqueries``
    contains, for each EXISTS (True) and NOT EXISTS (False), the lives of the combinations together with a row of the
    subquery.  The last ``carried`` outputs only decide whether the subqueries have a row.
    """

    sources: tuple[Source, ...]
    conditions: tuple[Scalar, ...]
    starts: tuple[Scalar, ...]
    ends: tuple[Scalar, ...]
    outputs: tuple[Output, ...]
    subqueries: tuple[tuple[bool, tuple[Lives, ...]], ...] = ()
    carried: int = 0

    @property
    def start(self) -> Scalar:
        """The latest of ``starts``."""
        return greatest(self.starts)

    @property
    def end(self) -> Scalar | None:
        """The earliest of those ``ends`` that are not NULL, or None if there are none."""
        if len(self.ends) < 2:
            return next(iter(self.ends), None)
        return Call("least", self.ends, TIMESTAMP)


def with_scalars(life: Lives, change: Callable[[Scalar], Scalar]) -> Lives:
    """Apply ``change`` to every scalar of the life and of its subqueries."""
    return replace(
        life,
        sources=tuple(
            replace(source, value=change(source.value)) if isinstance(source, Unnest) else source
            for source in life.sources
        ),
        conditions=tuple(map(change, life.conditions)),
        starts=tuple(map(change, life.starts)),
        ends=tuple(map(change, life.ends)),
        outputs=tuple(Output(output.name, change(output.value)) for output in life.outputs),
        subqueries=tuple(
            (wanted, tuple(with_scalars(body, change) for body in bodies)) for wanted, bodies in life.subqueries
        ),
    )


def with_bodies(rows: Iterable[Lives]) -> Iterator[Lives]:
    """Yield the lives and those of their subqueries."""
    for life in rows:
        yield life
        for _, bodies in life.subqueries:
            yield from with_bodies(bodies)


def lives(
    relation: Relation, outputs: Sequence[Output], keys: tuple[Scan, Sequence[Scalar]] | None = None
) -> tuple[Lives, ...]:
    """Return the lives of ``outputs`` over ``relation``.  Together, they have the rows of the relation.

    ``keys`` is a scan of keys and the scalars that the columns of the scan restrict.
    Raise SqlError for a condition with too many alternatives.
    """
    parts = []
    for block in mergeable_blocks(relation, (*(output.value for output in outputs), *(keys[1] if keys else ()))):
        values = block.values[: len(outputs)]
        named = tuple(Output(output.name, value) for output, value in zip(outputs, values, strict=True))
        own, demanded = block.sources, block.condition
        if keys:
            own = (*own, keys[0])
            pairs = zip(relational.attributes(keys[0]), block.values[len(outputs) :], strict=False)
            demanded = relational.conjunction(*(Plain(_matching(ref, value)) for ref, value in pairs), demanded)
        parts += _lives(own, demanded, named)
    return tuple(parts)


def _matching(key: ColumnRef, value: Scalar) -> Scalar:
    """A column of keys whose name ends with ``_`` may contain NULL."""
    return call("<=>" if key.column.endswith("_") else "=", value, key)


def _lives(own: tuple[Source, ...], demanded: Predicate, outputs: tuple[Output, ...]) -> list[Lives]:
    alternatives = _alternatives(demanded, starts_of(own))
    if len(alternatives) > MOST_ALTERNATIVES:
        raise _too_many(len(alternatives))
    return [_life(own, items, outputs) for items in alternatives]


def _too_many(count: int) -> SqlError:
    return SqlError(
        f"the ORs below an aggregate multiply out to {count} alternatives, but at most {MOST_ALTERNATIVES} are allowed",
        hint="Split the query into several with fewer ORs below the aggregate.",
    )


def _life(own: tuple[Source, ...], items: tuple[Predicate, ...], outputs: tuple[Output, ...]) -> Lives:
    own, items = _with_periods(own, items)
    bodies = [item for item in items if isinstance(item, (Exists, NotExists))]
    rest = tuple(item for item in items if not isinstance(item, (Exists, NotExists)))
    starts, ends = _bounds(own)
    if not starts:  # constant rows begin with time, even if NOW reached a threshold earlier
        starts.append(TIME_START)
    conditions: list[Scalar] = []
    for item in rest:
        match item:
            case Plain(condition=test):
                conditions.append(test)
            case NowFrom(threshold=threshold):
                starts.append(threshold)
                conditions.append(call("is not null", threshold))
            case NowBefore(threshold=threshold):
                ends.append(threshold)
                conditions.append(call("is not null", threshold))
            case _:
                raise DerivationError(f"no life for {type(item).__name__}")
    bounds = tuple(dict.fromkeys(starts)), tuple(dict.fromkeys(ends))
    carried = _carried(own, outputs, bodies) if bodies else outputs
    subqueries = tuple(
        (
            isinstance(item, Exists),
            tuple(
                _lives(
                    (*own, *relational.sources(item.body)),
                    relational.conjunction(*rest, relational.condition(item.body)),
                    carried,
                )
            ),
        )
        for item in bodies
    )
    if not subqueries:
        return Lives(own, tuple(conditions), *bounds, outputs)
    return Lives(own, tuple(conditions), *bounds, carried, subqueries, len(carried) - len(outputs))


def _with_periods(
    own: tuple[Source, ...], items: tuple[Predicate, ...]
) -> tuple[tuple[Source, ...], tuple[Predicate, ...]]:
    """Join the combinations with the periods of each comparison that turns several times.

    If the turns are instants of the clock of a zone, so are the bounds of the periods.  The conditions that NOW is
    between them are ``Turns`` again.
    """
    waiting, found = list(items), list[Predicate]()
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, Turns):
            periods = _periods(item, f"{PERIODS}{len(own)}")
            begun, ended = relational.attributes(periods)
            turn = item.turns[-1]
            own = (*own, periods)
            waiting += [_turn_at(turn, begun), relational.opposite(_turn_at(turn, ended))]
        else:
            found.append(item)
    return own, tuple(found)


def _periods(turns: Turns, alias: str) -> Unnest:
    bounds = [*((_NEVER,) if turns.begun else ()), *(relational.turn_value(turn) for turn in turns.turns)]
    bounds += (_ALWAYS,) if len(bounds) % 2 else ()
    names = [Literal(name, STRING, fixed=True) for name, _ in _PERIOD.fields]
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    rows = (Call("named_struct", (names[0], begun, names[1], ended), _PERIOD) for begun, ended in pairs)
    columns = tuple(Column(number, name, type) for number, (name, type) in enumerate(_PERIOD.fields, 1))
    return Unnest(Call("array", tuple(rows), DataType("ARRAY", element=_PERIOD)), alias, columns)


def _turn_at(turn: NowFrom | Turns, instant: Scalar) -> NowFrom | Turns:
    return substitute(turn, {relational.turn_value(turn): instant})


def _carried(own: tuple[Source, ...], outputs: tuple[Output, ...], bodies: Sequence[Predicate]) -> tuple[Output, ...]:
    """Return the outputs, and the columns that decide whether the subqueries have a row."""
    mine = {ref for source in own for ref in relational.attributes(source)}
    asked = {ref for body in bodies for ref in mentioned(body)} & mine
    more = sorted(asked, key=lambda ref: (ref.scan, ref.column))
    return (*outputs, *(Output(f"_x{number}", ref) for number, ref in enumerate(more, len(outputs) + 1)))


def _bounds(own: tuple[Source, ...]) -> tuple[list[Scalar], list[Scalar]]:
    starts: list[Scalar] = []
    ends: list[Scalar] = []
    for source in own:
        if isinstance(source, Scan) and source.alias != KEYS:
            starts.append(source.start)
            if source.table.end is not None:
                ends.append(source.ref(source.table.end))
    return starts, ends


def _alternatives(predicate: Predicate, never_null: frozenset[ColumnRef]) -> list[tuple[Predicate, ...]]:
    """Return conjunctions of which exactly one is true if ``predicate`` is true, and none otherwise."""
    match predicate:
        case And(items=items):
            return [
                tuple(item for part in parts for item in part)
                for parts in _product([_alternatives(item, never_null) for item in items])
            ]
        case Or(items=items) if not _is_plain(predicate):
            items = tuple(sorted(items, key=lambda item: not _is_plain(item)))  # their negations are plain, too
            found: list[tuple[Predicate, ...]] = []
            for position, item in enumerate(items):
                before = relational.conjunction(*(_negation(each, never_null) for each in items[:position]))
                found += _alternatives(relational.conjunction(item, before), never_null)
            return found
        case Or():
            return [(Plain(_as_scalar(predicate)),)]
        case _:
            return [(predicate,)]


def _product(parts: list[list[tuple[Predicate, ...]]]) -> Iterator[tuple[tuple[Predicate, ...], ...]]:
    count = reduce(lambda a, b: a * len(b), parts, 1)
    if count > MOST_ALTERNATIVES:
        raise _too_many(count)
    rows: list[tuple[tuple[Predicate, ...], ...]] = [()]
    for part in parts:
        rows = [(*row, one) for row in rows for one in part]
    return iter(rows)


def _is_plain(predicate: Predicate) -> bool:
    match predicate:
        case Plain():
            return True
        case And(items=items) | Or(items=items):
            return all(map(_is_plain, items))
        case _:
            return False


def _as_scalar(predicate: Predicate) -> Scalar:
    """Return a plain predicate as a scalar that is not true exactly if the predicate is not true."""
    match predicate:
        case Plain(condition=test):
            return test
        case And(items=()):
            return TRUE
        case Or(items=()):
            return Literal(False, BOOLEAN, fixed=True)
        case And(items=items):
            return reduce(lambda a, b: call("and", a, b), map(_as_scalar, items))
        case Or(items=items):
            return reduce(lambda a, b: call("or", a, b), map(_as_scalar, items))
        case _:
            raise DerivationError(f"no scalar for {type(predicate).__name__}")


def _negation(predicate: Predicate, never_null: frozenset[ColumnRef]) -> Predicate:
    """Return the predicate that is true exactly if ``predicate`` is not true."""
    match predicate:
        case And(items=items):
            return relational.disjunction(*(_negation(item, never_null) for item in items))
        case Or(items=items):
            return relational.conjunction(*(_negation(item, never_null) for item in items))
        case Plain(condition=test):
            return Plain(call("not", call("coalesce", test, Literal(False, BOOLEAN, fixed=True))))
        case Turns(unknown=unknown):
            known = unknown.condition in {call("is null", ref) for ref in never_null}
            return relational.disjunction(relational.opposite(predicate), *(() if known else (unknown,)))
        case NowFrom(threshold=threshold):
            return NowBefore(_or_else(threshold, _ALWAYS, never_null))
        case NowBefore(threshold=threshold):
            return NowFrom(_or_else(threshold, _NEVER, never_null))
        case Exists(body=body):
            return NotExists(body)
        case NotExists(body=body):
            return Exists(body)


def _or_else(threshold: Scalar, other: Literal, never_null: frozenset[ColumnRef]) -> Scalar:
    """A condition with a NULL threshold is not true, so its negation is true."""
    if present(threshold, never_null) == relational.TRUE:
        return threshold
    return Call("coalesce", (threshold, other), TIMESTAMP)
