"""The sequenced meaning of a view as temporal algebra: what it looks like, where that matters."""

from __future__ import annotations

import pytest

from temporal_values import tracked
from weft.algebra.relation import Grouped, Join, Project, Scan, Select, Union
from weft.algebra.scalar import PeriodOf
from weft.algebra.stored import restored, stored
from weft.algebra.temporal import Difference, Extension, Temporal, attributes, each, inputs
from weft.algebra.traverse import walk
from weft.derivation.temporal.sequenced import sequenced
from weft.sql.lower.query import bind_view

TABLES = {
    "e": tracked(1, "e", id="INT", dept="STRING", name="STRING"),
    "s": tracked(2, "s", id="INT", project="STRING", boss="STRING"),
}


def view(text: str) -> Temporal:
    return sequenced(bind_view(text, TABLES))


def shape(relation: Temporal) -> str:
    """The operators, as words and brackets."""
    names = {Scan: "R", Select: "σ", Project: "π", Union: "∪", Difference: "−"}
    joins = isinstance(relation, Select) and isinstance(relation.input, Join)
    name = "⋈" if joins else {**names, Extension: "EX", Grouped: "Π"}[type(relation)]
    parts = ", ".join(map(shape, inputs(relation)))
    return f"{name}({parts})" if parts else name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT id, dept, name FROM e", "R"),
        ("SELECT dept FROM e", "π(R)"),
        ("SELECT id, dept, name FROM e WHERE id > 1", "σ(R)"),
        ("SELECT dept FROM e WHERE id > 1", "π(σ(R))"),
        ("SELECT e.name, s.project FROM e JOIN s ON e.id = s.id", "π(⋈(π(R), π(R)))"),
        ("SELECT id FROM e EXCEPT SELECT id FROM s", "π(−(π(R), π(R)))"),
        ("SELECT id FROM e UNION SELECT id FROM s", "∪(π(R), π(R))"),
        ("SELECT e.id FROM e WHERE EXISTS (SELECT 1 FROM s WHERE s.id = e.id)", "π(⋈(π(R), π(R)))"),
        ("SELECT e.id FROM e WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.id = e.id)", "−(π(R), π(⋈(π(R), π(R))))"),
        ("SELECT COUNT(*) AS n FROM e", "Π(R)"),
        ("SELECT dept, COUNT(*) AS n FROM e GROUP BY dept, MOVING_WINDOW(INTERVAL 1 DAY)", "Π(EX(R))"),
        ("SELECT dept, COUNT(*) AS n FROM e GROUP BY dept HAVING COUNT(*) > 1", "σ(Π(R))"),
        ("SELECT COUNT(*) AS n, dept FROM e GROUP BY dept", "π(Π(R))"),
        ("SELECT id FROM e WHERE id = 1 OR PERIOD_END(e) < NOW()", "π(σ(R))"),
    ],
)
def test_what_a_text_becomes(text: str, expected: str) -> None:
    assert shape(view(text)) == expected


def test_figure_3_is_the_papers_expression() -> None:
    text = (
        "SELECT s.id, s.project, s.boss FROM (SELECT id FROM e WHERE dept = 'Development') AS d JOIN s ON s.id = d.id "
        "WHERE PERIOD_START(d) >= NOW() - INTERVAL 1 YEAR AND PERIOD_END(d) < NOW()"
    )
    assert shape(view(text)) == "π(⋈(σ(π(σ(R))), R))"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT dept FROM e WHERE PERIOD_LENGTH(e) > INTERVAL 1 DAY",
        "SELECT dept, COUNT(*) AS n FROM e GROUP BY dept",
        "SELECT s.project FROM s JOIN e ON e.id = s.id WHERE PERIOD_CONTAINS(e, s)",
    ],
)
def test_rows_that_are_counted_or_judged_keep_their_columns(text: str) -> None:
    """Under GROUP BY and where a row's own periods are asked for, rows that agree in some columns stay apart."""
    for part in each(view(text)):
        below = inputs(part)
        if isinstance(part, (Grouped, Select)):
            assert not any(isinstance(one, Project) for one in below), shape(view(text))


def test_the_text_does_not_double_with_each_condition() -> None:
    """NOT EXISTS, OR and periods in one WHERE: parts are written twice at most."""
    conditions = [
        f"(NOT EXISTS (SELECT 1 FROM s WHERE s.id = e.id + {number}) OR e.id = {number})" for number in range(8)
    ]
    sizes = []
    for count in (2, 4, 8):
        text = f"SELECT id FROM e WHERE PERIOD_END(e) < NOW() AND {' AND '.join(conditions[:count])}"
        sizes.append(sum(1 for _ in each(view(text))))
    assert sizes[2] - sizes[1] <= 2.2 * (sizes[1] - sizes[0])


def test_periods_are_those_of_the_item_of_from() -> None:
    """After an EXISTS a row has fewer instants; its periods are still asked of the row as FROM gives it."""
    text = (
        "SELECT id FROM e WHERE EXISTS (SELECT 1 FROM s WHERE s.id = e.id) "
        "AND (EXISTS (SELECT 1 FROM s AS t WHERE PERIOD_CONTAINS(e, t)) OR PERIOD_START(e) = NOW())"
    )
    for part in each(view(text)):
        if isinstance(part, Select):
            asked = {one.scan for one in walk(part.predicate) if isinstance(one, PeriodOf)}
            own = {ref.scan: one for one in inputs(part) for ref in attributes(one)}
            assert all(isinstance(getattr(own[scan], "input", own[scan]), Scan) for scan in asked)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT dept, MAX(id) AS m FROM e GROUP BY dept, MOVING_WINDOW(INTERVAL 1 DAY) HAVING COUNT(name) > 2",
        "SELECT id FROM e WHERE PERIOD_START(e) >= NOW() - INTERVAL 18 MONTHS",
    ],
)
def test_bound_views_can_be_stored(text: str) -> None:
    query = bind_view(text, TABLES)
    assert restored(stored(query), {("table", table.id): table for table in TABLES.values()}) == query
