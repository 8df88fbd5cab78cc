"""Q^M(t), the minimum bounding monotone query (paper sections 4.2 and 4.3).

Where a query is a disjunction of blocks on append-only tables whose NOT EXISTS bodies are monotone it has a closed
form: each block's NOW becomes GREATEST(c_1 … c_n), the c_i being the starts of its rows and its NOW >= c thresholds.  A
combination of rows holds from that instant on or never: every other condition can only turn false as time goes on.

Elsewhere the closed form is wrong (reply at 0, message at 1, "no reply in the last 14": GREATEST = 1 gives nothing, the
answer starts at 14), and Q^M is ``starts(Q, [t0, t))``, the branches of Q^I with the window open at its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.event import INSTANT, Driver, Event, Instant
from weft.algebra.relation import block, sources
from weft.algebra.scalar import TICK_END, TIME_START, ColumnRef, Scalar, call, greatest, shifted
from weft.algebra.traverse import scans
from weft.derivation.incremental import ANSWER
from weft.derivation.merge import blocks
from weft.derivation.replay import at
from weft.derivation.simplify import difference, present, simplify, starts_of

MOST_BLOCKS: Final = 16
"""A query with more disjuncts is not multiplied out; the branches of Q^I are used instead."""


@dataclass(frozen=True)
class ClosedFormVerdict:
    """Whether the closed form applies, and the reason."""

    closed: bool
    reason: str


@dataclass(frozen=True)
class Block:
    """A conjunction: its sources and its conditions."""

    sources: tuple[relational.Source, ...]
    items: tuple[relational.Predicate, ...]


def closed_form_verdict(query: relational.Query) -> ClosedFormVerdict:
    """Return whether Q^M has the paper's closed form, with the reason."""
    if any(not scan.table.append_only for scan in scans(query)):
        return ClosedFormVerdict(False, "a table's rows can end, so a row can leave the answer and come back")
    parts = blocks(query)
    obstacle = next((why for why in (_obstacle(relational.condition(part.input)) for part in parts) if why), None)
    if obstacle:
        return ClosedFormVerdict(False, obstacle)
    if sum(_count_in(part.input) for part in parts) > MOST_BLOCKS:
        return ClosedFormVerdict(False, f"its ORs and unions multiply out to more than {MOST_BLOCKS} blocks")
    return ClosedFormVerdict(
        True, "once a combination of rows has failed it can never hold again, so its first instant decides"
    )


def minimum_bounding(query: relational.Query) -> tuple[Event, ...]:
    """Return the closed form of Q^M(t), one branch per block; call it only if ``closed_form_verdict`` allows it."""
    branches = (_branch(expanded, part.outputs) for part in blocks(query) for expanded in _expand(part.input))
    return tuple(branch for branch in branches if branch is not None)


def lasts(query: relational.Query) -> bool:
    """Return whether every row of the answer stays in it for ever."""
    return all(scan.table.append_only for scan in scans(query)) and all(
        is_monotone(relational.condition(part.input)) for part in blocks(query)
    )


def is_monotone(predicate: relational.Predicate) -> bool:
    """Return whether a predicate, once true, stays true on append-only tables: one verdict per case."""
    match predicate:
        case relational.Plain():
            return True  # time plays no part in it
        case relational.NowFrom():
            return True  # NOW only grows
        case relational.NowBefore():
            return False  # it ends at its threshold
        case relational.And(items=items) | relational.Or(items=items):
            return all(is_monotone(item) for item in items)
        case relational.Exists(body=body):
            return is_monotone(relational.condition(body))  # rows only arrive
        case relational.NotExists():
            return False  # a blocker may arrive


def _obstacle(predicate: relational.Predicate) -> str | None:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore():
            return None
        case relational.And(items=items) | relational.Or(items=items):
            return next((why for why in map(_obstacle, items) if why), None)
        case relational.Exists(body=body):
            return _obstacle(relational.condition(body))
        case relational.NotExists(body=body):
            if is_monotone(relational.condition(body)):
                return None
            return (
                "under a NOT EXISTS something ends as time passes (a NOW < …, or another NOT EXISTS), "
                "so what it blocks can begin later than its own rows and thresholds"
            )


def _expand(relation: relational.Relation) -> list[Block]:
    """Return a relation as a union of blocks; EXISTS bodies become joins, as the answer's rows are distinct."""
    own = sources(relation)
    return [Block(own + block.sources, block.items) for block in _alternatives(relational.condition(relation))]


def _alternatives(predicate: relational.Predicate) -> list[Block]:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.NotExists():
            return [Block((), (predicate,))]
        case relational.And(items=items):
            return [_merged(chosen) for chosen in product(*map(_alternatives, items))]
        case relational.Or(items=items):
            if all(isinstance(item, relational.Plain) for item in items) and items:
                return [Block((), (predicate,))]
            return [block for item in items for block in _alternatives(item)]
        case relational.Exists(body=body):
            return _expand(body)


def _count_in(relation: relational.Relation) -> int:
    """Return the number of blocks that ``_expand`` would build; they may be too many for memory."""
    return _count(relational.condition(relation))


def _count(predicate: relational.Predicate) -> int:
    match predicate:
        case relational.Plain() | relational.NowFrom() | relational.NowBefore() | relational.NotExists():
            return 1
        case relational.And(items=items):
            return prod(map(_count, items))
        case relational.Or(items=items):
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
    # GREATEST skips NULL, but a NULL threshold never fires: demand that it is not NULL.
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
    """Leave out instants that are never after another one: GREATEST(m.ts, m.ts + 28 days) is the second."""
    latest: list[Scalar] = []
    if any(instant in never_null for instant in instants):
        instants = [instant for instant in instants if instant != TIME_START]  # no row begins before time does
    for index, instant in enumerate(instants):
        others = latest + instants[index + 1 :]
        if not any(_never_before(instant, other) and shifted(other).base in never_null for other in others):
            latest.append(instant)
    return latest


def _never_before(earlier: Scalar, later: Scalar) -> bool:
    bounds = difference(earlier, later)
    return bounds is not None and bounds[0] is not None and bounds[0] >= 0
