"""The text output of ``weft explain`` for the golden queries. ``make bless`` rewrites the expected output.

The output has ten lines of essentials, then the causes of each answer, the reads of a tick, and warnings. The file
``test_golden.py`` checks the SQL of the branches.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from golden.texts import FILES, HERE, queries
from netnews import TABLES
from weft.planning.explain import BranchText, Explanation, explain
from weft.planning.how_many import TableExtent, how_many
from weft.planning.plan import plan
from weft.planning.state_text import StateText

ROWS = {name: TableExtent(1_000 * number, 0, number * 864_000_000_000) for number, name in enumerate(TABLES, 1)}


def shown(title: str, text: str) -> str:
    """Return the whole explanation of a query."""
    found = explain(plan(text, TABLES))
    parts = [
        f"==== {title}\n\n{text}\n",
        *(f"| {line}" for line in brief(found)),
        *(f"{name} {type_} = {value}" for name, type_, value in found.parameters),
        *(f"column {name} {type_}" for name, type_ in found.columns),
        f"{'closed' if found.closed else 'not closed'}: {found.closed_reason}",
        f"time {'can' if found.time_driven else 'cannot'} make answers, rows {lasting(found)}",
        *(f"at first {branch(each)}" for each in found.first if found.closed),
        *(f"when {branch(each)}" for each in found.later),
        *(line for each in found.states for line in state(each)),
        *(f"{view.name}: {view.sql}" for view in found.views),
        *(f"{note.level}: {note.text}" for note in found.notes),
    ]
    return "\n".join(parts) + "\n"


def brief(found: Explanation) -> tuple[str, ...]:
    """Return the brief explanation, over tables with some rows."""
    return replace(found, how_many=how_many(found.summary, ROWS)).brief


def lasting(found: Explanation) -> str:
    return "stay" if found.lasting else "may leave"


def branch(each: BranchText) -> str:
    return f"{each.why} ({each.driver} of {each.table or 'nothing'})"


def state(each: StateText) -> list[str]:
    """Return how a tick computes a state, without the SQL of the last step (``unit/period_sql``)."""
    steps = [f"  {step.name}: {step.sql}" for step in each.steps[:-1]]
    last = each.steps[-1:]
    by = [
        f"  {step.engine or 'no engine'}{', or Spark' * (step.in_spark is not None)} runs the last step"
        for step in last
    ]
    return [f"{' and '.join(each.views)}: {each.rows} ({each.how})", *steps, *by]


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "refused"], ids=lambda path: path.stem)
def test_what_explain_says(path: Path, bless: bool) -> None:
    found = "\n".join(shown(title, text) for title, text in queries(path))
    expected = HERE / "expected" / "explained" / f"{path.stem}.txt"
    if bless:
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(found)
    assert found == expected.read_text(), "run `make bless`, and read the difference"


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "refused"], ids=lambda path: path.stem)
def test_the_short_form_is_short(path: Path) -> None:
    for _, text in queries(path):
        lines = brief(explain(plan(text, TABLES)))
        assert len(lines) <= 13 and max(map(len, lines)) <= 160, text
