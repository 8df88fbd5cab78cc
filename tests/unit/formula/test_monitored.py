"""Formulas answered along logs: by hand, and the same whatever the batches."""

import io
from collections.abc import Sequence

import pytest

from weft.execution.monitoring import monitored
from weft.formula.dejavu import properties
from weft.formula.dejavu_log import events
from weft.formula.monpoly_log import time_points
from weft.formula.reading import reading
from weft.formula.signature import signature
from weft.formula.states import Row

KNOWN = signature("P(int) W(string) V(string)")
LOG = """
@0 W("ab") P(1) @1 W("aabc") P(2) P(7) @1 W("zab") V("zzz") V("z") @5 P(1) @9 @10 P(2)
"""


def answered(text: str, size: int) -> dict[int, list[Row]]:
    read = reading(text, KNOWN)
    found = monitored(read.formula, read.columns, time_points(io.StringIO(LOG), KNOWN), size)
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
    violated = [each.point.number + 1 for each in monitored(found.violated, (), states, size) if each.rows]
    assert violated == [1, 4, 8]
