"""Compute the size of a query's branches before deriving them.

Each table, VALUES list and threshold may drive a branch, and occurs in every other branch too.  If the body of a NOT
EXISTS drives a branch, the branch contains the NOT EXISTS once more.  The sizes of nested NOT EXISTS therefore
multiply.  The computation follows the rules of ``derivation.replay`` and ``derivation.merge``, but builds no branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from weft.algebra.relation import (
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
    Turns,
    Union,
    Unnest,
    Values,
    Windowed,
)
from weft.algebra.traverse import operands
from weft.derivation.merge import block_count


@dataclass(frozen=True)
class BranchSize:
    """The number of branches, and the total number of sources in the branches and their subqueries."""

    branches: int
    sources: int

    def __add__(self, other: BranchSize) -> BranchSize:
        return BranchSize(self.branches + other.branches, self.sources + other.sources)

    def beside(self, sources: int, copies: int = 1) -> BranchSize:
        """Return the size if each branch is joined with each of ``copies`` blocks that add ``sources`` sources."""
        return BranchSize(self.branches * copies, (self.sources + self.branches * sources) * copies)


NOTHING = BranchSize(0, 0)


def size(query: Query) -> BranchSize:
    """Return the size of the branches of Q^I.

    >>> from shown import M, R, TIED, ids
    >>> size(ids(Select(M, NotExists(Select(R, TIED)))))
    BranchSize(branches=1, sources=2)
    """
    return _turns(query.input, starting=True)


def _turns(node: Relation | Predicate, *, starting: bool) -> BranchSize:
    match node:
        case Scan(table=table):
            return BranchSize(1, 1) if starting or not table.append_only else NOTHING
        case Values():
            return BranchSize(1, 1) if starting else NOTHING
        case NowFrom():
            return BranchSize(1, 0) if starting else NOTHING
        case NowBefore():
            return NOTHING if starting else BranchSize(1, 0)
        case Plain() | Unnest() | Grouped() | Windowed() | Materialized() | Recurrence() | Recursive():
            return NOTHING  # a query over states has only the first two
        case Join() | And() | Select():
            return _met(operands(node), lambda part: _turns(part, starting=starting))
        case Or() | Turns() | Union() | Project() | Distinct() | Exists():
            return sum((_turns(part, starting=starting) for part in operands(node)), NOTHING)
        case NotExists(body=body):
            return _turns(body, starting=not starting).beside(_sources(body))


def _met(parts: Sequence[Relation | Predicate], turns: Callable[[Relation | Predicate], BranchSize]) -> BranchSize:
    sources, blocks = [_sources(part) for part in parts], [block_count(part) for part in parts]
    total = NOTHING
    for position, part in enumerate(parts):
        copies = prod(blocks[:position] + blocks[position + 1 :])
        total += turns(part).beside(sum(sources) - sources[position], copies)
    return total


def _sources(node: Relation | Predicate) -> int:
    if isinstance(node, (Scan, Values, Unnest, Grouped, Windowed, Materialized, Recurrence, Recursive)):
        return 1
    copies = block_count(node.body) if isinstance(node, (Exists, NotExists)) else 1
    return copies * sum(map(_sources, operands(node)))
