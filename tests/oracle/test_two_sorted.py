"""2-FOL over the stored history, and unions of conjunctive queries as nests, against Figure 1 of the paper.

Random formulas are written as text and parsed again. They run over random logs that are cut into batches. Figure 1 is
evaluated literally over every prefix.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from oracle.past_course import course
from oracle.past_grammar import PREDICATES
from oracle.past_logic import Log, Row
from oracle.past_logs import log, partition
from oracle.two_sorted_grammar import drawn, drawn_conjunctive, operators
from oracle.two_sorted_logic import by_figure_1
from weft.algebra.formula import Formula, Variable
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.verdict import size_verdict
from weft.errors import FormulaError
from weft.execution.engines.duckdb import duckdb_engine
from weft.formula.signature import Predicate
from weft.formula.twofol.over_history import over_history
from weft.formula.twofol.resolve import TwoSorted, two_sorted
from weft.formula.twofol.written import two_sorted_text
from weft.planning.formula_plan import planned

FORMULAS = ((80, 4), pytest.param(240, 240, marks=pytest.mark.slow))
"""How many of each kind are drawn under each semantics, and how often an operator is tried at least.

A formula all of whose operators were tried so often is passed over.
"""
STATES = 5
TRIES = 4
SIGNATURE = {
    name: Predicate(name, types, tuple(f"c{n}" for n in range(1, len(types) + 1))) for name, types in PREDICATES.items()
}
WANTED = (
    "Atom", "Atom NOW", "And", "AndNot", "AndNotTest", "Or", "Distinct", "Exists", "Exists TIME", "Not",
    *(f"Comparison{kind} {operator}" for kind in (" TIME", " apart") for operator in ("<", "<=", "=", "<>")),
    "Aggregate CNT", "Aggregate CNT TIME", "Aggregate SUM", "Aggregate MIN", "Aggregate MAX",
)  # fmt: skip
NESTS_WANTED = (
    "Atom", "Atom NOW", "And", "Or", "Exists", "Exists TIME", "Comparison =",
    *(f"Comparison TIME {operator}" for operator in ("<", "<=", "=", "<>")),
    *(f"Comparison apart {operator}" for operator in ("<", "<=", "=")),
)  # fmt: skip


def reread(formula: Formula, columns: tuple[Variable, ...]) -> Formula:
    """The formula from its text, which says the same."""
    read = two_sorted(two_sorted_text(formula), SIGNATURE)
    assert set(read.columns) == set(columns)
    return read.formula


def answers(
    evaluated: Formula, columns: tuple[Variable, ...], given: Log, ranges: Any, semantics: str
) -> list[Counter[Row]]:
    plan = synopsis(evaluated, "set" if semantics == "set" else "bag")
    with duckdb_engine(1) as engine:
        engine.connection.execute("PRAGMA disable_optimizer")
        found = course(plan, evaluated, given, ranges, engine).answers
    order = [plan.answers[0].index(each) for each in columns]
    return [Counter({tuple(row[n] for n in order): count for row, count in rows.items()}) for rows in found]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("formulas", "times"), FORMULAS)
@pytest.mark.parametrize("semantics", ["set", "bag"])
def test_formulas_over_the_kept_history(semantics: str, formulas: int, times: int, record_property: Any) -> None:
    counts, seen, number = Counter[str](), set[Formula](), 0
    while len(seen) < formulas:
        chance, number = random.Random(f"two sorted {semantics} {number}"), number + 1
        formula, columns = drawn(chance, semantics)
        if formula in seen:
            continue
        formula = reread(formula, columns)
        try:
            evaluated = over_history(formula, counts=semantics == "bag")
        except FormulaError:
            counts["refused"] += 1
            continue
        seen.add(formula)
        if all(counts[each] >= times for each in operators(formula)):
            continue
        given, wanted = informative_log(formula, columns, semantics, chance)
        ranges = partition(chance, len(given))
        found = answers(evaluated, columns, given, ranges, semantics)
        assert found == wanted, f"{two_sorted_text(formula)}\n{columns}\n{given}\n{ranges}"
        counts.update(set(operators(formula)))
        counts.update({"formulas": 1, "with answers": any(wanted), "that change": changes(wanted)})
    record_property("two sorted", dict(counts))
    print(semantics, dict(counts))
    assert not [each for each in WANTED if not counts[each]], "something was never tried"
    assert counts["with answers"] >= 0.6 * counts["formulas"]
    assert counts["that change"] >= 0.4 * counts["formulas"]


def informative_log(
    formula: Formula, columns: tuple[Variable, ...], semantics: str, chance: random.Random
) -> tuple[Log, list[Counter[Row]]]:
    """A log along which the answers change, if one is soon found."""
    for _ in range(TRIES):
        given = log(chance, chance.randint(2, STATES))
        wanted = [by_figure_1(formula, columns, given.until(n + 1), semantics) for n in range(len(given))]
        if changes(wanted):
            break
    return given, wanted


def changes(found: list[Counter[Row]]) -> bool:
    return any(one != other for one, other in pairwise(found))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("formulas", "times"), FORMULAS)
@pytest.mark.parametrize("semantics", ["set", "bag"])
def test_unions_of_conjunctive_queries_as_nests(
    semantics: str, formulas: int, times: int, record_property: Any
) -> None:
    """Law 4 for nests, whose announced sizes do not grow with the log, and the same over the history."""
    counts, seen, number = Counter[str](), set[Formula](), 0
    while len(seen) < formulas:
        chance, number = random.Random(f"nests {semantics} {number}"), number + 1
        formula, columns = drawn_conjunctive(chance, semantics)
        if formula in seen:
            continue
        formula = reread(formula, columns)
        plan = planned(TwoSorted(formula, columns), "set" if semantics == "set" else "bag")
        if plan.history is not None:
            counts[plan.history.partition(": ")[2].rpartition(" lie within")[1] or plan.history] += 1
            continue
        seen.add(formula)
        if all(counts[each] >= times for each in operators(formula)):
            continue
        given, wanted = informative_log(formula, columns, semantics, chance)
        ranges = partition(chance, len(given))
        found = answers(plan.reading.formula, columns, given, ranges, semantics)
        assert found == wanted, f"{two_sorted_text(formula)}\n{plan.reading.formula}\n{given}\n{ranges}"
        assert size_verdict(synopsis(plan.reading.formula, "set" if semantics == "set" else "bag")).kind != "unbounded"
        counts.update(set(operators(formula)))
        counts.update({"formulas": 1, "with answers": any(wanted), "that change": changes(wanted)})
    record_property("nests", dict(counts))
    print(semantics, dict(counts))
    assert not [each for each in NESTS_WANTED if not counts[each]], "something was never tried"
    assert counts["with answers"] >= 0.6 * counts["formulas"]
    assert counts["that change"] >= 0.4 * counts["formulas"]
