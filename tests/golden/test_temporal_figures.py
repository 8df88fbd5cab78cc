"""The figures and tables of the paper on temporal views (Yang and Widom 1998), compared with values by definition.

Figures 2 and 4 are loaded as the printed periods [a, b): Coy, who left on 10/01/97, satisfies end < NOW on that day.
Figures 5 and 7 have closed periods of instants. Their period [a, b] is [a, b + 1) in the tests.
"""

from __future__ import annotations

import pytest

from temporal_values import Histories, Value, day, tracked
from weft.algebra.relation import Scan
from weft.algebra.scalar import Literal
from weft.algebra.schema import INTERVAL
from weft.algebra.temporal import Extension

DIRECTORY = tracked(1, "r", id="INT", dept="STRING", name="STRING", office="STRING", phone="STRING")
PROJECTS = tracked(2, "s", id="INT", project="STRING", supervisor="STRING")
FIGURE_3 = (
    "SELECT s.id, s.project, s.supervisor FROM (SELECT id FROM r WHERE dept = 'Development') AS e "
    "JOIN s ON s.id = e.id WHERE PERIOD_START(e) >= NOW() - INTERVAL 1 YEAR AND PERIOD_END(e) < NOW()"
)
AMY = [
    (123456, "Research", "Amy", "121", "1-2345", day("01/01/91"), day("05/01/92")),
    (123456, "Research", "Amy", "121", "1-2345", day("01/01/94"), day("06/01/96")),
    (123456, "Research", "Amy", "151", "1-5432", day("06/01/96"), day("12/31/96")),
]
BEN = (700000, "Development", "Ben", "B07", "7-0000")
COY = (714285, "Development", "Coy", "B17", "7-1428")
FIGURE_2 = [*AMY, (*BEN, day("11/01/96"), day("05/01/97")), (*COY, day("11/01/96"), None)]
FIGURE_4 = [
    *AMY,
    (*BEN, day("11/01/96"), day("05/01/97")),
    (*BEN, day("10/01/97"), None),
    (*COY, day("11/01/96"), day("10/01/97")),
]
# The paper does not give the contents of S.
BENS = (700000, "Tapestry", "Dee")
COYS = (714285, "Weaving", "Dee")
AMYS = (123456, "Looms", "Eve")
ASSIGNED_BEFORE = [
    (*AMYS, day("01/01/91"), day("05/01/92")),
    (*BENS, day("11/01/96"), day("05/01/97")),
    (*COYS, day("11/01/96"), None),
]
ASSIGNED_AFTER = [
    *ASSIGNED_BEFORE[:2],
    (*BENS, day("10/01/97"), None),
    (*COYS, day("11/01/96"), day("10/01/97")),
]


@pytest.mark.parametrize(
    ("today", "expected"),
    [
        ("09/30/97", {BENS: [(day("11/01/96"), day("05/01/97"))]}),
        ("10/01/97", {COYS: [(day("11/01/96"), day("10/01/97"))]}),
        ("12/01/97", {}),
    ],
)
def test_the_view_of_figure_3(today: str, expected: Value) -> None:
    before = day(today) < day("10/01/97")
    home = Histories([DIRECTORY, PROJECTS])
    home.load({"r": FIGURE_2 if before else FIGURE_4, "s": ASSIGNED_BEFORE if before else ASSIGNED_AFTER})
    assert home.view(FIGURE_3, day(today)) == expected


def test_figure_2_under_a_projection() -> None:
    """Amy's offices become one row of her department with the instants of both (section 3.3)."""
    home = Histories([DIRECTORY])
    home.load({"r": FIGURE_2})
    assert home.view("SELECT id, dept FROM r", day("09/30/97")) == {
        (123456, "Research"): [(day("01/01/91"), day("05/01/92")), (day("01/01/94"), day("12/31/96"))],
        (700000, "Development"): [(day("11/01/96"), day("05/01/97"))],
        (714285, "Development"): [(day("11/01/96"), None)],
    }


LETTERS = tracked(1, "r", x="STRING")
FIGURE_5 = [("a", 90, 91), ("a", 95, 97), ("b", 94, 96)]
INSERTED = ("b", 97, None)
COUNT = "SELECT COUNT(*) AS n FROM r"
MOVING_COUNT = "SELECT COUNT(*) AS n FROM r GROUP BY MOVING_WINDOW(INTERVAL 2 MICROSECONDS)"
CUMULATIVE: Value = {(0,): [(0, 90), (93, 94)], (1,): [(90, 93), (94, 95)], (2,): [(95, None)]}


def letters(*rows: tuple[str, int, int | None]) -> Histories:
    home = Histories([LETTERS])
    home.load({"r": rows})
    return home


def test_figure_5() -> None:
    home = letters(*FIGURE_5)
    assert home.view(COUNT, 97) == {
        (0,): [(0, 90), (91, 94), (97, None)],
        (1,): [(90, 91), (94, 95), (96, 97)],
        (2,): [(95, 96)],
    }
    assert home.view(MOVING_COUNT, 97) == CUMULATIVE


def test_figure_7() -> None:
    home = letters(*FIGURE_5, INSERTED)
    assert home.view(COUNT, 97) == {
        (0,): [(0, 90), (91, 94)],
        (1,): [(90, 91), (94, 95), (96, None)],
        (2,): [(95, 96)],
    }
    assert home.view(MOVING_COUNT, 97) == CUMULATIVE


@pytest.mark.parametrize("rows", [FIGURE_5, [*FIGURE_5, INSERTED]], ids=["figure 5", "figure 7"])
def test_extension_by_two(rows: list[tuple[str, int, int | None]]) -> None:
    extended = Extension(Scan(LETTERS, "r"), Literal(2, INTERVAL))
    assert letters(*rows).value(extended, 97) == {("a",): [(90, 93), (95, None)], ("b",): [(94, None)]}


def test_a_window_of_nothing_is_the_instantaneous_aggregate() -> None:
    home = letters(*FIGURE_5)
    none = "SELECT COUNT(*) AS n FROM r GROUP BY MOVING_WINDOW(INTERVAL 0 DAYS)"
    assert home.view(none, 97) == home.view(COUNT, 97)
