"""Derive the incremental query Q^I(τ, t): the rows that begin in the window [τ, t).

Q^I has one branch per driver (paper section 5, design section 2).  Law: if time is divided into windows, the union of
Q^I over all windows equals the union of Q(s) over all instants s.

Proof: proofs/Laws.v: law_1, law_2, from_now_rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.event import Driver, Event, Instant
from weft.algebra.relation import Scan
from weft.algebra.scalar import TICK_END, TICK_START, Scalar, call
from weft.algebra.traverse import range_variables, rename
from weft.derivation.merge import merged, merged_predicate
from weft.derivation.replay import at, ends, starts
from weft.derivation.simplify import simplify, starts_of

BEFORE: Final = "_before"
"""The suffix of the range variables of Q(s⁻), the query just before the instant s."""
ANSWER: Final = "_answer"
"""The range variable of the derived table that contains the answer."""


def answer(query: relational.Query) -> relational.Project:
    """Return the query as a projection with the range variable ``ANSWER``."""
    return relational.Project(query.input, ANSWER, query.outputs)


def window(s: Scalar) -> relational.Predicate:
    """Return the condition τ <= s < t."""
    return relational.conjunction(relational.Plain(call("<=", TICK_START, s)), relational.Plain(call("<", s, TICK_END)))


def incremental(query: relational.Query, *, from_now: bool = False) -> tuple[Event, ...]:
    """Return the branches of Q^I.  Each branch is one block with the columns of the answer and a column for the
    instant.

    A branch is omitted if its conditions contradict the order of time.  If ``from_now`` is true, a branch omits rows
    that were in the answer just before the branch's instant (``--from now``, design section 2).
    """
    before = _Before(query) if from_now else None
    branches: dict[Event, None] = {}
    for event in starts(answer(query)):
        for branch in merged(event):
            absent = before.absent(branch) if before else relational.TRUE
            branches.update(dict.fromkeys(simplified(branch, first=window(branch.instant), last=absent)))
    return tuple(branches)


def changes(relation: relational.Relation, outputs: tuple[relational.Output, ...]) -> tuple[Event, ...]:
    """Return the branches of all events in the window [τ, t) at which a row of ``outputs`` begins or ends.

    At some events no row of the relation begins or ends, because another row has the same values.
    """
    rows = relational.Project(relation, ANSWER, outputs)
    branches: dict[Event, None] = {}
    for event in (*starts(rows), *ends(rows)):
        for branch in merged(event):
            branches.update(dict.fromkeys(simplified(branch, first=window(branch.instant))))
    return tuple(branches)


def simplified(
    branch: Event, *, first: relational.Predicate = relational.TRUE, last: relational.Predicate = relational.TRUE
) -> Iterator[Event]:
    """Yield the simplified branch with ``first`` and ``last`` as additional conditions, or nothing if it has no
    rows of its own.

    No row of a table begins before time does.  If constant rows begin with time beside a row of a table, then this row
    begins at the same instant, and drives another branch.
    """
    own = relational.sources(branch.block)
    if branch.driver.kind == "beginning" and any(isinstance(each, Scan) and not each.whole for each in own):
        return
    predicate = simplify(relational.conjunction(first, relational.condition(branch.block), last), starts_of(own))
    if predicate != relational.FALSE:
        yield branch.with_block(relational.block(own, predicate))


class _Before:
    """The query Q(s⁻), just before the instant s.  Its range variables have the suffix ``BEFORE``."""

    def __init__(self, query: relational.Query) -> None:
        renamed = rename(answer(query), {name: f"{name}{BEFORE}" for name in range_variables(answer(query))})
        self.rows = renamed

    def absent(self, branch: Event) -> relational.Predicate:
        """Return the condition that Q(s⁻) does not contain the branch's row, where NULL equals NULL."""
        pairs = zip(relational.attributes(self.rows), branch.outputs, strict=True)
        same = [relational.Plain(call("<=>", ref, output.value)) for ref, output in pairs]
        before = at(self.rows, Instant(branch.instant, before=True))
        return merged_predicate(relational.NotExists(relational.Select(before, relational.conjunction(*same))))


def snapshot(query: relational.Query, s: Scalar) -> tuple[Event, ...]:
    """Return the branches of Q(s), the query at the instant s."""
    relation = at(answer(query), Instant(s))
    event = Event(Driver("greatest", s), relation)
    return tuple(event for branch in merged(event) for event in simplified(branch))
