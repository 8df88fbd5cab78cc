"""Spark takes synopses through batches as DuckDB does, in a number of jobs that the number of states has no part in."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oracle.past_grammar import PREDICATES, drawn, used
from oracle.past_logic import Log
from oracle.past_logs import log
from weft.algebra.formula import Fixpoint, Formula, subformulas
from weft.algebra.schema import BIGINT, DOUBLE, STRING
from weft.derivation.synopsis.construct import synopsis
from weft.errors import ExecutionError
from weft.execution.synopsis.batch import EMPTY, Batch
from weft.execution.synopsis.distributed import distributed_engine
from weft.execution.synopsis.evaluating import evaluated_on
from weft.execution.synopsis.local import local_engine

ARROW = {BIGINT: pa.int64(), STRING: pa.string(), DOUBLE: pa.float64()}
CUTS = ((0, 4), (4, 9))


def batch(given: Log, formula: Formula, first: int, end: int) -> Batch:
    points = pa.table({"tp": pa.array(range(first, end), pa.int64()), "at": pa.array(given.at[first:end], pa.int64())})
    events = {}
    for name in used(formula):
        rows = [(tp, *row) for tp in range(first, end) for row in given.states[tp].get(name, ())]
        kinds = [pa.int64(), *(ARROW[each] for each in PREDICATES[name])]
        columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
        names = ["tp", *(f"c{number}" for number in range(1, len(kinds)))]
        events[name] = pa.table([pa.array(each, kind) for each, kind in zip(columns, kinds, strict=True)], names=names)
    return Batch(points, events)


@pytest.mark.parametrize("semantics", ["set", "bag", "minmax"])
def test_random_formulas_have_the_same_answers_on_both(spark: SparkSession, semantics: str) -> None:
    chance, tried = random.Random(f"spark {semantics}"), 0
    while tried < 3:
        formula = drawn(chance, semantics)
        if any(isinstance(part, Fixpoint) for part in subformulas(formula)):
            continue
        tried += 1
        given, plan, here, there = log(chance, 9), synopsis(formula, semantics), EMPTY, EMPTY
        for first, end in CUTS:
            one = batch(given, formula, first, end)
            with local_engine(1) as local, distributed_engine(spark) as distributed:
                here, (wanted,) = evaluated_on(plan, here, one, local)
                there, (found,) = evaluated_on(plan, there, one, distributed)
            assert found.equals(wanted), formula
            for stored in plan.stored:
                assert rows_of(there.relations.get(stored)) == rows_of(here.relations.get(stored)), stored


def rows_of(table: pa.Table | None) -> Counter[tuple[object, ...]]:
    return Counter() if table is None else Counter(tuple(row.values()) for row in table.to_pylist())
