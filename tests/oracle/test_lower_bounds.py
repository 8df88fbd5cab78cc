"""The lower bounds of Toman 2007: if prefixes have continuations with different answers, the stored relations differ.

Without counts, or with the restriction, few prefixes must be distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import pyarrow as pa
import pytest

from oracle.past_figures import At, Order, SomeTime, SomeValue, TwoSorted, Without, by_figure_1
from oracle.past_figures import Once1 as Epsilon
from oracle.past_logic import Log
from weft.algebra.formula import Formula
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.prepared import Semantics
from weft.execution.synopsis.batch import EMPTY, State, StateBatch
from weft.execution.synopsis.evaluating import evaluate
from weft.formula.parse_formula import counted_reading
from weft.formula.signature import signature

KNOWN = signature("q() s(x:string)")
BINARY = "MU X. (DISTINCT q()) OR PREVIOUS ((TRUE OR TRUE) AND X)"
ADMITTED = "MU X. (DISTINCT q()) OR (PREVIOUS X) OR (PREVIOUS X)"
ONCE_MORE = "MU X. (DISTINCT q()) OR PREVIOUS X"
MORE = '(ONCE1 s("a")) AND NOT (ONCE1 s("b"))'
LENGTH = 5


def formula(text: str) -> Formula:
    return counted_reading(text, KNOWN).formula


def batch(first: int, states: Sequence[str]) -> StateBatch:
    """States in letters: ``q`` reports q, ``a`` and ``b`` are rows of s; all may come several times."""
    tps = pa.array(range(first, first + len(states)), pa.int64())
    q = [tp for tp, state in enumerate(states, first) for each in state if each == "q"]
    s = [(tp, each) for tp, state in enumerate(states, first) for each in state if each in "ab"]
    return StateBatch(
        pa.table({"tp": tps, "at": tps}),
        {
            "q": pa.table({"tp": pa.array(q, pa.int64())}),
            "s": pa.table(
                {"tp": pa.array([tp for tp, _ in s], pa.int64()), "c1": pa.array([x for _, x in s], pa.string())}
            ),
        },
    )


def stored(text: str, semantics: Semantics, prefixes: Sequence[Sequence[str]]) -> list[State]:
    """The stored relations after each of some prefixes."""
    plan = synopsis(formula(text), semantics)
    return [evaluate(plan, EMPTY, batch(0, states))[0] for states in prefixes]


def contents(state: State) -> str:
    """The stored relations without the number and the time of the last time point."""
    return repr(sorted((repr(each), rows.to_pydict()) for each, rows in state.relations.items()))


def told_apart(text: str, semantics: Semantics, prefixes: Sequence[Sequence[str]]) -> int:
    """The number of prefixes that the stored relations distinguish."""
    return len(set(map(contents, stored(text, semantics, prefixes))))


HISTORIES = [tuple(each) for each in product(("", "q"), repeat=LENGTH)]


@pytest.mark.parametrize("text", [BINARY, ADMITTED, "MU X. (DISTINCT q()) OR PREVIOUS (X OR X)"])
def test_theorem_34_every_history_is_another_state(text: str) -> None:
    """2^n histories, 2^n states: n bits.  Their answers differ at once, so that no synopsis could have fewer."""
    plan = synopsis(formula(text), "bag")
    found = [evaluate(plan, EMPTY, batch(0, states)) for states in HISTORIES]
    assert len({str(answers.to_pydict()) for _, answers, *_ in found}) == 2**LENGTH
    assert len({contents(state) for state, *_ in found}) == 2**LENGTH


def test_with_sets_or_x_taken_once_few_histories_are_distinguished() -> None:
    assert told_apart(BINARY, "set", HISTORIES) == 2
    assert told_apart(BINARY, "minmax", HISTORIES) == 2
    assert told_apart(ONCE_MORE, "bag", HISTORIES) == LENGTH + 1


def test_more_as_than_bs_needs_a_logarithm() -> None:
    """n a's and m a's differ once n b's have come: the synopsis must distinguish n + 1 prefixes of at most n states."""
    most = 12
    prefixes = [["a"] * n for n in range(most)]
    plan, states = synopsis(formula(MORE), "bag"), stored(MORE, "bag", prefixes)
    for n, m in combinations(range(most), 2):
        after = [evaluate(plan, states[each], batch(each, ["b" * n]))[1] for each in (n, m)]
        assert [answers.num_rows for answers in after] == [0, 1]
    assert len(set(map(contents, states))) == most
    assert told_apart(MORE, "set", prefixes) == 2


def two_of_one_size() -> TwoSorted:
    """Theorem 3.2: ε∃t1, t2. t1 < t2 and both states have the same number of tuples."""
    one, two = (SomeValue("x", At("s", time, ("x",))) for time in ("t1", "t2"))
    differ = Without(Without(Order("<", "t1", "t2"), Without(one, two)), Without(two, one))
    return Epsilon(SomeTime("t1", SomeTime("t2", differ)))


def sizes(numbers: Sequence[int]) -> Log:
    return Log(tuple(range(len(numbers))), tuple({"s": [(7,)] * n} for n in numbers))


def sets_of_sizes() -> Iterator[tuple[int, ...]]:
    """Sets of three of six sizes, as prefixes of three states."""
    return combinations(range(1, 7), 3)


def test_theorem_32_every_set_of_sizes_must_be_distinguished() -> None:
    """States of different sizes; the next one has a size that one prefix had and the other had not."""
    query = two_of_one_size()
    answers = {
        given: tuple(by_figure_1(query, (), sizes([*given, size])).total() for size in range(1, 7))
        for given in sets_of_sizes()
    }
    assert len(set(answers.values())) == len(answers) == 20
