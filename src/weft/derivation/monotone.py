"""Derive Q^M(t), the minimum bounding monotone query (paper sections 4.2 and 4.3).

Q^M has a closed form if all tables are append-only and the bodies of NOT EXISTS are monotone.  The closed form replaces
NOW in each block by GREATEST(c_1 … c_n).  Here the c_i are the start times of the block's rows and the thresholds of
the conditions NOW >= c.  A combination of rows enters the answer at GREATEST(c_1 … c_n) or never, because every other
condition can only become false as time passes.

For other queries the closed form is wrong.  An example is "no reply in the last 14 days", with a reply on day 0 and a
message on day 1.  GREATEST is day 1, but the message enters the answer on day 14.  Without a closed form, Q^M consists
of the branches of Q^I with a window from the beginning of time, ``starts(Q, [t0, t))``.

Proof: proofs/Monotone.v: minimum_bounding_rule, exists_as_join, or_as_blocks, join_of_append_only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.event import INSTANT, Driver, Event, Instant
from weft.algebra.relation import TRUE, block, sources
from weft.algebra.scalar import TICK_END, TIME_START, ColumnRef, Scalar, call, greatest
from weft.algebra.traverse import scans
from weft.derivation.incremental import ANSWER
from weft.derivation.merge import blocks
from weft.derivation.replay import at
from weft.derivation.simplify import difference, present, simplify, starts_of
from weft.derivation.stateful import states

MOST_BLOCKS: Final = 16
"""Q^M uses the closed form for at most this number of blocks."""


@dataclass(frozen=True)
class ClosedFormVerdict:
    """A decision whether Q^M has the closed form, with the reason."""

    closed: bool
    reason: str


@dataclass(frozen=True)
class Block:
    """A conjunction of the conditions ``items`` over the rows of ``sources``."""

    sources: tuple[relational.Source, ...]
    items: tuple[relational.Predicate, ...]


def closed_form_verdict(query: relational.Query) -> ClosedFormVerdict:
    """Return whether Q^M has the paper's closed form, and the reason."""
    if any(scan.table.source == "state" for scan in scans(query)):
        recursive = all(isinstance(state.operator, relational.Recursive) for state in states(query))
        what = "a row of a recursion can end" if recursive else "an aggregate or a window function can change"
        return ClosedFormVerdict(False, f"{what}, so a row can leave the answer and come back")
    if any(not scan.table.append_only for scan in scans(query)):
        return ClosedFormVerdict(False, "a table's rows can end, so a row can leave the answer and come back")
    parts = blocks(query)
    obstacle = next((why for why in (_obstacle(relational.condition(part.input)) for part in parts) if why), None)
    if obstacle:
        return ClosedFormVerdict(False, obstacle)
    if sum(_count_in(part.input) for part in parts) > MOST_BLOCKS:
        return ClosedFormVerdict(
            False, f"the ORs and unions of the query multiply out to more than {MOST_BLOCKS} blocks"
        )
    return ClosedFormVerdict(
        True,
        "a combination of rows that is no answer at the first possible instant never becomes one later, so Weft tests "
        "only that instant",
    )


def minimum_bounding(query: relational.Query) -> tuple[Event, ...]:
    """Return the closed form of Q^M(t), one branch per block.  ``closed_form_verdict`` must allow the closed form."""
    branches = (_branch(expanded, part.outputs) for part in blocks(query) for expanded in _expand(part.input))
    return tuple(branch for branch in branches if branch is not None)


def lasts(query: relational.Query) -> bool:
    """Return whether every row of the answer stays in the answer for ever."""
    return all(scan.table.append_only for scan in scans(query)) and all(
        is_monotone(relational.condition(part.input)) for part in blocks(query)
    )


def is_monotone(predicate: relational.Predicate) -> bool:
    """Return whether a predicate stays true once it is true.  All tables must be append-only."""
    match predicate:
        case relational.Plain():
            return True  # does not depend on time
        case relational.NowFrom():
            return True  # NOW only grows
        case relational.NowBefore() | relational.Turns():
            return False  # becomes false at its threshold
        case relational.And(items=items) | relational.Or(items=items):
            return all(is_monotone(item) for item in items)
        case relational.Exists(body=body):
            return is_monotone(relational.condition(body))  # rows of the body are only added
        case relational.NotExists():
            return False  # a row that blocks may arrive


def _obstacle(predicate: relational.Predicate) -> str | None:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.Turns():
            return None
        case relational.And(items=items) | relational.Or(items=items):
            return next((why for why in map(_obstacle, items) if why), None)
        case relational.Exists(body=body):
            return _obstacle(relational.condition(body))
        case relational.NotExists(body=body):
            if is_monotone(relational.condition(body)):
                return None
            return (
                "a condition under a NOT EXISTS can end as time passes (NOW() < …, or another NOT EXISTS), so the NOT "
                "EXISTS can become true after all rows have arrived and all other conditions hold"
            )


def _expand(relation: relational.Relation) -> list[Block]:
    """Join the body of each EXISTS to its block.  The join may repeat rows, but an answer has only distinct rows."""
    own = sources(relation)
    return [Block(own + block.sources, block.items) for block in _alternatives(relational.condition(relation))]


def _alternatives(predicate: relational.Predicate) -> list[Block]:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.NotExists():
            return [Block((), (predicate,))]
        case relational.And(items=items):
            return [_merged(chosen) for chosen in product(*map(_alternatives, items))]
        case relational.Or(items=items) | relational.Turns(items=items):
            if all(isinstance(item, relational.Plain) for item in items) and items:
                return [Block((), (predicate,))]
            return [block for item in items for block in _alternatives(item)]
        case relational.Exists(body=body):
            return _expand(body)


def _count_in(relation: relational.Relation) -> int:
    """Count the blocks that ``_expand`` would build, because the blocks themselves may not fit into memory."""
    return _count(relational.condition(relation))


def _count(predicate: relational.Predicate) -> int:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.NotExists():
            return 1
        case relational.And(items=items):
            return prod(map(_count, items))
        case relational.Or(items=items) | relational.Turns(items=items):
            return 1 if items and all(isinstance(item, relational.Plain) for item in items) else sum(map(_count, items))
        case relational.Exists(body=body):
            return _count_in(body)


def _merged(parts: tuple[Block, ...]) -> Block:
    return Block(tuple(s for part in parts for s in part.sources), tuple(i for part in parts for i in part.items))


def _branch(part: Block, outputs: tuple[relational.Output, ...]) -> Event | None:
    starts = [source.start if isinstance(source, relational.Scan) else TIME_START for source in part.sources]
    never_null = starts_of(part.sources)
    thresholds = [item.threshold for item in part.items if isinstance(item, relational.NowFrom)]
    s = greatest(tuple(_latest([*dict.fromkeys(starts), *thresholds], never_null)))
    demanded: list[relational.Predicate] = [relational.Plain(call("<", s, TICK_END))]
    # GREATEST skips NULL, but a condition with a NULL threshold is never true.  Therefore require thresholds that are
    # not NULL.
    demanded += [present(c, never_null) for c in thresholds]
    demanded += [at(item, Instant(s)) for item in part.items if not isinstance(item, relational.NowFrom)]
    predicate = simplify(relational.conjunction(*demanded), never_null)
    if predicate == relational.FALSE:
        return None
    return Event(
        Driver("greatest", s),
        relational.Project(block(part.sources, predicate), ANSWER, (*outputs, relational.Output(INSTANT, s))),
    )


def _latest(instants: list[Scalar], never_null: frozenset[ColumnRef]) -> list[Scalar]:
    """Remove instants that are never the latest.  For example, m.ts is never later than m.ts + 28 days."""
    latest: list[Scalar] = []
    if any(instant in never_null for instant in instants):
        instants = [instant for instant in instants if instant != TIME_START]  # no row begins before t0
    for index, instant in enumerate(instants):
        others = latest + instants[index + 1 :]
        if not any(_never_before(instant, other) and present(other, never_null) == TRUE for other in others):
            latest.append(instant)
    return latest


def _never_before(earlier: Scalar, later: Scalar) -> bool:
    bounds = difference(earlier, later)
    return bounds is not None and bounds[0] is not None and bounds[0] >= 0
