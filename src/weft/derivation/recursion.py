"""Evaluate a recursion over rows with periods: the lives of its first rows, and of the rows that a round derives.

A row that a round derives is alive while all rows of its derivation are, so its period is the intersection of their
periods.  A round reads the rows of the last round like a table whose rows end, so the rules of ``lives`` apply.  The
rounds end when a round derives nothing new.  With UNION, a row is new in the part of its period in which no earlier
round found it.  With UNION ALL, every row of a round is new.

Law: at every instant, the rows of all rounds are those of the recursion over the rows alive at this instant.

A tick continues the rows that the last tick stored.  A stored row is *touched* if a derivation of it ends in the
window, or leads through a touched row.  Each derivation of another stored row lasts, so such a row is *kept*: it holds
throughout the window.  The touched rows and the new rows are derived from the kept rows (delete and rederive).  A
combination that derives such a row either contains a row of the recursion that a round derives, or it enters in the
window, or it was alive before the window and gives a touched row.  With UNION, a kept row is not derived again.

A combination with subqueries has no exact deltas.  The rows that it gives are touched if a row of it or of a subquery
begins or ends.  All combinations that give touched rows are then derived.

Law: the kept rows, and the rows of all rounds that continue them, are the rows of the recursion.

Proof: proofs/Recursion.v: recursion_rule, recursion_round_once, recursion_ends, recursion_all_rule,
recursion_kept_rule, recursion_continued_rule, recursion_all_continued_rule, recursion_all_continued_once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from weft.algebra.relation import Output, Recurrence, Recursive, Scan, Union
from weft.algebra.scalar import TICK_START, ColumnRef, Literal, Scalar, call
from weft.algebra.schema import INT, TIMESTAMP, VALID_FROM, VALID_TO, Column, TableSchema
from weft.algebra.traverse import Node, transform, walk
from weft.derivation.exact import Delta, deltas
from weft.derivation.lives import Lives, with_bodies
from weft.errors import DerivationError

ROUND: Final = "round__"
"""The table with the rows of the last round: the columns c1, c2 …, and their periods."""
DEPTH: Final = "depth"
"""The column with the number of steps that lead from the first rows to a stored row."""


def opened(operator: Recursive) -> Union:
    """Return the first rows and the step as one relation, in which the step reads the table of the last round."""
    places: dict[tuple[str, str], str] = {}
    for part in walk(operator):
        if isinstance(part, Recurrence):
            places |= {(part.alias, column.name): f"c{n}" for n, column in enumerate(part.columns, 1)}

    def change(node: Node) -> Node:
        match node:
            case Recurrence(alias=alias, columns=columns):
                return Scan(_round(columns), alias)
            case ColumnRef(scan=scan, column=column) if (scan, column) in places:
                return replace(node, column=places[scan, column])
            case _:
                return node

    return Union(operator.alias, (operator.seed, transform(operator.step, change)))


def _round(columns: tuple[Column, ...]) -> TableSchema:
    named = [(f"c{number}", column.type) for number, column in enumerate(columns, 1)]
    named += [(VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP)]
    listed = tuple(Column(number, name, type) for number, (name, type) in enumerate(named, 1))
    return TableSchema(-3, ROUND, listed, VALID_FROM, VALID_TO, "state")


def is_round(scan: Scan) -> bool:
    """Return whether the scan reads the table of the last round."""
    return scan.table.name == ROUND


def rounds(life: Lives) -> tuple[Scan, ...]:
    """Return the scans of the last round in the combinations of a life."""
    return tuple(source for source in life.sources if isinstance(source, Scan) and is_round(source))


def entering(life: Lives) -> Iterator[Delta]:
    """Yield the exact deltas of the combinations that enter because a row of a table does, or because time passes.

    The deltas have the output ``DEPTH``.  A life with subqueries has none.
    """
    begun = [scan.start for scan in rounds(life)]
    for delta in deltas((_with_depth(life),)) or ():
        if delta.sign == 1 and delta.life.starts[0] not in begun:
            yield delta


def touching(life: Lives, width: int) -> Iterator[Delta]:
    """Yield exact deltas of combinations of stored rows.  The ``width`` outputs are the rows that they touch."""
    of_rounds = {ref for scan in rounds(life) for ref in (scan.start, scan.ref(VALID_TO))}
    for each in with_bodies((life,)):
        ends = tuple(end for end in each.ends if end not in of_rounds)
        plain = replace(each, ends=ends, outputs=each.outputs[:width], subqueries=(), carried=0)
        for delta in deltas((plain,)) or ():
            if delta.sign == -1 or (life.subqueries and delta.life.starts[0] not in of_rounds):
                yield delta


def again(life: Lives) -> Lives:
    """Return the combinations that give touched rows, with the output ``DEPTH``, and without those of ``entering``."""
    deep = _with_depth(life)
    if life.subqueries:
        return deep
    return replace(deep, conditions=(*life.conditions, *(call("<", start, TICK_START) for start in life.starts)))


def _with_depth(life: Lives) -> Lives:
    """Add an output: the number of steps to the row, if the table of the last round has this column."""
    depth: Scalar = Literal(0, INT, fixed=True)
    for scan in rounds(life):
        depth = call("+", ColumnRef(scan.alias, DEPTH, INT), Literal(1, INT, fixed=True), type=INT)
    return _with_output(life, len(life.outputs) - life.carried, Output(DEPTH, depth))


def _with_output(life: Lives, place: int, output: Output) -> Lives:
    """Add an output before those that only decide whether subqueries have a row.  Subqueries have it, too."""
    subqueries = tuple(
        (wanted, tuple(_with_output(body, place, output) for body in bodies)) for wanted, bodies in life.subqueries
    )
    return replace(life, outputs=(*life.outputs[:place], output, *life.outputs[place:]), subqueries=subqueries)


def is_step(life: Lives) -> bool:
    """Return whether the combinations of a life contain a row of the last round.

    Raise DerivationError if they contain several, or if a subquery reads the last round: what a round derives would
    then not follow from the rows of the last round alone.
    """
    counts = set(_counts(life))
    if len(counts) > 1 or max(counts) > 1:
        raise DerivationError("a step of a recursion must read the recursion exactly once, in its FROM")
    return counts == {1}


def _counts(life: Lives) -> Iterator[int]:
    """Yield the number of rows of the last round in the combinations of a life and of its subqueries."""
    yield len(rounds(life))
    for _, bodies in life.subqueries:
        for body in bodies:
            yield from _counts(body)
