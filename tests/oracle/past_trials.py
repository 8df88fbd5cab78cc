"""Trials of law 4: a random formula over a random log, cut into random batches, on one of the engines.

The answers are compared with the literal interpreter (``past_logic``), and the stored size with the announced bound.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import TypeAlias

from oracle.past_course import contents, course
from oracle.past_grammar import drawn, folded, operators
from oracle.past_logic import Log, Row, Value, evaluated
from oracle.past_logs import log, partition
from oracle.synopsis_sizes import LogSize, size_bound
from weft.algebra.formula import Formula, subformulas
from weft.derivation.synopsis.construct import COUNT, Synopsis, synopsis
from weft.derivation.synopsis.verdict import size_verdict
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.engines.engine import Engine
from weft.execution.synopsis.batch import State

TRIES = 6
STATES = 9
LINEAR = 0.4
"""The share of formulas whose fixpoints may have counts that double."""
SEMANTICS = ("set", "set", "set", "bag", "bag", "minmax")
Ranges: TypeAlias = Sequence[tuple[int, int]]
"""Ranges of successive time points."""


@contextmanager
def on_duckdb() -> Iterator[Engine]:
    """The DuckDB of this process. It does not optimize the SQL, because the tables are tiny."""
    with duckdb_engine(1) as engine:
        engine.connection.execute("PRAGMA disable_optimizer")
        yield engine


@dataclass
class Trials:
    """Try formulas on an engine, and count their properties.

    Each is taken along some ``logs``, each log by some ``partitions``.
    """

    logs: int
    partitions: int
    engine: Callable[[], AbstractContextManager[Engine]] = on_duckdb
    cut: Callable[[random.Random, int], Ranges] = partition
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, formula: Formula, semantics: str, chance: random.Random) -> None:
        plan = synopsis(formula, semantics)
        answered = changed = False
        for _ in range(self.logs):
            given, wanted = informative_log(formula, semantics, chance)
            self.along(plan, formula, given, wanted, chance)
            answered |= any(wanted)
            changed |= changes(wanted)
        self.counts.update(set(operators(formula)))
        self.counts.update({"formulas": 1, semantics: 1, "with answers": answered, "that change": changed})

    def along(
        self, plan: Synopsis, formula: Formula, given: Log, wanted: list[Counter[Row]], chance: random.Random
    ) -> None:
        """One log, by each of the partitions."""
        ends = []
        for _ in range(self.partitions):
            ranges = self.cut(chance, len(given))
            said = f"{formula}\n{plan.semantics}\n{given}\n{ranges}"
            with self.engine() as engine:
                found = course(plan, formula, given, ranges, engine)
            self.within_bounds(plan, given, ranges, found.states, said)
            for tp, (one, other) in enumerate(zip(found.answers, wanted, strict=True)):
                assert one == other, f"at {tp}: found {one}, wanted {other}\n{said}"
            ends.append(contents(found.states[-1]))
            self.counts["cases"] += 1
            self.counts["batches"] += len(ranges)
        assert all(each == ends[0] for each in ends), f"the state depends on the partition: {ends}\n{said}"

    def within_bounds(self, plan: Synopsis, given: Log, ranges: Ranges, states: list[State], said: str) -> None:
        """After every batch no relation has more than was announced for the prefix, but those that have no bound."""
        unbounded = {part.stored for part in size_verdict(plan).parts if part.kind == "unbounded"}
        self.counts["unbounded"] += bool(unbounded)
        for (_, end), state in zip(ranges, states, strict=True):
            known = measured(given.until(end), {name for name, _ in plan.predicates})
            for stored, rows in contents(state).items():
                if stored in unbounded:
                    continue
                size = size_bound(stored, known)
                assert rows.total() <= size.tuples, f"{stored}: {rows.total()} tuples, {size} announced\n{said}"
                place = [name for name, _ in stored.columns].index(COUNT) if stored.counted else None
                bits = max(counter(row[place]).bit_length() for row in rows) if place is not None else 0
                assert bits <= size.bits, f"{stored}: {bits} bits, {size} announced\n{said}"
                self.counts["relations measured"] += 1
                self.counts["relations as large as announced"] += rows.total() == size.tuples


def counter(stored: Value) -> int:
    """A stored count; one of a fixpoint, which may have any size, is hexadecimal digits."""
    return int(stored, 16) if isinstance(stored, str) else int(stored)


def measured(given: Log, predicates: set[str]) -> LogSize:
    """The figures of the bounds: |D|, |T|, dupl(S), and the number of states within a length of time."""
    rows = [each for state in given.states for name, each in state.items() if name in predicates and each]
    often = (Counter(each).most_common(1)[0][1] for each in rows)
    values = {(type(value), value) for each in rows for row in each for value in row}

    def within(length: int) -> int:
        return max((sum(now - length <= at <= now for at in given.at) for now in given.at), default=0)

    return LogSize(len(values), len(given), max(often, default=0), within)


def changes(answers: list[Counter[Row]]) -> bool:
    return any(one != other for one, other in pairwise(answers))


def informative_log(formula: Formula, semantics: str, chance: random.Random) -> tuple[Log, list[Counter[Row]]]:
    """A log along which the answers change, if one is soon found."""
    for _ in range(TRIES):
        given = log(chance, chance.randint(1, STATES))
        wanted = evaluated(formula, given, semantics)
        if changes(wanted):
            break
    return given, wanted


def case(number: int) -> tuple[Formula, str, random.Random]:
    """A formula, the semantics it is drawn for, and the chance that goes on with it."""
    chance = random.Random(f"synopsis {number}")
    semantics = chance.choice(SEMANTICS)
    return drawn(chance, semantics, linear=chance.random() < LINEAR), semantics, chance


def distinct_cases() -> Iterator[tuple[int, Formula]]:
    """Yield the numbers of cases and their formulas, which differ in more than constants."""
    seen: set[str] = set()
    for number in count():
        formula, _, _ = case(number)
        if (shape := folded(formula)) not in seen:
            seen.add(shape)
            yield number, formula


def covering(
    wanted: Collection[str], times: int, names: Callable[[Formula], set[str]], most: int | None = None
) -> list[int]:
    """The numbers of some distinct cases that have each of the ``wanted`` operators so often.

    A case is taken if it has an operator that the cases before have too seldom. ``names`` gives the operators of a
    formula. A formula with more than ``most`` parts is passed over.
    """
    found, often = [], Counter[str]()
    for number, formula in distinct_cases():
        if most is None or len(list(subformulas(formula))) <= most:
            there = names(formula).intersection(wanted)
            if any(often[each] < times for each in there):
                often.update(there)
                found.append(number)
        if all(often[each] >= times for each in wanted):
            break
    return found
