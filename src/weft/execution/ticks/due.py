"""Decide whether a tick can skip a query.

A tick can skip a query if no row arrived and time alone adds no row before the end of the query's window.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog.records import DuePlan
from weft.execution.groups import Group, Member, Shape, computed_together
from weft.execution.relations import Relation
from weft.execution.windows import NEVER
from weft.planning.plan import Plan

if TYPE_CHECKING:
    from weft.execution.reader import Reader


def arrived(member: Member, shape: Shape, tables: Mapping[str, Relation]) -> bool:
    """Return whether a table of the query has a row with a ts in the query's window or later."""
    for schema in shape.tables:
        last = tables[schema.name].last_ts
        if last is not None and (member.tau is None or last >= member.tau):
            return True
    return False


def is_quiet(member: Member, shape: Shape, tables: Mapping[str, Relation], t0: int | None) -> bool:
    """Return whether the query's window certainly contains no new answer. A tick skips a quiet query.

    ``t0`` is the start of time, or None if time has not started. Constant answers begin at ``t0``. ``next_due`` remains
    valid until a row arrives. New rows include the answers that a lower stratum found in the same tick.
    """
    if member.empty:
        return True
    if arrived(member, shape, tables):
        return False
    if shape.has_constants and (member.tau is None or t0 is None or member.tau <= t0):
        return False
    if member.tau is None or not shape.time_driven:
        return True
    return member.query.next_due is not None and member.query.next_due >= member.t


def quiet_queries(
    members: Iterable[Member], plans: Mapping[int, Plan], tables: Mapping[str, Relation], t0: int | None
) -> set[int]:
    """Return the IDs of the quiet queries (``is_quiet``)."""
    verdicts: dict[tuple[int, int | None, int, int | None], bool] = {}
    ids = set()
    for member in members:
        query = member.query
        like = (query.plan_id, member.tau, member.t, query.next_due)
        if like not in verdicts:
            verdicts[like] = is_quiet(member, plans[query.plan_id], tables, t0)
        if verdicts[like]:
            ids.add(query.query_id)
    return ids


def is_plan_quiet(due: DuePlan, shape: Shape, tables: Mapping[str, Relation], t: int, t0: int | None) -> bool:
    """Return whether all due queries of a plan are quiet (``is_quiet``)."""
    for schema in shape.tables:
        last = tables[schema.name].last_ts
        if last is not None and (due.unbounded or (due.since is not None and last >= due.since)):
            return False
    if shape.has_constants and (due.unbounded or t0 is None or due.since is None or due.since <= t0):
        return False
    if due.since is None or not shape.time_driven:
        return True
    return not due.undated and due.next_due is not None and due.next_due >= t


def time_driven_groups(members: Sequence[Member], plans: Mapping[int, Plan], t0: int | None) -> list[Group]:
    """Group the queries that depend on time. ``next_due`` runs these groups with the window [t, ∞)."""
    timely = [replace(each, tau=each.t, t=NEVER) for each in members if plans[each.query.plan_id].time_driven]
    by_plan: dict[int, list[Member]] = {}
    for member in timely:
        by_plan.setdefault(member.query.plan_id, []).append(member)
    return [
        Group(key, plans[key], some, NEVER, t0, time_driven_only=True)
        for key, members_of_plan in by_plan.items()
        for some in computed_together(members_of_plan, plans[key])
    ]


def next_due(reader: Reader, *groups: Group, small_only: bool = False) -> dict[int, int | None]:
    """Map each query ID to the next instant at which time alone adds a row to the query.

    The instant ``NEVER`` means that time alone never adds a row. The instant is valid until a row arrives. The
    incremental query runs over the window [t, ∞), where t is the end of the query's window. The number of rows is not
    limited. With ``small_only``, the instant is None (unknown) if the driver's memory does not hold the input rows.
    """
    from weft.execution.new_answers import new_answers
    from weft.execution.temp_views import NotSmall

    members = [member for group in groups for member in group.members]
    try:
        instants = new_answers(reader, groups, most=None, small_only=small_only, by_duckdb=True).first
    except NotSmall:
        return {member.query.query_id: None for member in members}
    return {member.query.query_id: instants.get(member.query.query_id, NEVER) for member in members}


def earliest_due(dues: Iterable[int | None]) -> int | None:
    """Return the least of the instants, or None if one instant is None (unknown).

    >>> earliest_due([NEVER, 7]), earliest_due([7, None])
    (7, None)
    """
    least = NEVER
    for due in dues:
        if due is None:
            return None
        least = min(least, due)
    return least


def reason(member: Member, shape: Shape | None, tables: Mapping[str, Relation]) -> str | None:
    """Return a sentence that explains why the query has no new row, or None if ``shape`` is None."""
    if shape is None:
        return None
    names = " or ".join(sorted(schema.name for schema in shape.tables))
    if member.empty:
        return "the query was already ticked at this instant"
    if not arrived(member, shape, tables):
        return f"nothing arrived in {names} since the last tick" if member.tau is not None else f"{names} is empty"
    later = all((tables[s.name].first_ts or member.t) >= member.t for s in shape.tables)
    if later:
        return f"nothing arrived in {names} before this instant"
    return f"nothing that arrived in {names} makes a new answer"
