"""Evaluate a formula over a log of time points in batches.

Memory holds one batch and the state of the synopsis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.algebra.formula import POINTS, Atom, Formula, Variable, free_variables, subformulas, undated
from weft.algebra.schema import DataType
from weft.derivation.synopsis.construct import Synopsis, synopsis
from weft.derivation.synopsis.prepared import Semantics
from weft.execution.synopsis.batch import EMPTY, State, StateBatch, arrow_type
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.execution.synopsis.evaluating import evaluate_shared
from weft.formula.signature import Row, TimePoint, batches

BATCH = 100_000
"""Greatest number of time points and rows in a batch."""


@dataclass(frozen=True)
class Answered:
    """The answers of a formula at one time point, with values in the order of the requested columns.

    ``counts`` has the multiplicity of each answer, or None under set semantics.
    """

    point: TimePoint
    rows: Sequence[Row]
    counts: Sequence[int] | None = None


def monitor(
    formula: Formula,
    columns: Sequence[Variable],
    points: Iterable[TimePoint],
    size: int = BATCH,
    semantics: Semantics = "set",
) -> Iterator[Answered]:
    """Yield the answers of a formula at each time point of a log, including time points without answers.

    If a term divides by 0 at a time point, yield the earlier answers, then raise DivisionByZero.
    """
    synopsis_of_formula = synopsis(formula, semantics)
    order = [free_variables(formula).index(column) for column in columns]
    types = predicate_types(formula)
    state = EMPTY
    for batch in batches(points, size):
        state, answers, failure = _evaluated(synopsis_of_formula, state, batch, types)
        yield from _answered([point for point in batch if failure is None or point.number < failure.tp], answers, order)
        if failure is not None:
            raise failure


def _evaluated(
    constructed: Synopsis, before: State, points: Sequence[TimePoint], types: dict[str, tuple[DataType, ...]]
) -> tuple[State, pa.Table, DivisionByZero | None]:
    """Return the state after the time points, the answers, and an error or None.

    If a term divides by 0 at a time point, stop before this time point and return the error.
    """
    failure: DivisionByZero | None = None
    while True:
        try:
            after, (answers,) = evaluate_shared(constructed, before, _batch(points, types))
            return after, answers, failure
        except DivisionByZero as error:
            failure, points = error, [point for point in points if point.number < error.tp]


def predicate_types(formula: Formula) -> dict[str, tuple[DataType, ...]]:
    """Map each predicate of a formula to the types of the predicate's columns in the log.

    The log of a dated predicate has no column for the time point.
    """
    atoms = (part for part in subformulas(formula) if isinstance(part, Atom) and part.predicate != POINTS)
    by_predicate = {}
    for atom in atoms:
        types = tuple(term.type for term in atom.terms)
        plain = undated(atom.predicate)
        by_predicate[plain or atom.predicate] = types if plain is None else types[:-1]
    return by_predicate


def _batch(points: Sequence[TimePoint], types: dict[str, tuple[DataType, ...]]) -> StateBatch:
    times = pa.table(
        {
            "tp": pa.array([point.number for point in points], pa.int64()),
            "at": pa.array([point.at for point in points], pa.int64()),
        }
    )
    return StateBatch(times, {name: _events(points, name, columns) for name, columns in types.items()})


def _events(points: Sequence[TimePoint], name: str, types: tuple[DataType, ...]) -> pa.Table:
    numbers: list[int] = []
    rows: list[Row] = []
    for point in points:
        rows_at_point = point.rows.get(name)
        if rows_at_point:
            numbers += [point.number] * len(rows_at_point)
            rows += rows_at_point
    values = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    columns = {"tp": pa.array(numbers, pa.int64())}
    for place, (column, found_type) in enumerate(zip(values, types, strict=True), 1):
        columns[f"c{place}"] = pa.array(column, arrow_type(found_type))
    return pa.table(columns)


def _answered(points: Sequence[TimePoint], answers: pa.Table, order: Sequence[int]) -> Iterator[Answered]:
    by_point: dict[int, list[int]] = {}
    columns = [answers.column(f"c{place + 1}").to_pylist() for place in order]
    rows: list[Row] = list(zip(*columns, strict=True)) if columns else [()] * answers.num_rows
    counts = [int(count) for count in answers.column("n").to_pylist()] if "n" in answers.column_names else None
    for place, number in enumerate(answers.column("tp").to_pylist()):
        by_point.setdefault(number, []).append(place)
    for point in points:
        places = by_point.get(point.number, ())
        often = None if counts is None else [counts[place] for place in places]
        yield Answered(point, [rows[place] for place in places], often)
