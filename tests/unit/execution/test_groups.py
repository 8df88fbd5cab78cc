"""What a group of a tick runs."""

from __future__ import annotations

from netnews import TABLES
from weft.catalog.records import QueryRecord
from weft.execution.groups import Group, Member
from weft.planning.form import restored_plan, stored_form
from weft.planning.plan import plan

T0 = 946_684_800_000_000


def test_a_first_delivery_begins_where_time_does() -> None:
    """A threshold before t0 gave constant rows an instant before t0; they begin at t0."""
    found = plan(
        "SELECT v.a FROM (VALUES (1), (2)) AS v(a) WHERE NOW() >= TIMESTAMP '1999-01-01' AND NOT EXISTS "
        "(SELECT 1 FROM staff s WHERE NOW() < s.ts)",
        TABLES,
    )
    form = stored_form(found)
    record = QueryRecord(
        1, "q", "", "", 1, form.parameters, (), None, "start", None, None, 1, "active", None, 0, None, form.names
    )
    shape = restored_plan(form.body, form.signature, TABLES.values())
    group = Group(1, shape, (Member(record, None, T0 + 5),), T0 + 5, T0)
    texts = [branch.sql for branch in group.branches() if branch.event.driver.kind == "now_from"]
    assert texts
    assert all("TIMESTAMP '2000-01-01 00:00:00.000000+00:00' <= TIMESTAMP '1999-" in text for text in texts)
