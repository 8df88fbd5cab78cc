"""Derive exact deltas: the rows that enter or leave a relation in a window, with their signs.

An event of ``starts`` or ``ends`` is a candidate: the same row may have other events at the same instant.  An exact
delta occurs once for each combination of rows.  A combination enters at the latest of its starts.  Of several equal
starts, the first one drives the delta.  A combination that was alive before the window leaves at the earliest of its
ends.  A combination that enters in the window carries its own end.

Law: the rows at τ⁻, plus the deltas whose instants are at most s, are the rows at s, with their multiplicities.

Proof: proofs/Deltas.v: exact_steps, state_and_deltas, running_sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from weft.algebra.relation import FALSE, Plain, Predicate, conjunction, conjuncts
from weft.algebra.scalar import TICK_END, TICK_START, Scalar, call
from weft.derivation.lives import Lives
from weft.derivation.simplify import simplify, starts_of


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
