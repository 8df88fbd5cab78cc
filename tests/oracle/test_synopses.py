"""Law 4: after each batch, a synopsis has the answers of the formula over the whole prefix, and the announced size.

The formulas, the logs and their partitions into batches are random, and ``past_logic`` evaluates the formulas. Each
formula runs over several logs, and each log in two partitions. The stored relations after the last batch must not
depend on the partition.
"""

from __future__ import annotations

import os
import random
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from oracle.past_course import along_together
from oracle.past_grammar import Drawing, drawn, operators
from oracle.past_logic import evaluated
from oracle.past_logs import log, partition
from oracle.past_trials import LINEAR, SEMANTICS, STATES, Trials, case, covering, distinct_cases
from weft.derivation.synopsis.construct import shared, synopsis
from weft.execution.engines.duckdb import duckdb_engine

TIMES = 3
"""How often `make test` tries each operator."""
FORMULAS = 801
"""How many formulas `make test-long` tries."""
SHARDS = 3
LOGS = 2
PARTITIONS = 2
LONG = 7_600
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))
SHAPES = ("[0,*]", "[0,b]", "[a,*]", "[a,b]")
WANTED = (
    *(f"Previous {shape}" for shape in SHAPES),
    *(f"Once {counting} {shape}" for counting in ("any", "first") for shape in SHAPES),
    *(f"Since {counting} {shape}{no}" for counting in ("any", "first") for shape in SHAPES for no in ("", " not")),
    "Once second [0,*]", "Since second [0,*]", "Since second [0,*] not", "Since strict",
    *(f"Aggregate {function}{by}" for function in ("CNT", "SUM", "MIN", "MAX") for by in ("", " by")),
    "Atom", "And", "AndNot", "Or", "Not", "Exists", "Distinct", "Truth", "Matches", "Fixpoint", "Defined",
    "Comparison =", "Comparison <", "Comparison <=", "Comparison substring",
)  # fmt: skip


def some() -> list[int]:
    """The numbers of cases that have each operator often enough."""
    return covering(WANTED, TIMES, lambda formula: set(operators(formula)))


def share(shard: int) -> list[int]:
    """The numbers of the cases of one shard."""
    every = [number for number, _ in islice(distinct_cases(), FORMULAS)]
    return every[shard::SHARDS]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("shard", [None, *(pytest.param(each, marks=pytest.mark.slow) for each in range(SHARDS))])
def test_law_4(shard: int | None, record_property: Any) -> None:
    logs = 1 if shard is None else LOGS
    trials, numbers = Trials(logs, PARTITIONS), some() if shard is None else share(shard)
    for number in numbers:
        trials.run(*case(number))
    counts = trials.counts
    record_property("synopses", dict(counts))
    print(dict(counts))
    assert not [each for each in WANTED if counts[each] < (TIMES if shard is None else 1)], "it was hardly tried"
    assert counts["formulas"] == len(numbers)
    assert counts["cases"] == len(numbers) * logs * PARTITIONS
    assert counts["unbounded"]
    least = 0.65 if shard is None else 0.7  # few cases vary more
    assert counts["with answers"] >= least * counts["formulas"], "the cases have become dull: too few have an answer"
    assert counts["that change"] >= 0.6 * counts["formulas"], "the cases have become dull: too few change"


def test_formulas_that_share_a_synopsis_answer_as_they_do_alone() -> None:
    """Several formulas, parts of them the same up to names: one synopsis, and fewer relations than alone."""
    fewer = 0
    for number in range(30):
        chance = random.Random(f"shared {number}")
        semantics = chance.choice(("set", "bag"))
        drawing = Drawing(chance, semantics, fixpoints=False)
        formulas = [drawing.formula((drawing.variable(),), 3) for _ in range(3)]
        given = log(chance, STATES)
        plan = shared(formulas, semantics)
        fewer += len(plan.stored) < sum(len(synopsis(each, semantics).stored) for each in formulas)
        wanted = [evaluated(each, given, semantics) for each in formulas]
        with duckdb_engine(1) as engine:
            found = along_together(plan, formulas, given, partition(chance, STATES), engine)
        assert found == wanted, f"{formulas}\n{given}"
    assert fewer >= 6


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_law_4_with_other_formulas(shard: int) -> None:
    trials = Trials(LOGS, PARTITIONS)

    @seed(SEED + shard)
    @settings(
        max_examples=LONG // SHARDS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.randoms(use_true_random=False))
    def each_formula(chance: random.Random) -> None:
        semantics = chance.choice(SEMANTICS)
        trials.run(drawn(chance, semantics, linear=chance.random() < LINEAR), semantics, chance)

    print(f"{LONG // SHARDS} formulas, seed {SEED + shard}")
    each_formula()
    assert trials.counts["cases"] * SHARDS >= 30_000
