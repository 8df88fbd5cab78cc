"""Derive exact deltas: the rows that enter or leave a relation in a window, with their signs.

An event of ``starts`` or ``ends`` is a candidate: the same row may have other events at the same instant.  An exact
delta occurs once for each combination of rows.  A combination enters at the latest of its starts.  Of several equal
starts, the first one drives the delta.  A combination that was alive before the window leaves at the earliest of its
ends.  A combination that enters in the window carries its own end.

A combination with subqueries has no exact deltas of this kind: several events can begin it at one instant.  The
combinations of a block with subqueries are therefore the rows of a state (``with_states``).  Its keys are the columns
that equal columns of the subqueries, because a row of a subquery changes only combinations with its key.  A tick
computes the rows of the keys that change, as it computes touched groups.  Those that begin or end in the window are the
deltas.

Law: the rows at τ⁻, plus the deltas whose instants are at most s, are the rows at s, with their multiplicities.

Proof: proofs/Deltas.v: exact_steps, state_and_deltas, running_sum; proofs/Groups.v: touched_delta, subqueries_delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from weft.algebra import relation as relational
from weft.algebra.relation import (
    FALSE,
    Output,
    Plain,
    Predicate,
    Project,
    Relation,
    Scan,
    StateSchema,
    conjunction,
    conjuncts,
)
from weft.algebra.scalar import TICK_END, TICK_START, Scalar, call
from weft.algebra.traverse import range_variables
from weft.derivation.lives import Lives, lives
from weft.derivation.merge import mergeable_blocks
from weft.derivation.simplify import simplify, starts_of
from weft.derivation.stateful import compared_columns, state_of


@dataclass(frozen=True)
class Delta:
    """Combinations that enter (``sign`` 1) with their periods, or that leave (``sign`` -1) at ``life.start``."""

    life: Lives
    sign: OneOf[1, -1]


def deltas(rows: Sequence[Lives]) -> tuple[Delta, ...] | None:
    """Return the exact deltas of lives in the window [τ, t), or None if a life has subqueries."""
    if any(life.subqueries for life in rows):
        return None
    return tuple(delta for life in rows for delta in (*_entering(life), *_leaving(life)))


def with_states(state: StateSchema, relation: Relation, outputs: Sequence[Output], keys: int) -> tuple[Lives, ...]:
    """Return the lives of ``outputs`` over the input ``relation`` of a state.  The first ``keys`` outputs are its keys.

    The rows of a block with subqueries are those of another state in the same window.  There is no such state if the
    columns that equal those of subqueries are keys, because a tick then looks the touched groups up.
    """
    found: list[Lives] = []
    parts = mergeable_blocks(relation, [output.value for output in outputs])
    if all(set(compared_columns(part.condition)) <= set(part.values[:keys]) for part in parts):
        return lives(relation, outputs)
    for part in parts:
        rows, values = relational.block(part.sources or (relational.UNIT,), part.condition), part.values
        compared = compared_columns(part.condition)
        if compared:
            named = (Output(f"c{n}", value) for n, value in enumerate((*compared, *values), 1))
            rows = _scan(state, rows, tuple(named))
            values = relational.attributes(rows)[len(compared) : len(compared) + len(values)]
        found += lives(rows, [Output(output.name, value) for output, value in zip(outputs, values, strict=True)])
    return tuple(found)


def _scan(state: StateSchema, rows: Relation, outputs: tuple[Output, ...]) -> Scan:
    """Return a scan of a state with these rows.  Explanations call its range variables as the text does."""
    known = range_variables(state.operator)
    spelled = dict(zip(known, state.names, strict=True))
    whole = Project(rows, f"{max(known, key=len)}_rows", outputs)
    names = tuple(spelled.get(alias, alias) for alias in range_variables(whole))
    return Scan(state_of(whole, state.window, names), whole.alias)


def _entering(life: Lives) -> Iterator[Delta]:
    for place, instant in enumerate(life.starts):
        latest: list[Scalar] = [call("<", other, instant) for other in life.starts[:place]]
        latest += [call("<=", other, instant) for other in life.starts[place + 1 :]]
        yield from _delta(replace(life, starts=(instant,)), instant, latest, 1)


def _leaving(life: Lives) -> Iterator[Delta]:
    for place, instant in enumerate(life.ends):
        earliest: list[Scalar] = [
            call("is not null", instant),
            *(call("<", start, TICK_START) for start in life.starts),
        ]
        earliest += [_or_null(other, call("<", instant, other)) for other in life.ends[:place]]
        earliest += [_or_null(other, call("<=", instant, other)) for other in life.ends[place + 1 :]]
        yield from _delta(replace(life, starts=(instant,), ends=()), instant, earliest, -1)


def _or_null(end: Scalar, condition: Scalar) -> Scalar:
    return call("or", call("is null", end), condition)


def _delta(life: Lives, instant: Scalar, more: Sequence[Scalar], sign: OneOf[1, -1]) -> Iterator[Delta]:
    inside = (call("<=", TICK_START, instant), call("<", instant, TICK_END))
    demanded: Predicate = conjunction(*map(Plain, (*inside, *life.conditions, *more)))
    needed = simplify(demanded, starts_of(life.sources))
    if needed == FALSE:
        return
    conditions = tuple(item.condition for item in conjuncts(needed) if isinstance(item, Plain))
    yield Delta(replace(life, conditions=conditions), sign)
