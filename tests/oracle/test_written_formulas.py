"""Texts of formulas: every accepted text is evaluated without an error, and has the answers of its literal meaning.

The texts are close to the limits of what is accepted (``written_formulas``). ``make test-long`` draws more texts. It
prints its seed, and WEFT_SEED repeats it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest

from oracle.past_course import course
from oracle.past_logic import Log
from oracle.past_logs import log, partition
from oracle.past_trials import on_duckdb
from oracle.written_formulas import SIGNATURE, Literally, Writing
from weft.algebra.formula import free_variables
from weft.derivation.synopsis.construct import synopsis
from weft.errors import FormulaError
from weft.formula.monpoly import parsed
from weft.formula.parse_formula import ParsedFormula, counted_reading, reading
from weft.formula.signature import signature

KNOWN = signature(SIGNATURE)
SECOND = 1_000_000
TEXTS = 120
LONGEST = 260
LONG = 6_000
SEED = int(os.environ.get("WEFT_SEED") or random.SystemRandom().randrange(2**32))


def drawn_log(chance: random.Random, states: int) -> Log:
    """A random log, its instants whole seconds."""
    found = log(chance, states)
    return Log(tuple(at * SECOND for at in found.at), found.states)


def found_answers(read: ParsedFormula, given: Log, chance: random.Random, semantics: Any = "set") -> list[Counter[Any]]:
    """What Weft answers at each time point, the log cut into batches at random; values in the order of the text."""
    order = [free_variables(read.formula).index(each) for each in read.columns]
    with on_duckdb() as engine:
        plan = synopsis(read.formula, semantics)
        found = course(plan, read.formula, given, partition(chance, len(given)), engine)
    return [Counter({tuple(row[place] for place in order): count for row, count in at.items()}) for at in found.answers]


def tried(text: str, chance: random.Random, logs: int = 1, states: int = 5) -> Counter[str]:
    """Compare the answers of an accepted formula with its literal meaning, and count the outcomes."""
    try:
        read = reading(text, KNOWN)
    except FormulaError:
        return Counter(refused=1)
    counts = Counter(accepted=1)
    for _ in range(logs):
        given = drawn_log(chance, states)
        wanted = Literally(given).answers(parsed(text))
        found = [set(each) for each in found_answers(read, given, chance)]
        assert found == wanted, f"{text}\n{given}"
        counts["that answer"] |= int(any(wanted))
        counts["that change"] |= int(any(one != wanted[0] for one in wanted))
    return counts


def along(seed: object, texts: int) -> Counter[str]:
    counts, seen, number = Counter[str](), set[str](), 0
    while len(seen) < texts:
        chance = random.Random(f"{seed} {number}")
        text, number = Writing(chance).text(), number + 1
        if len(text) <= LONGEST and text not in seen:
            seen.add(text)
            counts += tried(text, chance)
    return counts


@pytest.mark.timeout(300)
def test_accepted_texts_have_the_answers_of_their_definitions(record_property: Any) -> None:
    counts = along("written", TEXTS)
    record_property("texts", dict(counts))
    assert counts["refused"] > 5
    assert counts["accepted"] > 0.8 * TEXTS
    assert counts["that answer"] > 0.4 * TEXTS
    assert counts["that change"] > 0.3 * TEXTS


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_accepted_texts_have_the_answers_of_their_definitions() -> None:
    print(f"WEFT_SEED={SEED}")
    assert along(SEED, LONG)["accepted"] > 0.8 * LONG


FILTERED = "LETPAST {name}(v) = {given} OR ((PREVIOUS {name}(v)) AND v < {limit}) IN {name}(v)"
PINNED = {
    "a comparison beside PREVIOUS X": (
        "LETPAST X(v) = (EXISTS y. q(v,y)) OR ((PREVIOUS X(v)) AND v < 2) IN X(x)"
    ),
    "the comparison first": "LETPAST X(v) = (v < 2 AND (PREVIOUS X(v))) OR (EXISTS y. q(v,y)) IN X(x)",
    "NOT of a comparison": "LETPAST X(v) = p(v) OR ((PREVIOUS X(v)) AND NOT v < 2) IN X(x)",
    "an equality of two variables": "LETPAST X(v, w) = q(v, w) OR ((PREVIOUS X(v, w)) AND v = w) IN X(x, y)",
    "what the comparison excludes is inside": (
        "LETPAST X(v) = p(v) OR ((PREVIOUS X(v)) AND NOT (q(v, v) AND v < 2)) IN X(x)"
    ),
    "NOT of an equality before SINCE": "(NOT x = 2) SINCE q(1, x)",
    "names that numbers make alike": (
        "LETPAST X(a) = p(a) IN LETPAST X_2(a) = (PREVIOUS X(a)) IN LETPAST X(a) = (EXISTS b. q(a, b)) OR "
        "(PREVIOUS X_2(a)) IN X(x)"
    ),
    "the same, together": (
        "(LETPAST X(a) = p(a) OR ((PREVIOUS X(a)) AND a < 1) IN X(x)) OR (LETPAST X_2(a) = (LETPAST X(a) = q(a, a) OR "
        "((PREVIOUS X(a)) AND a < 2) IN X(a)) OR ((PREVIOUS X_2(a)) AND a < 3) IN X_2(x))"
    ),
    "a definition spoken of within another of its name": (
        "LETPAST X(a) = p(a) OR ((PREVIOUS X(a)) AND a < 2) IN LET A(b) = X(b) IN LETPAST X(a) = q(a, a) OR "
        "((PREVIOUS X(a)) AND A(a)) IN X(x) AND A(x)"
    ),
    "a predicate and a definition of its name": "LET A(b) = p(b) IN LETPAST p(a) = q(a, a) IN A(x) AND p(x)",
    "fixpoints within two that are written otherwise": (
        f"(LETPAST A(v) = ({FILTERED.format(name='S', given='p(v)', limit=2)}) OR (PREVIOUS A(v)) IN A(x)) AND NOT "
        f"(LETPAST B(v) = ({FILTERED.format(name='T', given='q(v, v)', limit=1)}) OR (PREVIOUS B(v)) IN B(x))"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PINNED)
def test_formulas_that_failed(name: str) -> None:
    counts = tried(PINNED[name], random.Random(name), logs=8, states=7)
    assert counts["accepted"] and counts["that answer"] and counts["that change"]


NESTED = (
    "MU {0}(a). p(a) OR (PREVIOUS {0}(a)) OR (MU {1}(a). q(a, a) OR (PREVIOUS {1}(a)) OR "
    "(MU {2}(a). (PREVIOUS {2}(a)) OR (PREVIOUS {0}(a)) OR (p(a) AND e())))",
    "(MU {0}(a). p(a) OR (PREVIOUS {0}(a))) AND (MU {1}(a). q(a, a) OR (PREVIOUS {1}(a))) AND "
    "(MU {2}(a). p(a) OR (PREVIOUS {2}(a)) OR (PREVIOUS {2}(a)))",
)


@pytest.mark.parametrize("names", [("X", "X_2", "Y"), ("X", "X_2", "X_3"), ("X_2", "X", "X_2"), ("X", "X_2", "X")])
@pytest.mark.parametrize("text", NESTED)
def test_counts_do_not_depend_on_the_names_of_fixpoints(text: str, names: tuple[str, str, str]) -> None:
    if names[0] == names[2] and text == NESTED[0]:
        text = text.replace("(PREVIOUS {0}(a)) OR (p(a) AND e())", "(p(a) AND e())")  # {2} hides {0}
    renamed, plain = (counted_reading(text.format(*each), KNOWN) for each in (names, ("A", "B", "C")))
    chance = random.Random(text)
    answered = False
    for _ in range(8):
        given = drawn_log(chance, 6)
        found, wanted = (found_answers(each, given, chance, "bag") for each in (renamed, plain))
        assert found == wanted
        answered |= any(wanted)
    assert answered
