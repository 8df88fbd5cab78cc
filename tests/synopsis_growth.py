"""Measure the sizes of synopses along a log for docs/synopses.md: constant, logarithmic and linear growth.

python tests/synopsis_growth.py        measures up to a million states, and writes docs/benchmarks/synopsis-growth.*
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from weft.algebra.formula import (
    ALWAYS,
    And,
    Atom,
    Constant,
    Defined,
    Definition,
    Distinct,
    Fixpoint,
    Formula,
    Interval,
    Not,
    Once,
    Or,
    Previous,
    Truth,
    Variable,
)
from weft.algebra.schema import BIGINT
from weft.charts import Line, Panel, figure
from weft.derivation.synopsis.construct import COUNT, synopsis
from weft.derivation.synopsis.prepared import Semantics
from weft.execution.synopsis.batch import EMPTY, State, StateBatch
from weft.execution.synopsis.evaluating import evaluate

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
JSON, SVG = FOLDER / "synopsis-growth.json", FOLDER / "synopsis-growth.svg"
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)
BATCH = 10_000
MINUTE = 60_000_000
FILES = 100
WORD = 64
"""The bits of a value or an instant. The bits of a counter depend on its value."""


@dataclass(frozen=True)
class Family:
    """A formula with its expected growth."""

    title: str
    formula: Formula
    semantics: Semantics
    growth: str


F, X = Variable("f", BIGINT), Defined("x", ())
OPEN, APPROVED = Atom("open", (F,)), Atom("approve", (F,))
A, B = (Atom("s", (Constant(each, BIGINT),)) for each in (1, 2))
TRUE, Q = Truth(True), Atom("q", ())
TWICE = Fixpoint((Definition("x", (), Or(Distinct(Q), Previous(ALWAYS, And(Or(TRUE, TRUE), X)))),), "x", ())
FAMILIES = {
    "bounded": Family(
        "open(f) AND NOT (ONCE[0,15m] approve(f))",
        And(OPEN, Not(Once(Interval(0, 15 * MINUTE), APPROVED))),
        "set",
        "flat",
    ),
    "log-bounded": Family(
        '(ONCE1 s("a")) AND NOT (ONCE1 s("b"))',
        And(Once(ALWAYS, A, "first"), Not(Once(ALWAYS, B, "first"))),
        "bag",
        "logarithmic",
    ),
    "unbounded": Family(
        "MU X. (DISTINCT q()) OR (PREVIOUS ((TRUE OR TRUE) AND X))",
        And(Atom("asked", ()), TWICE),  # never true, because all answers would be too long
        "bag",
        "linear",
    ),
}


@dataclass(frozen=True)
class Size:
    """The size of a synopsis after a number of states."""

    states: int
    tuples: int
    bits: int


def batches(upto: int) -> Iterator[StateBatch]:
    """Yield the log of all families. States are one minute apart, and contain a file, one of two letters, and sometimes
    q.
    """
    chance = random.Random("growth")
    for first in range(0, upto, BATCH):
        tps = list(range(first, min(first + BATCH, upto)))
        given = {
            "open": [(tp, chance.randrange(FILES)) for tp in tps],
            "approve": [(tp, chance.randrange(FILES)) for tp in tps for _ in range(20)],
            "s": [(tp, chance.choice([1, 1, 2])) for tp in tps],
            "q": [(tp,) for tp in tps if tp == 0 or chance.random() < 0.5],
        }
        points = pa.table({"tp": pa.array(tps, pa.int64()), "at": pa.array([tp * MINUTE for tp in tps], pa.int64())})
        yield StateBatch(points, {name: _table(rows) for name, rows in given.items()})


def _table(rows: list[tuple[int, ...]]) -> pa.Table:
    names = ["tp", "c1"][: len(rows[0])]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, pa.int64()) for column in columns], names=names)


def size(state: State) -> Size:
    """Return the number of tuples of a state, and the bits of their values and counters."""
    bits = 0
    for table in state.relations.values():
        for name in table.column_names:
            values = table.column(name).to_pylist()
            bits += sum(_counter(each).bit_length() for each in values) if name == COUNT else WORD * len(values)
    return Size((state.tp or 0) + 1, state.tuples, bits)


def _counter(value: int | str) -> int:
    return int(value, 16) if isinstance(value, str) else value


def grown(family: Family, lengths: tuple[int, ...] = LENGTHS) -> list[Size]:
    """Return the sizes after each of these numbers of states."""
    plan, state, found = synopsis(family.formula, family.semantics), EMPTY, []
    for batch in batches(max(lengths)):
        cuts = [0, *(n - batch.points["tp"][0].as_py() for n in lengths), batch.points.num_rows]
        inside = sorted({cut for cut in cuts if 0 <= cut <= batch.points.num_rows})
        for begin, end in pairwise(inside):
            state, _ = evaluate(plan, state, _part(batch, begin, end))
            if (state.tp or 0) + 1 in lengths:
                found.append(size(state))
    return found


def _part(batch: StateBatch, begin: int, end: int) -> StateBatch:
    points = batch.points.slice(begin, end - begin)
    tps = set(points["tp"].to_pylist())
    inside = {
        name: rows.filter(pa.array([tp in tps for tp in rows["tp"].to_pylist()])) for name, rows in batch.events.items()
    }
    return StateBatch(points, inside)


def drawn(sizes: dict[str, list[Size]]) -> str:
    """Draw bits against states. The axis of states is logarithmic, so a logarithm is a straight line."""
    return figure(
        "Bits stored against the number of states",
        [
            Panel(
                f"{name}: {FAMILIES[name].growth}",
                f"most: {max(point.bits for point in points):,} bits",
                "states",
                [Line("bits", [(point.states, point.bits) for point in points])],
                linear=True,
            )
            for name, points in sizes.items()
        ],
    )


def recorded() -> dict[str, list[Size]]:
    """Return the stored measurements."""
    found = json.loads(JSON.read_text())
    return {name: [Size(**each) for each in points] for name, points in found.items()}


def main() -> None:
    """Measure the sizes, and write the figures and the drawing."""
    sizes = {name: grown(family) for name, family in FAMILIES.items()}
    JSON.write_text(
        json.dumps({name: [vars(each) for each in points] for name, points in sizes.items()}, indent=1) + "\n"
    )
    SVG.write_text(drawn(sizes))


if __name__ == "__main__":
    main()
