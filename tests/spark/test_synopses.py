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
from weft.algebra.formula import And, Atom, Fixpoint, Formula, Interval, Not, Since, Variable, subformulas
from weft.algebra.schema import BIGINT, DOUBLE, STRING
from weft.derivation.synopsis.construct import synopsis
from weft.errors import ExecutionError
from weft.execution.synopsis.batch import EMPTY, Batch
from weft.execution.synopsis.distributed import distributed_engine
from weft.execution.synopsis.evaluating import evaluated_on
from weft.execution.synopsis.local import local_engine

ARROW = {BIGINT: pa.int64(), STRING: pa.string(), DOUBLE: pa.float64()}
CUTS = ((0, 4), (4, 9))
P, Q = (Atom(name, (Variable("x", BIGINT),)) for name in "pq")


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


def test_the_number_of_jobs_does_not_depend_on_the_number_of_states(spark: SparkSession) -> None:
    plan, jobs = synopsis(And(P, Not(Since(Interval(0, 50), Not(Q), P))), "set"), []
    for states in (3, 300):
        rows = {"tp": list(range(states)), "c1": [tp % 7 for tp in range(states)]}
        one = Batch(pa.table({"tp": rows["tp"], "at": rows["tp"]}), {"p": pa.table(rows), "q": pa.table(rows)})
        spark.sparkContext.setJobGroup(f"states {states}", "a batch")
        with distributed_engine(spark) as engine:
            evaluated_on(plan, EMPTY, one, engine)
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"states {states}")))
    assert jobs[0] == jobs[1] > 0


def test_a_count_that_leaves_its_type_fails_on_spark_too(spark: SparkSession) -> None:
    formula: Formula = P
    for _ in range(6):
        formula = And(formula, P)
    one = Batch(pa.table({"tp": [0], "at": [0]}), {"p": pa.table({"tp": [0] * 1000, "c1": [1] * 1000})})
    with distributed_engine(spark) as engine, pytest.raises(ExecutionError, match="cannot be evaluated"):
        evaluated_on(synopsis(formula, "bag"), EMPTY, one, engine)
