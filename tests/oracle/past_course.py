"""Run the synopsis of one formula over logs that are cut into batches, as a home does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from oracle.past_grammar import PREDICATES, used
from oracle.past_logic import Log, Row
from weft.algebra.formula import POINTS, Formula, undated
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import Stored, Synopsis
from weft.execution.engines.engine import Engine
from weft.execution.synopsis.batch import EMPTY, State, StateBatch
from weft.execution.synopsis.evaluating import evaluate_on

ARROW = {"BIGINT": pa.int64(), "STRING": pa.string(), "DOUBLE": pa.float64()}


@dataclass(frozen=True)
class Course:
    """What came out: the answers at each time point, and the state after each batch."""

    answers: list[Counter[Row]]
    states: list[State]


def batch(log: Log, first: int, end: int, predicates: dict[str, tuple[DataType, ...]]) -> StateBatch:
    """The time points [first, end) with the rows of these predicates."""
    points = pa.table({"tp": pa.array(range(first, end), pa.int64()), "at": pa.array(log.at[first:end], pa.int64())})
    events = {}
    for name, types in predicates.items():
        rows = [(*row, tp) for tp in range(first, end) for row in log.states[tp].get(name, ())]
        names = [*(f"c{k}" for k in range(1, len(types) + 1)), "tp"]
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        kinds = [*(ARROW[each.name] for each in types), pa.int64()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        events[name] = pa.table(arrays, names=names)
    return StateBatch(points, events)


def course(plan: Synopsis, formula: Formula, log: Log, ranges: Sequence[tuple[int, int]], engine: Engine) -> Course:
    """Takes a log in by batches."""
    states: list[State] = []
    (answers,) = along_together(plan, [formula], log, ranges, engine, states)
    return Course(answers, states)


def along_together(
    plan: Synopsis,
    formulas: Sequence[Formula],
    log: Log,
    ranges: Sequence[tuple[int, int]],
    engine: Engine,
    states: list[State] | None = None,
) -> list[list[Counter[Row]]]:
    """The answers of each formula of a synopsis at each time point; the state after each batch goes to ``states``."""
    names = {undated(name) or name for formula in formulas for name in used(formula)} - {POINTS}
    predicates = {name: PREDICATES[name] for name in names}
    answers = [[Counter[Row]() for _ in log.at] for _ in formulas]
    state = EMPTY
    for first, end in ranges:
        state, found = evaluate_on(plan, state, batch(log, first, end, predicates), engine)
        if states is not None:
            states.append(state)
        for table, kept in zip(found, answers, strict=True):
            counted = "n" in table.column_names
            for tp, *values in zip(*(column.to_pylist() for column in table.columns), strict=True):
                n = values.pop() if counted else 1
                assert first <= tp < end, f"an answer at {tp} from the batch [{first}, {end})"
                kept[tp][tuple(values)] += int(n)
    return answers


def contents(state: State) -> dict[Stored, Counter[Row]]:
    """The rows of a state, in a fixed order."""
    rows = {stored: list(zip(*table.to_pydict().values(), strict=True)) for stored, table in state.relations.items()}
    return {stored: Counter(each) for stored, each in rows.items() if each}
