"""Formulas of two sorts: what is read, what is refused and where, and the paper's examples."""

import io

import pytest

from weft.derivation.synopsis.prepared import Semantics
from weft.errors import FormulaError
from weft.execution.monitoring import monitor
from weft.formula.monpoly_log import time_points
from weft.formula.signature import signature
from weft.formula.twofol.over_history import over_history
from weft.formula.twofol.resolve import two_sorted
from weft.formula.twofol.written import two_sorted_text
from weft.planning.formula_plan import planned

KNOWN = signature("P(int) Q(int) R(int, int) S(string)")
MORE = '(EXISTS TIME t. S("a") AT t) AND NOT EXISTS TIME t. S("b") AT t'
SAME_SIZE = (
    "DISTINCT EXISTS TIME t, u. t < u AND NOT ((EXISTS x. P(x) AT t) AND NOT EXISTS x. P(x) AT u) "
    "AND NOT ((EXISTS x. P(x) AT u) AND NOT EXISTS x. P(x) AT t)"
)


def asked(text: str, log: str, semantics: Semantics) -> list[dict[tuple[object, ...], int]]:
    """The answers at each time point of a log, each with its count."""
    read = planned(two_sorted(text, KNOWN), semantics).reading
    points = time_points(io.StringIO(log), KNOWN, "log")
    return [
        dict(zip(each.rows, each.counts or [1] * len(each.rows), strict=True))
        for each in monitor(read.formula, read.columns, points, semantics=semantics)
    ]


def counts(text: str, log: str, semantics: Semantics = "bag") -> list[int]:
    return [rows.get((), 0) for rows in asked(text, log, semantics)]


def test_more_as_than_bs() -> None:
    """Section 3.1; Example 4.8 asks the same of µTL."""
    log = "@0 S(a) @1 S(a) (b) @2 S(a) (a) @3 @4 S(b) (b) @5 S(b)"
    assert counts(MORE, log) == [1, 1, 3, 3, 1, 0]
    assert counts(MORE, log, "set") == [1, 0, 0, 0, 0, 0]


def test_two_states_of_the_same_size() -> None:
    """Theorem 3.2: with sets only whether there was any is asked."""
    sizes = {(1, 2, 4): [0, 0, 0], (1, 2, 1): [0, 0, 1], (3, 3): [0, 1], (2,): [0]}
    for each, wanted in sizes.items():
        log = " ".join(f"@{at} P{'(7) ' * size}" for at, size in enumerate(each))
        assert counts(SAME_SIZE, log) == wanted
        assert counts(SAME_SIZE, log, "set") == [int(at > 0) for at in range(len(each))]


def test_time_points_of_one_time_are_distinguished() -> None:
    log = "@1 P(1) @1 Q(1) @9 Q(1)"
    later = "EXISTS TIME t. P(x) AT t AND Q(x) AT NOW AND t < NOW"
    assert asked(later, log, "set") == [{}, {(1,): 1}, {(1,): 1}]
    assert asked(f"{later} AND NOW - t < 1s", log, "set") == [{}, {(1,): 1}, {}]
    assert asked(f"{later} AND NOW - t >= 8s", log, "set") == [{}, {}, {(1,): 1}]


def test_always_and_how_often() -> None:
    log = "@1 P(1) (2) Q(1) (2) @2 P(1) Q(1) @3 P(2) (1) Q(1)"
    always = "P(x) AT NOW AND FORALL TIME t. P(x) AT t IMPLIES Q(x) AT t"
    assert asked(always, log, "set") == [{(1,): 1, (2,): 1}, {(1,): 1}, {(1,): 1}]
    assert asked("n <- CNT t; x P(x) AT t", log, "set")[-1] == {(3, 1): 1, (2, 2): 1}


def test_a_time_point_that_nothing_is_said_of_counts_each_time() -> None:
    assert counts("EXISTS TIME t. P(1) AT NOW", "@1 P(1) @2 P(1) @3 P(1) (1)") == [1, 2, 6]
    assert counts("EXISTS TIME t. P(1) AT NOW", "@1 P(1) @2 P(1)", "set") == [1, 1]


@pytest.mark.parametrize(
    "text",
    [
        "EXISTS TIME t. P(x) AT t",
        MORE,
        SAME_SIZE,
        "FORALL TIME t, s. P(1) AT t AND s - t > 90m IMPLIES Q(1) AT s",
        "EXISTS TIME t. (P(x) AT t OR Q(x) AT NOW) AND NOW - t <= 7us",
        "n <- CNT t; x (P(x) AT t AND t < NOW)",
    ],
)
def test_written_texts_are_read_back(text: str) -> None:
    read = two_sorted(text, KNOWN).formula
    assert two_sorted(two_sorted_text(read), KNOWN).formula == read


@pytest.mark.parametrize(
    ("text", "result", "where"),
    [
        ("P(x)", "AT and a time point", "line 1, column 5"),
        ("P(x) AT t", "the time point t is free", "line 1, column 9"),
        ("EXISTS TIME t.\n ONCE P(x) AT t", "ONCE is an operator of temporal logic", "line 2, column 2"),
        ("P(x) AT NOW SINCE Q(x) AT NOW", "SINCE is an operator of temporal logic", "line 1, column 13"),
        ("EVENTUALLY P(x) AT NOW", "EVENTUALLY looks into the future", "line 1, column 1"),
        ("LET A(x) = P(x) AT NOW IN A(x) AT NOW", "LET and MU are not supported", "line 1, column 1"),
        ("EXISTS TIME t. P(t) AT t", "column 1 of P is an integer, but this term is a time point", "line 1, column 18"),
        ("EXISTS TIME t. t = 5", "types clash", "line 1, column 18"),
        ("EXISTS TIME t, s. t - s < 5", "types clash", "line 1, column 25"),
        ("EXISTS TIME t, s. P(x) AT t AND t + s < 5s", "a time point can only be subtracted", "line 1, column 35"),
        ("P(x) AT NOW AND x < 7d", "types clash", "line 1, column 19"),
        ("y = 7d", "a length of time can be compared", "line 1, column 1"),
        ("P(x, y) AT NOW", "P has 1 column, but 2 terms are given", "line 1, column 1"),
        ("X(x) AT NOW", "X is not a predicate", "line 1, column 1"),
        ("m <- MAX t (P(1) AT t)", "MAX of time points is not supported", "line 1, column 1"),
        ("EXISTS NOW. P(1) AT NOW", "a variable is expected here", "line 1, column 8"),
    ],
)
def test_refusals_show_the_place(text: str, result: str, where: str) -> None:
    with pytest.raises(FormulaError) as refused:
        two_sorted(text, KNOWN)
    assert result in refused.value.message
    assert refused.value.where == where


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("EXISTS TIME t. NOT P(x) AT t", "NOT P(x) AT t"),
        ("EXISTS TIME t. P(x) AT t OR R(x, y) AT t", "P(x) AT t OR R(x,y) AT t"),
        ("EXISTS TIME t. P(x) AT t AND y < x", "P(x) AT t AND y < x"),
    ],
)
@pytest.mark.parametrize("duplicates", [False, True])
def test_a_formula_without_finite_answers_is_refused(text: str, part: str, *, duplicates: bool) -> None:
    read = two_sorted(text, KNOWN)
    with pytest.raises(FormulaError) as refused:
        over_history(read.formula, counts=duplicates)
    assert part in (refused.value.excerpt or "")


def test_with_duplicates_a_formula_is_taken_as_it_is_written() -> None:
    always = two_sorted("P(x) AT NOW AND FORALL TIME t. P(x) AT t IMPLIES Q(x) AT t", KNOWN).formula
    over_history(always, counts=False)
    with pytest.raises(FormulaError, match="cannot be monitored"):
        over_history(always, counts=True)
