"""Formulas answered along logs: by hand, and the same whatever the batches."""

import io
from collections.abc import Sequence

import pytest

from weft.execution.monitoring import monitor
from weft.execution.synopsis.conjoining import DivisionByZero
from weft.formula.dejavu.log import events
from weft.formula.dejavu.violations import properties
from weft.formula.monpoly_log import time_points
from weft.formula.parse_formula import counted_reading, reading
from weft.formula.signature import Row, signature

KNOWN = signature("P(int) W(string) V(string)")
LOG = """
@0 W("ab") P(1) @1 W("aabc") P(2) P(7) @1 W("zab") V("zzz") V("z") @5 P(1) @9 @10 P(2)
"""


def answered(text: str, size: int) -> dict[int, list[Row]]:
    read = reading(text, KNOWN)
    found = monitor(read.formula, read.columns, time_points(io.StringIO(LOG), KNOWN), size)
    return {each.point.number: sorted(each.rows) for each in found if each.rows}


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('W(x) AND x MATCHES r"\\(z\\)*ab" (y)', {2: [("zab", "z")]}),
        ('W(x) AND x MATCHES r"\\(z\\)*ab" (_)', {0: [("ab",)], 1: [("aabc",)], 2: [("zab",)]}),
        ('W(x) AND V(y) AND x MATCHES r"\\(z*\\)ab" (y)', {2: [("zab", "z")]}),
        ('W(x) AND x MATCHES r"\\(a\\)\\(a*\\)b" (y, y)', {1: [("aabc", "a")]}),
        ('W(x) AND NOT x MATCHES r"^a"', {2: [("zab",)]}),
        (
            "ONCE[0,4] P(x)",
            {0: [(1,)], 1: [(1,), (2,), (7,)], 2: [(1,), (2,), (7,)], 3: [(1,), (2,), (7,)], 4: [(1,)], 5: [(2,)]},
        ),
        ("P(x) AND (PREVIOUS[1,4] ONCE P(x))", {3: [(1,)], 5: [(2,)]}),
        ("P(x) AND NOT PREVIOUS ONCE P(x)", {0: [(1,)], 1: [(2,), (7,)]}),
        ("P(x) AND y = x * 2 AND y <= 4", {0: [(1, 2)], 1: [(2, 4)], 3: [(1, 2)], 5: [(2, 4)]}),
    ],
)
def test_answers_do_not_depend_on_batches(text: str, expected: dict[int, Sequence[Row]], size: int) -> None:
    assert answered(text, size) == expected


@pytest.mark.parametrize("size", [1, 3, 100])
def test_rules_are_kept_by_those_of_which_they_do_not_hold(size: int) -> None:
    text = "prop p : Forall x . closed(x) -> !telem(x) where closed(x) := toggle(x) <-> @!closed(x)"
    (found,) = properties(text).properties
    log = ["telem,1", "toggle,1", "telem,1", "telem,2", "toggle,2", "telem,2", "toggle,1", "telem,1"]
    states = events(log, properties(text).events, timed=False)
    violated = [each.point.number + 1 for each in monitor(found.violated, (), states, size) if each.rows]
    assert violated == [1, 4, 8]


DIVIDED = "@0 D(6, 3) @1 D(7, 2) D(1, 1) @2 D(0, 1) @3 D(5, 0) Q(5) @4 D(8, 2)"


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("text", "term", "at"),
    [
        ("D(a, b) AND z = a / b", "a / b", 3),
        ("D(a, b) AND 100 < a MOD b", "a MOD b", 3),
        ("D(a, b) AND NOT (a = 1 + 2 * (a / b))", "a / b", 3),
        ("Q(q) AND (ONCE (EXISTS a. D(a, b) AND q = 1 / (a / b)))", "1 / (a / b)", 2),
        ("MU X(n). (EXISTS b. D(n, b)) OR (EXISTS m, b. PREVIOUS X(m) AND D(n, b) AND 1 < m / b)", "m / b", 3),
    ],
)
def test_a_division_by_0_is_an_error_that_names_the_term(text: str, term: str, at: int, size: int) -> None:
    known = signature("D(a:int, b:int) Q(a:int)")
    read = counted_reading(text, known)
    with pytest.raises(DivisionByZero) as error:
        list(monitor(read.formula, read.columns, time_points(io.StringIO(DIVIDED), known), size))
    assert error.value.message == f"{term} divides by 0 at time point {at}"


def test_answers_before_a_division_by_0_are_given() -> None:
    known = signature("D(a:int, b:int) Q(a:int)")
    read = reading("D(a, b) AND z = a / b", known)
    found = []
    with pytest.raises(DivisionByZero):
        for each in monitor(read.formula, read.columns, time_points(io.StringIO(DIVIDED), known), 100):
            found.append((each.point.number, sorted(each.rows)))
    assert found == [(0, [(6, 3, 2)]), (1, [(1, 1, 1), (7, 2, 3)]), (2, [(0, 1, 0)])]


@pytest.mark.parametrize(
    "text",
    [
        "D(a, b) AND NOT (b = 0) AND z = a / b",
        "D(a, b) AND z = a / b AND NOT (b = 0)",
        "D(a, b) AND z = a / b AND 0 < b",
        "D(a, b) AND NOT Q(a) AND z = a / b",
        "D(a, b) AND z = a / b AND (EXISTS x. D(b, x) OR D(x, b) AND NOT Q(x))",
    ],
)
def test_what_another_part_leaves_out_is_not_divided(text: str) -> None:
    known = signature("D(a:int, b:int) Q(a:int)")
    read = reading(text, known)
    found = list(monitor(read.formula, read.columns, time_points(io.StringIO(DIVIDED), known)))
    assert [sorted(each.rows) for each in found][3:] == [[], [(8, 2, 4)]]
