"""Check the interpreter of past temporal logic, before other tests rely on it.

It must agree with the figures of the paper, evaluated for one valuation at a time, and with the paper's examples.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from oracle.past_figures import (
    At,
    Both,
    Once1,
    Order,
    SomeTime,
    SomeValue,
    TwoSorted,
    Without,
    by_figure_1,
    by_figure_2,
)
from oracle.past_grammar import INTEGER, drawn, folded, operators
from oracle.past_logic import SEMANTICS, Log, Meaning, Value, evaluated
from oracle.past_logs import log, partition
from weft.algebra.formula import (
    ALWAYS,
    And,
    Atom,
    Constant,
    Defined,
    Definition,
    Distinct,
    Exists,
    Fixpoint,
    Formula,
    Interval,
    Not,
    Once,
    Or,
    Previous,
    Since,
    Truth,
    Variable,
    free_variables,
    rewritten,
)

CASES = 600
Q, X = Atom("q", ()), Defined("x", ())
TRUE = Truth(True)


def fixpoint(body: Formula) -> Fixpoint:
    """µX.body of a closed formula."""
    return Fixpoint((Definition("x", (), body),), "x", ())


def stream(*states: dict[str, int]) -> Log:
    """A log of closed predicates, each with how often it is reported."""
    return Log(tuple(range(len(states))), tuple({name: [()] * n for name, n in each.items()} for each in states))


def counts(formula: Formula, given: Log, semantics: str = "bag") -> list[int]:
    """How often a closed formula is true, at each time point."""
    return [rows[()] for rows in evaluated(formula, given, semantics)]


def bits(text: str) -> Log:
    """A stream that reports q where a text has 1."""
    return stream(*({"q": 1} if each == "1" else {} for each in text))


def values_met(formula: Formula, given: Log, semantics: str) -> tuple[list[Counter[tuple[Value, ...]]], list[Value]]:
    meaning = Meaning(formula, given, SEMANTICS[semantics])
    answers = [meaning.rows(tp) for tp in range(len(given))]
    return answers, [each for known in meaning.known.values() for substitution in known for _, each in substitution]


@pytest.mark.parametrize("semantics", SEMANTICS)
def test_sets_of_substitutions_say_what_each_valuation_says(semantics: str) -> None:
    seen, with_answers, number, found = set[str](), 0, 0, Counter[str]()
    while len(seen) < CASES // 3:
        chance, number = random.Random(f"{semantics} {number}"), number + 1
        formula = drawn(chance, semantics, aggregates=False, linear=True)
        if folded(formula) in seen:
            continue
        seen.add(folded(formula))
        found.update(operators(formula))
        given = log(chance, chance.randint(1, 5))
        answers, met = values_met(formula, given, semantics)
        assert answers == by_figure_2(formula, given, semantics, met), f"{formula}\n{given}"
        with_answers += any(answers)
    assert with_answers > CASES // 10
    assert {"Fixpoint", "AndNot", "Exists", "Or", "Distinct", "Matches"} <= found.keys()


TWICE = fixpoint(Or(Distinct(Q), Previous(ALWAYS, And(Or(TRUE, TRUE), X))))
"""µX. εq ∨ ▽((true ∨ true) ∧ X)"""


def test_the_count_is_the_history_written_in_binary() -> None:
    """Example 3.5: q, ¬q, ¬q, q, q, q counts 39 at the last of them; the paper writes 6 for t, counting from 1."""
    given = stream({"q": 1}, {}, {}, {"q": 1}, {"q": 1}, {"q": 1})
    assert counts(TWICE, given)[5] == 39 == 0b100111
    for text in ("1", "10", "0110", "100111", "1011001110"):
        assert counts(TWICE, bits(text))[-1] == int(text, 2)


def test_the_query_that_the_restriction_of_section_4_admits_is_the_same() -> None:
    admitted = fixpoint(Or(Or(Distinct(Q), Previous(ALWAYS, X)), Previous(ALWAYS, X)))
    for text in ("1", "100111", "1011001110"):
        assert counts(admitted, bits(text)) == counts(TWICE, bits(text))


def test_more_as_than_bs() -> None:
    """Example 4.8: the difference of how often each came."""
    a, b = (Atom("s", (Constant(each, INTEGER),)) for each in (1, 2))
    more = And(Once(ALWAYS, a, "first"), Not(Once(ALWAYS, b, "first")))
    rows = [[(1,)], [(1,), (2,)], [(1,), (1,)], [], [(2,), (2,)], [(2,)]]
    given = Log((0, 1, 2, 3, 4, 5), tuple({"s": each} for each in rows))
    assert counts(more, given) == [1, 1, 3, 3, 1, 0]


def test_since1_counts_and_since2_measures_the_time() -> None:
    p, q = Atom("p", ()), Atom("q", ())
    given = stream({"q": 2}, {"p": 1, "q": 2}, {"p": 3}, {"p": 2, "q": 1}, {"p": 1}, {})
    assert counts(Since(ALWAYS, p, q, "first"), given) == [0, 2, 2, 3, 3, 0]
    assert counts(Since(ALWAYS, p, q, "second"), given) == [0, 1, 4, 2, 3, 0]


def test_since_as_a_fixpoint_is_since() -> None:
    p, q = Atom("p", ()), Atom("q", ())
    before = Previous(ALWAYS, X)
    first = fixpoint(And(Distinct(p), Or(q, before)))
    again = And(p, And(Distinct(before), Not(q)))
    second = fixpoint(Or(Or(And(p, Distinct(q)), again), And(before, And(Distinct(p), Not(q)))))
    chance = random.Random(47)
    for _ in range(60):
        given = stream(*({"p": chance.choice([0, 1, 1, 2]), "q": chance.choice([0, 0, 1, 3])} for _ in range(8)))
        for semantics in SEMANTICS:
            assert counts(first, given, semantics) == counts(Since(ALWAYS, p, q, "first"), given, semantics)
            assert counts(second, given, semantics) == counts(Since(ALWAYS, p, q, "second"), given, semantics)


def test_the_diamonds_of_example_47_and_its_mistake() -> None:
    """◇1 counts all, and ◇2 gives the distance of the last one.

    (¬Q) since2 Q, proposed for the earliest, is never true.
    """
    given = stream({}, {"q": 2}, {}, {"q": 1}, {}, {})
    assert counts(Once(ALWAYS, Q, "first"), given) == [0, 2, 2, 3, 3, 3]
    assert counts(Once(ALWAYS, Q, "second"), given) == [0, 1, 2, 1, 2, 3]
    assert counts(Since(ALWAYS, TRUE, Q, "second"), given) == [0, 1, 2, 1, 2, 3]
    assert counts(Since(ALWAYS, Not(Q), Q, "second"), given) == [0] * 6


def test_time_points_of_one_time_and_previous() -> None:
    given = Log((0, 0, 5, 6), ({"q": [()]}, {}, {"q": [()]}, {}))
    assert counts(Previous(Interval(0, 0), Q), given, "set") == [0, 1, 0, 0]
    assert counts(Previous(Interval(1, None), Q), given, "set") == [0, 0, 0, 1]
    assert counts(Once(Interval(1, 5), Q), given, "set") == [0, 0, 1, 1]
    assert counts(Once(Interval(0, 0), Q), given, "set") == [1, 1, 1, 0]


def test_more_as_than_bs_in_two_sorts() -> None:
    """The query of section 3.1 over S(t, x), 1 for a and 2 for b."""
    given = Log((0, 1, 2), ({"a": [(1,)]}, {"a": [(1,), (1,)], "b": [(1,)]}, {"b": [(1,)]}))
    count = {name: SomeTime("t", SomeValue("x", At(name, "t", ("x",)))) for name in "ab"}
    more = Without(count["a"], count["b"])
    assert [by_figure_1(more, (), given.until(n))[()] for n in (1, 2, 3)] == [1, 2, 1]


def same_size() -> TwoSorted:
    """Theorem 3.2: two states have the same number of tuples.  Equal times are left out of the range of t1 < t2."""
    one, two = (SomeValue("x", At("s", time, ("x",))) for time in ("t1", "t2"))
    order = Order("<", "t1", "t2")
    differ = Without(Without(order, Without(one, two)), Without(two, one))
    return Once1(SomeTime("t1", SomeTime("t2", differ)))


def sizes(*numbers: int) -> Log:
    """A stream whose states have one value so many times."""
    return Log(tuple(range(len(numbers))), tuple({"s": [(7,)] * n} for n in numbers))


def test_two_states_of_the_same_size_in_two_sorts() -> None:
    assert [by_figure_1(same_size(), (), sizes(*each))[()] for each in ((1, 2, 4), (1, 2, 1), (3, 3), (2,))] == [
        0,
        1,
        1,
        0,
    ]


def nest(chance: random.Random, atoms: int) -> tuple[TwoSorted, Formula]:
    """A conjunctive query whose times are in a linear order, the last first, and its nest of ◇1 with ▽ (4.2)."""
    groups = sorted(chance.randrange(atoms) for _ in range(atoms))
    names = "ab"
    columns = [tuple(chance.sample(["x", "y"], 1)) for _ in range(atoms)]
    predicates = [chance.choice(names) for _ in range(atoms)]
    levels = sorted(set(groups))
    two: TwoSorted | None = None
    for k in range(atoms):
        atom = At(predicates[k], f"t{groups[k]}", columns[k])
        two = atom if two is None else Both(two, atom)
    assert two is not None
    for earlier, later in pairwise(reversed(levels)):
        two = Both(two, Order("<", f"t{earlier}", f"t{later}"))
    for level in levels:
        two = SomeTime(f"t{level}", two)
    formula: Formula | None = None
    for level in reversed(levels):
        conjuncts: list[Formula] = [
            Atom(predicates[k], tuple(Variable(each, INTEGER) for each in columns[k]))
            for k in range(atoms)
            if groups[k] == level
        ]
        if formula is not None:
            conjuncts.append(Previous(ALWAYS, formula))
        both = conjuncts[0]
        for each in conjuncts[1:]:
            both = And(both, each)
        formula = Once(ALWAYS, both, "first")
    assert formula is not None
    if {each for one in columns for each in one} == {"x", "y"}:
        return SomeValue("y", two), Exists((Variable("y", INTEGER),), formula)
    return two, formula


def test_a_conjunctive_query_in_order_is_a_nest_of_diamonds() -> None:
    """Section 4.2, with ▽ before each inner ◇1: without it the order would not be strict."""
    changing, strict, apart = 0, 0, 0
    for number in range(150):
        chance = random.Random(f"nest {number}")
        two, formula = nest(chance, chance.randint(1, 3))
        free = tuple(variable.name for variable in free_variables(formula))
        rows = [
            {name: [(chance.choice([0, 1]),) for _ in range(chance.randint(0, 2))] for name in "ab"} for _ in range(5)
        ]
        given = Log((0, 1, 2, 3, 4), tuple(rows))
        wanted = [by_figure_1(two, free, given.until(t + 1)) for t in range(5)]
        assert evaluated(formula, given, "bag") == wanted, f"{two}\n{formula}\n{given}"
        changing += any(wanted)
        strict += without_previous(formula) != formula
        apart += evaluated(without_previous(formula), given, "bag") != wanted
    assert changing > 100
    assert apart > strict / 2 > 20


def without_previous(formula: Formula) -> Formula:
    """The nest as the paper writes it."""
    return rewritten(formula, lambda part: part.formula if isinstance(part, Previous) else part)


def test_partitions_are_partitions() -> None:
    for number in range(200):
        chance = random.Random(number)
        states = chance.randint(1, 9)
        ranges = partition(chance, states)
        assert [tp for first, end in ranges for tp in range(first, end)] == list(range(states))


def test_the_operators_that_are_drawn() -> None:
    """Every operator, with each shape of interval, in both kinds of semantics."""
    found = Counter[str]()
    for semantics in ("set", "bag"):
        for number in range(800):
            found.update(operators(drawn(random.Random(f"{semantics} {number}"), semantics)))
    shapes = ("[0,*]", "[0,b]", "[a,*]", "[a,b]")
    wanted = {f"{each} {shape}" for each in ("Previous", "Once any", "Once first") for shape in shapes}
    wanted |= {f"Since {each} {shape}{no}" for each in ("any", "first") for shape in shapes for no in ("", " not")}
    wanted |= {"Once second [0,*]", "Since second [0,*]", "Since second [0,*] not", "AndNot", "Fixpoint", "Distinct"}
    wanted |= {f"Aggregate {each}{by}" for each in ("CNT", "SUM", "AVG", "MIN", "MAX", "MED") for by in ("", " by")}
    wanted |= {"Comparison =", "Comparison <", "Comparison <=", "Comparison substring", "Matches", "Truth", "Not"}
    assert wanted <= found.keys(), wanted - found.keys()
