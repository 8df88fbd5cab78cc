"""Keep ``tau`` once for the queries of a plan that run together.

Queries of one plan that each tick runs at the same instants share the ``tau`` of the plan.  A tick then records one row
for the plan, and one for each query with answers.  A query that is paused, fails, is replaced, or runs at instants of
its own has its own ``tau``.  A query shares the ``tau`` of its plan after a tick that left both at the same instant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, func, insert, select, update

from weft.catalog import ddl
from weft.catalog.query_conditions import parts

OWN: Final = ddl.queries.c.shared_since.is_(None)
"""The condition for queries with a ``tau`` of their own."""

SHARED: Final = ddl.plans.c.tau.is_not(None)
"""The condition for plans whose ``tau`` queries share."""


def leave(connection: Connection, which: ColumnElement[bool]) -> None:
    """Give each query in ``which`` that shares a ``tau`` its own.  Its earlier ticks stay known.

    If a planned tick has the plan of the query, that tick then has the query itself.
    """
    queries, plans, ticks, members = ddl.queries.c, ddl.plans.c, ddl.ticks.c, ddl.tick_plans.c
    sharing = select(queries.query_id, queries.plan_id, queries.shared_since, plans.tau)
    rows = connection.execute(sharing.join_from(ddl.queries, ddl.plans).where(~OWN, which)).all()
    if not rows:
        return
    last = connection.execute(select(func.max(ticks.tick_id)).where(ticks.state != "planned")).scalar_one() or 0
    planned = select(members.plan_id, members.tick_id).join_from(ddl.tick_plans, ddl.ticks)
    in_tick = {row.plan_id: row.tick_id for row in connection.execute(planned.where(ticks.state == "planned"))}
    past = [
        {"query_id": row.query_id, "after": row.shared_since, "upto": last, "plan_id": row.plan_id}
        for row in rows
        if row.shared_since < last
    ]
    if past:
        connection.execute(insert(ddl.shared_ticks), past)
    alone = [
        {"tick_id": in_tick[row.plan_id], "query_id": row.query_id, "tau": row.tau}
        for row in rows
        if row.plan_id in in_tick
    ]
    if alone:
        connection.execute(insert(ddl.tick_queries), alone)
    connection.execute(
        update(ddl.queries)
        .where(queries.query_id == bindparam("which"))
        .values(tau=bindparam("own"), shared_since=None),
        [{"which": row.query_id, "own": row.tau} for row in rows],
    )
    _leave_plans(connection, Counter(row.plan_id for row in rows))


def _leave_plans(connection: Connection, fewer: Counter[int]) -> None:
    plans, number = ddl.plans.c, bindparam("fewer", type_=ddl.plans.c.sharing.type)
    connection.execute(
        update(ddl.plans)
        .where(plans.plan_id == bindparam("which"))
        .values(
            tau=case((plans.sharing > number, plans.tau)), sharing=plans.sharing - number, version=plans.version + 1
        ),
        [{"which": plan_id, "fewer": count} for plan_id, count in fewer.items()],
    )


def share(connection: Connection, tick_id: int, t: int, plan_ids: Collection[int]) -> None:
    """Let the queries of these plans that the tick left at ``t`` share the ``tau`` of their plan.

    A plan needs two such queries, or queries that already share ``t``.
    """
    queries, plans = ddl.queries.c, ddl.plans.c
    ready = and_(
        OWN, queries.state == "active", queries.tau == t, queries.every_us.is_(None), queries.next_due.is_(None)
    )
    ready = and_(ready, queries.reads == "[]")
    numbers = select(queries.plan_id, func.count()).where(ready).group_by(queries.plan_id)
    counted = {row[0]: row[1] for row in connection.execute(numbers) if row[0] in plan_ids}
    there = {row.plan_id: row.tau for row in connection.execute(select(plans.plan_id, plans.tau).where(SHARED))}
    joining = sorted(
        plan_id for plan_id, count in counted.items() if there.get(plan_id) == t or (count > 1 and plan_id not in there)
    )
    for some in parts(joining):
        chosen = update(ddl.queries).where(ready, queries.plan_id.in_(some))
        connection.execute(chosen.values(shared_since=tick_id, tau=None, next_run=None))
        connection.execute(
            update(ddl.plans)
            .where(plans.plan_id == bindparam("which"))
            .values(tau=t, sharing=plans.sharing + bindparam("more"), version=plans.version + 1),
            [{"which": plan_id, "more": counted[plan_id]} for plan_id in some],
        )
