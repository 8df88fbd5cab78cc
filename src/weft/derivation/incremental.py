"""Derive the incremental query Q^I(τ, t): the rows that begin in the window [τ, t).

Q^I has one branch per driver (paper section 5, design section 2).  Law: if time is divided into windows, the union of
Q^I over all windows equals the union of Q(s) over all instants s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.algebra.event import Driver, Event, Instant
from weft.algebra.relation import (
    FALSE,
    TRUE,
    NotExists,
    Plain,
    Predicate,
    Project,
    Query,
    Select,
    attributes,
    block,
    condition,
    conjunction,
    sources,
)
from weft.algebra.scalar import TICK_END, TICK_START, Scalar, call
from weft.algebra.traverse import range_variables, rename
from weft.derivation.merge import merged, merged_predicate
from weft.derivation.replay import at, starts
from weft.derivation.simplify import simplify, starts_of

BEFORE: Final = "_before"
"""The suffix that names the range variables of the query just before an instant."""
ANSWER: Final = "_answer"
"""The range variable of the derived table that contains the rows of the answer."""


def answer(query: Query) -> Project:
    """Return the query as a projection with the range variable ``ANSWER``."""
    return Project(query.input, ANSWER, query.outputs)


def window(s: Scalar) -> Predicate:
    """Return the condition τ <= s < t."""
    return conjunction(Plain(call("<=", TICK_START, s)), Plain(call("<", s, TICK_END)))


def incremental(query: Query, *, from_now: bool = False) -> tuple[Event, ...]:
    """Return the branches of Q^I; each is a projection of one block to the answer's columns and the instant.

    Branches that the order of time makes impossible are left out.  With ``from_now``, a branch returns only rows that
    were not in the answer just before their instant (``--from now``, design section 2).
    """
    before = _Before(query) if from_now else None
    branches: dict[Event, None] = {}
    for event in starts(answer(query)):
        for branch in merged(event):
            absent = before.absent(branch) if before else TRUE
            branches.update(dict.fromkeys(simplified(branch, first=window(branch.instant), last=absent)))
    return tuple(branches)


def simplified(branch: Event, *, first: Predicate = TRUE, last: Predicate = TRUE) -> Iterator[Event]:
    """Yield the simplified branch, or nothing if the branch can return no row.

    The condition of the branch becomes ``first``, its own condition, and ``last``, combined by AND.
    """
    own = sources(branch.block)
    kept = simplify(conjunction(first, condition(branch.block), last), starts_of(own))
    if kept != FALSE:
        yield branch.with_block(block(own, kept))


class _Before:
    """The query as of just before an instant; its range variables have the suffix ``BEFORE``."""

    def __init__(self, query: Query) -> None:
        renamed = rename(answer(query), {name: f"{name}{BEFORE}" for name in range_variables(answer(query))})
        self.rows = renamed

    def absent(self, branch: Event) -> Predicate:
        """Return the condition that the row of the branch is not in Q(s⁻); the comparison of rows treats NULL as equal
        to NULL.
        """
        pairs = zip(attributes(self.rows), branch.outputs, strict=True)
        same = [Plain(call("<=>", ref, output.value)) for ref, output in pairs]
        before = at(self.rows, Instant(branch.instant, before=True))
        return merged_predicate(NotExists(Select(before, conjunction(*same))))


def snapshot(query: Query, s: Scalar) -> tuple[Event, ...]:
    """Return the branches of Q(s), the query at the one instant ``s``."""
    found = at(answer(query), Instant(s))
    event = Event(Driver("greatest", s), found)
    return tuple(kept for branch in merged(event) for kept in simplified(branch))
