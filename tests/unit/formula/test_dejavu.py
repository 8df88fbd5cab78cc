"""DejaVu's specifications: what they mean over an infinite domain, said with finite relations."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra.schema import BIGINT, STRING
from weft.errors import FormulaError
from weft.execution.monitoring import monitor
from weft.formula.dejavu.dejavu_parser import specification
from weft.formula.dejavu.violations import properties
from weft.formula.signature import TimePoint
from weft.formula.syntax_tree import Joined, Quantified, Since
from weft.formula.written import written


def violated(text: str) -> str:
    (found,) = properties(text).properties
    return written(found.violated)


def test_operators_bind_as_in_dejavu() -> None:
    (found,) = specification("prop p : a & b | c -> !d S e // end").properties
    formula = found.formula
    assert isinstance(formula, Joined) and formula.connective == "IMPLIES"
    assert isinstance(formula.left, Joined) and formula.left.connective == "OR"
    assert isinstance(formula.right, Since)
    (other,) = specification("/* two */ prop p : Forall x . a(x) -> P[<=3] b(x)").properties
    assert isinstance(other.formula, Quantified)


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("prop p : Forall x . a(x) -> P b(x)", "EXISTS x. (a(x) AND (NOT (ONCE b(x))))"),
        ("prop p : Forall x . P a(x)", "TRUE"),
        ("prop p : Exists x . !a(x)", "FALSE"),
        ("prop p : Exists x . Forall y . r(x, y)", "TRUE"),
        ("prop p : Exists x . a(x) & Exists y . !r(x, y)", "NOT (EXISTS x. a(x))"),
        ("prop p : Forall x . (a(x) -> x < 5)", "EXISTS x. (a(x) AND (NOT x < 5))"),
        ("prop p : forall x . a(x) -> b(x)", "EXISTS x. (a(x) AND (NOT b(x)))"),
        ("prop p : Forall x . [a(x), b(x)) -> c", "EXISTS x. (((NOT b(x)) SINCE a(x)) AND (NOT c()))"),
        ("pred m(y, z) = a(y) & b(z)\nprop p : ! Exists y . m(y, 1)", 'EXISTS y. (a(y) AND b("1"))'),
        (
            'prop p : Forall x . [a(x), b(x)) & (x = "1" | x = "2") -> c',
            '(((ONCE (b("1") OR a("1")))'
            ' AND ((NOT b("1")) SINCE a("1"))) AND (NOT c())) OR'
            ' (((ONCE (b("2") OR a("2"))) AND ((NOT b("2")) SINCE a("2"))) AND (NOT c()))',
        ),
        ("prop p : c -> P[>10] a", "NOT ((NOT c()) OR (ONCE(10s,*) a()))"),
    ],
)
def test_violations_are_said_with_finite_relations(text: str, formula: str) -> None:
    assert violated(text) == formula


def test_columns_are_numbers_where_they_are_compared() -> None:
    found = properties("prop p : Forall x . Forall y . a(x, y) -> y < 5")
    assert found.events == {"a": (STRING, BIGINT)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prop p : Forall x . a(x) -> b(y)", "nothing binds the variable y"),
        ("prop p : a &", "a formula is expected here"),
        ("prop p : Forall x . a(x) & a(x, x)", "a has 1 columns elsewhere, but 2 here"),
        ("pred m(x) = m(x)\nprop p : Forall x . m(x)", "m is used in its own definition"),
        ("prop p : Forall x . r(x) where r(x) := r(x) | a(x)", "the rule r uses r without @"),
        ('prop p : Forall x . a(x, "b") & x < 3 -> x = "c"', "is compared as a number"),
        ("event a(x)\nprop p : Forall x . a(x) -> b(x)", "b is not one of the declared events: a"),
        ("prop p : a Z[<=3] b", "Z (since, and not now) is not supported"),
        ("pred a(x)", "the specification has no property"),
        ("prop p : Forall x . a(x) -> x < 9223372036854775808", "9223372036854775808 does not fit into 64 bits"),
        ("prop p : Exists x . Forall y . P[<=3] (a(x) & !b(x, y))", "has no equivalent with finitely many values"),
    ],
)
def test_what_is_not_taken_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as refusal:
        properties(text)
    assert message in refusal.value.message
    assert refusal.value.where is not None


VALUES = ("1", "2", "3", "fresh", "other")
"""More than the logs have: the two last are those that no event ever has."""

Truths = Callable[[int, dict[str, str]], bool]


@st.composite
def texts(draw: st.DrawFn, names: tuple[str, ...] = (), depth: int = 4) -> tuple[str, Truths]:
    """A formula of DejaVu with the variables, and what it means, by all values."""
    if depth == 0:
        kind = draw(st.sampled_from("abr"))
        if not names:
            return "c", lambda tp, _: ("c",) in LOG[tp]
        x, y = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        if kind == "r":
            return f"r({x}, {y})", lambda tp, env: ("r", env[x], env[y]) in LOG[tp]
        return f"{kind}({x})", lambda tp, env: (kind, env[x]) in LOG[tp]
    one, first = draw(texts(names, depth - 1))
    match draw(st.integers(0, 8)):
        case 0:
            return f"!({one})", lambda tp, env: not first(tp, env)
        case 1:
            return f"@({one})", lambda tp, env: tp > 0 and first(tp - 1, env)
        case 2:
            return f"P({one})", lambda tp, env: any(first(at, env) for at in range(tp + 1))
        case 3:
            return f"H({one})", lambda tp, env: all(first(at, env) for at in range(tp + 1))
        case 4 | 5:
            name = "xyz"[len(names) % 3]
            inner, within = draw(texts((*names, name), depth - 1))
            if draw(st.booleans()):
                return f"(Exists {name} . {inner})", lambda tp, env: any(within(tp, {**env, name: v}) for v in VALUES)
            return f"(Forall {name} . {inner})", lambda tp, env: all(within(tp, {**env, name: v}) for v in VALUES)
    other, second = draw(texts(names, draw(st.integers(0, depth - 1))))
    match draw(st.integers(0, 2)):
        case 0:
            return f"({one}) & ({other})", lambda tp, env: first(tp, env) and second(tp, env)
        case 1:
            return f"({one}) -> ({other})", lambda tp, env: not first(tp, env) or second(tp, env)
        case _:
            return f"({one}) S ({other})", lambda tp, env: any(
                second(at, env) and all(first(later, env) for later in range(at + 1, tp + 1)) for at in range(tp + 1)
            )


LOG: list[set[tuple[str, ...]]] = []


def points() -> Iterator[TimePoint]:
    for number, state in enumerate(LOG):
        rows: dict[str, list[tuple[str, ...]]] = {}
        for name, *values in sorted(state):
            rows.setdefault(name, []).append(tuple(values))
        yield TimePoint(number, 0, rows)  # type: ignore[arg-type]


EVENTS = [
    ("c",),
    *((kind, value) for kind in "ab" for value in "123"),
    *(("r", *pair) for pair in product("123", "123")),
]


@given(texts(), st.lists(st.sampled_from(EVENTS), min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_random_formulas_over_all_values_mean_what_they_say(
    formula: tuple[str, Truths], log: list[tuple[str, ...]]
) -> None:
    text, meaning = formula
    LOG[:] = [{event} for event in log]
    try:
        (found,) = properties(f"prop p : {text}").properties
    except FormulaError:
        return
    told = [answered.point.number for answered in monitor(found.violated, (), points()) if answered.rows]
    assert told == [tp for tp in range(len(LOG)) if not meaning(tp, {})], text
