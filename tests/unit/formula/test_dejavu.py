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
        ("prop p : Forall x . a(x) -> b(x) Z[<=3] a(x)", "EXISTS x. (a(x) AND (NOT (b(x) Z[0,3s] a(x))))"),
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
        ("prop p : a Z b", "Z needs a time, as in p Z[<=3] q"),
        ("prop p : a Z[>3] b", "Z needs a time, as in p Z[<=3] q"),
        ("prop p : a S[<=-3] b", "the interval is negative or empty"),
        ("prop p : P[>9999999999999999] a", "the interval is too long"),
        ("pred a(x)", "the specification has no property"),
        ("prop p : Forall x . a(x) -> x < 9223372036854775808", "9223372036854775808 does not fit into 64 bits"),
        (
            "prop p : Exists x . Forall y . P[<=3] (a(x) & !b(x, y))",
            "has no equivalent with finitely many values: neither a(x) AND (NOT b(x,y)) nor its negation has",
        ),
        (
            "prop p : Forall x . Exists l . Forall t . H (a(t, x) -> [b(t, l), c(t, l)))",
            "neither (NOT a(t,x)) OR ((NOT c(t,l)) SINCE b(t,l)) nor its negation has finitely many answers",
        ),
    ],
)
def test_unsupported_constructs_are_refused_with_their_place(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as refusal:
        properties(text)
    assert message in refusal.value.message
    assert refusal.value.where is not None


VALUES = ("1", "2", "3", "fresh", "other")
"""More than the logs have: the two last are those that no event ever has."""

Truths = Callable[[int, dict[str, str]], bool]
Shown = frozenset[tuple[str, ...]]
"""The events of a formula, each with the names of its variables."""


@st.composite
def texts(draw: st.DrawFn, names: tuple[str, ...] = (), depth: int = 4) -> tuple[str, Truths, Shown]:
    """A formula of DejaVu with the variables, what it means, by all values, and its events."""
    if depth == 0:
        return draw(events_of(names))
    one, first, shown = draw(texts(names, depth - 1))
    match draw(st.integers(0, 9)):
        case 0:
            return f"!({one})", lambda tp, env: not first(tp, env), shown
        case 1:
            return f"@({one})", lambda tp, env: tp > 0 and first(tp - 1, env), shown
        case 2:
            return f"P({one})", lambda tp, env: any(first(at, env) for at in range(tp + 1)), shown
        case 3:
            return f"H({one})", lambda tp, env: all(first(at, env) for at in range(tp + 1)), shown
        case 4 | 5 | 6:
            return draw(quantified(names, depth))
    other, second, more = draw(texts(names, draw(st.integers(0, depth - 1))))
    match draw(st.integers(0, 3)):
        case 0:
            return f"({one}) & ({other})", lambda tp, env: first(tp, env) and second(tp, env), shown | more
        case 1:
            return f"({one}) -> ({other})", lambda tp, env: not first(tp, env) or second(tp, env), shown | more
        case kind:
            length = draw(st.integers(1, 3)) if kind == 2 else None
            operator = "S" if length is None else f"Z[<={length}]"
            return f"({one}) {operator} ({other})", since(first, second, length), shown | more


@st.composite
def events_of(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[str, Truths, Shown]:
    if not names:
        return "c", lambda tp, _: ("c",) in LOG[tp], frozenset()
    kind, x, y = draw(st.sampled_from("abr")), draw(st.sampled_from(names)), draw(st.sampled_from(names))
    if kind == "r":
        return f"r({x}, {y})", lambda tp, env: ("r", env[x], env[y]) in LOG[tp], frozenset({("r", x, y)})
    return f"{kind}({x})", lambda tp, env: (kind, env[x]) in LOG[tp], frozenset({(kind, x)})


@st.composite
def quantified(draw: st.DrawFn, names: tuple[str, ...], depth: int) -> tuple[str, Truths, Shown]:
    """A quantifier over all values, or over those that an event of the formula has shown for the variable."""
    name, word = "xyz"[len(names) % 3], draw(st.sampled_from(("Exists", "Forall", "exists", "forall")))
    names = tuple(each for each in names if each != name)
    inner, within, shown = draw(texts((*names, name), depth - 1))
    values = (lambda tp: VALUES) if word[0].isupper() else (lambda tp: seen(shown, name, tp))
    how: Callable[[Iterator[bool]], bool] = any if word.lower() == "exists" else all
    meaning: Truths = lambda tp, env: how(within(tp, {**env, name: v}) for v in values(tp))  # noqa: E731
    outside = frozenset(tuple(f"{each}'" if each == name else each for each in event) for event in shown)
    return f"({word} {name} . {inner})", meaning, outside


def since(first: Truths, second: Truths, length: int | None) -> Truths:
    """Since; with a length it is Z: the second formula held before now, at most so many seconds ago."""

    def held(tp: int, env: dict[str, str]) -> bool:
        before = range(tp + (length is None))
        near = [at for at in before if length is None or SECONDS[tp] - SECONDS[at] <= length]
        return any(second(at, env) and all(first(later, env) for later in range(at + 1, tp + 1)) for at in near)

    return held


def seen(shown: Shown, name: str, tp: int) -> set[str]:
    """The values for which some event so far fits the formula's event, whatever its other variables are."""
    found = set()
    for kind, *variables in shown:
        for event in set().union(*LOG[: tp + 1]):
            given = dict(zip(variables, event[1:], strict=False))
            if event[0] == kind and name in variables and tuple(given[each] for each in variables) == event[1:]:
                found.add(given[name])
    return found


SECONDS = (0, 1, 1, 4, 6, 7)
"""The time of each state."""
LOG: list[set[tuple[str, ...]]] = []


def points() -> Iterator[TimePoint]:
    for number, state in enumerate(LOG):
        rows: dict[str, list[tuple[str, ...]]] = {}
        for name, *values in sorted(state):
            rows.setdefault(name, []).append(tuple(values))
        yield TimePoint(number, SECONDS[number] * 1_000_000, rows)  # type: ignore[arg-type]


EVENTS = [
    ("c",),
    *((kind, value) for kind in "ab" for value in "123"),
    *(("r", *pair) for pair in product("123", "123")),
]


@given(texts(), st.lists(st.sampled_from(EVENTS), min_size=1, max_size=5))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_random_formulas_over_all_values_agree_with_their_definitions(
    formula: tuple[str, Truths, Shown], log: list[tuple[str, ...]]
) -> None:
    """The draw is the same in each run, because a rare formula with nested quantifiers takes minutes."""
    text, meaning, _ = formula
    LOG[:] = [{event} for event in log]
    try:
        (found,) = properties(f"prop p : {text}").properties
    except FormulaError:
        return
    result = [answered.point.number for answered in monitor(found.violated, (), points()) if answered.rows]
    assert result == [tp for tp in range(len(LOG)) if not meaning(tp, {})], text
