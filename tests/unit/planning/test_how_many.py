"""What the tables' sizes say of a query's answers."""

from __future__ import annotations

from weft.instants import parse_instant
from weft.planning.how_many import TableExtent, why_no_answer

APRIL, MAY = parse_instant("1993-04-05"), parse_instant("1993-05-16")


def test_no_answer_is_explained_by_the_loaded_rows() -> None:
    held = {"msgs": TableExtent(2, APRIL, MAY), "empty": TableExtent(0)}
    assert why_no_answer(held, APRIL) == (
        "No row was loaded for the time before 1993-04-05 00:00:00 UTC: empty has 0 rows; msgs has rows from "
        "1993-04-05 00:00:00 UTC to 1993-05-16 00:00:00 UTC."
    )
    later = why_no_answer(held, APRIL + 1)
    assert later.startswith("No row from before 1993-04-05 00:00:00.000001 UTC became")
