"""Law 4 on Spark: a synopsis gives the answers of the formula over the whole prefix, within the announced size.

Spark takes a hundred times as long as DuckDB to plan the SQL of a formula, for any number of rows. Each formula
therefore runs over one log in one partition with few batches. Large formulas are skipped, and so are formulas whose
operators have enough cases. Two threads share the session.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from oracle.past_grammar import operators
from oracle.past_trials import Ranges, Trials, case, covering
from oracle.spark_engine import spark_engine
from weft.algebra.formula import And, Atom, Formula, Interval, Not, Since, Variable
from weft.algebra.schema import BIGINT
from weft.derivation.synopsis.construct import synopsis
from weft.errors import ExecutionError
from weft.execution.synopsis.batch import EMPTY, StateBatch
from weft.execution.synopsis.evaluating import evaluate_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = (2, pytest.param(10, marks=pytest.mark.slow))
"""How often each operator is tried."""
PARTS = 12
"""A formula with more parts is passed over."""
THREADS = 2
WANTED = (
    "Atom", "And", "AndNot", "Or", "Not", "Exists", "Distinct", "Matches", "Fixpoint", "Comparison", "Previous",
    "Once any", "Once first", "Once second", "Since any", "Since first", "Since second", "Aggregate",
)  # fmt: skip
P, Q = (Atom(name, (Variable("x", BIGINT),)) for name in "pq")


def few_batches(chance: random.Random, states: int) -> Ranges:
    """Three batches at most; one may be empty."""
    cuts = sorted(chance.randint(0, states) for _ in range(chance.randint(0, 2)))
    return tuple(zip([0, *cuts], [*cuts, states], strict=True))


def names(formula: Formula) -> set[str]:
    """The operators of a formula, as WANTED has them."""
    found = set(operators(formula))
    return {each for each in WANTED if any(name.startswith(each) for name in found)}


def tried(spark: SparkSession, numbers: list[int]) -> Counter[str]:
    trials = Trials(1, 1, lambda: spark_engine(spark, few=True, strict=True, probing=False), few_batches)
    for number in numbers:
        trials.run(*case(number))
    return trials.counts


@pytest.mark.timeout(900)
@pytest.mark.parametrize("times", TIMES)
def test_law_4_on_spark(spark: SparkSession, times: int) -> None:
    numbers, counts = covering(WANTED, times, names, PARTS), Counter[str]()
    with ThreadPoolExecutor(THREADS) as threads:
        shares = [threads.submit(tried, spark, numbers[share::THREADS]) for share in range(THREADS)]
        for each in shares:
            counts += each.result()
    print(dict(counts))
    formulas = len(numbers)
    assert counts["formulas"] == counts["cases"] == formulas
    assert not [each for each in WANTED if not any(name.startswith(each) for name in counts)], "it was never tried"
    assert all(counts[semantics] >= 0.1 * formulas for semantics in ("set", "bag", "minmax"))
    assert counts["batches"] >= 1.5 * formulas
    assert counts["with answers"] >= 0.7 * formulas, "the cases have become dull: too few have an answer"
    assert counts["that change"] >= 0.6 * formulas, "the cases have become dull: too few change"


@pytest.mark.parametrize(("few", "sizes"), [(True, (3, 300)), (False, (300, 3_000))])
def test_the_number_of_jobs_does_not_depend_on_the_number_of_states(
    spark: SparkSession, few: bool, sizes: tuple[int, int]
) -> None:
    """Adaptive execution omits jobs over empty partitions, so that few rows may need fewer jobs."""
    plan, jobs = synopsis(And(P, Not(Since(Interval(0, 50), Not(Q), P))), "set"), []
    for states in sizes:
        rows = {"tp": list(range(states)), "c1": [tp % 7 for tp in range(states)]}
        one = StateBatch(pa.table({"tp": rows["tp"], "at": rows["tp"]}), {"p": pa.table(rows), "q": pa.table(rows)})
        spark.sparkContext.setJobGroup(f"{states} states, {few}", "a batch")
        with spark_engine(spark, few=few, strict=True, probing=False) as engine:
            evaluate_on(plan, EMPTY, one, engine)
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"{states} states, {few}")))
    assert jobs[0] == jobs[1] > 0


def test_a_count_that_leaves_its_type_fails_on_spark_too(spark: SparkSession) -> None:
    formula: Formula = P
    for _ in range(6):
        formula = And(formula, P)
    one = StateBatch(pa.table({"tp": [0], "at": [0]}), {"p": pa.table({"tp": [0] * 1000, "c1": [1] * 1000})})
    with pytest.raises(ExecutionError, match="overflow"), spark_engine(spark, few=True, strict=True) as engine:
        evaluate_on(synopsis(formula, "bag"), EMPTY, one, engine)
