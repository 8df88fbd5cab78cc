"""``weft view explain``: an expression that is pages long becomes lines that a person can read, and says the same."""

from __future__ import annotations

import re

from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, Column, TableSchema
from weft.planning.view_plan import bound_view
from weft.planning.view_plan_words import explained_view

PERIODS = (("valid_from", TIMESTAMP), ("valid_to", TIMESTAMP))


def _tracked(number: int, name: str, /, **columns: object) -> TableSchema:
    fields = [*columns.items(), *PERIODS]
    found = tuple(Column(n, label, type_) for n, (label, type_) in enumerate(fields, 1))  # type: ignore[arg-type]
    return TableSchema(number, name, found, start="valid_from", end="valid_to")


TABLES = {
    "employees": _tracked(1, "employees", id=BIGINT, dept=STRING, name=STRING),
    "assignments": _tracked(2, "assignments", id=BIGINT, project=STRING),
}
FIGURE_3 = (
    "SELECT s.id, s.project FROM (SELECT id FROM employees WHERE dept = 'Development') AS e "
    "JOIN assignments AS s ON s.id = e.id "
    "WHERE period_start(e) >= NOW() - INTERVAL 1 YEAR AND period_end(e) < NOW()"
)


def test_the_maintenance_of_figure_3_is_explained_in_lines() -> None:
    result = explained_view(bound_view(FIGURE_3, TABLES))
    events = {each.event: each.lines for each in result.events}
    assert set(events) == {
        "deleted from employees",
        "inserted into employees",
        "deleted from assignments",
        "inserted into assignments",
        "time passes, from :refreshed to NOW()",
    }
    equations = [line for lines in events.values() for line in lines if not line.startswith("dropped")]
    assert max(map(len, equations)) < 200
    numbers = re.findall(r"by \((.*?)\)", "\n".join(events["deleted from employees"]))
    assert list(dict.fromkeys(numbers))[:4] == ["c.9", "c.7", "4.3", "c.13"], "the paper's own derivation, 4.2.3"
    assert "ΔV = ∅" in events["time passes, from :refreshed to NOW()"], "the paper's 4.3.3: time only takes rows away"


def test_a_name_is_defined_once_before_its_use() -> None:
    result = explained_view(bound_view(FIGURE_3, TABLES))
    known: set[str] = {"V"}
    for line in (*result.view, *(line for each in result.events for line in each.lines)):
        if line.startswith(("dropped", "reads")):
            continue
        defined = re.match(r"([EGDp]\d+) (?:=|is) ", line)
        used = set(re.findall(r"\b[EGDp]\d+\b", line)) - ({defined[1]} if defined else set())
        assert used <= known, line
        if defined:
            assert defined[1] not in known
            known.add(defined[1])
