"""Record the outcomes of a tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, and_, bindparam, case, delete, insert, select, update

from weft.catalog import ddl
from weft.catalog.query_conditions import parts
from weft.catalog.records import Count, TickRecord
from weft.catalog.sharing import OWN, leave


def count(connection: Connection, tick: TickRecord, counts: Mapping[int, Count], planned: set[int]) -> None:
    """Record the outcomes of queries with a ``tau`` of their own.  The most common outcome needs one SQL statement."""
    together = {query_id: count for query_id, count in counts.items() if count.until == tick.t}
    if together:
        _count_together(connection, tick, together, everything=together.keys() == planned)
    apart = {query_id: count for query_id, count in counts.items() if count.until != tick.t}
    if apart:
        _count_one_by_one(connection, tick, apart)
    _count_last(connection, counts)


def _count_last(connection: Connection, counts: Mapping[int, Count]) -> None:
    queries = ddl.queries
    last = [{"which": key, "last": c.last_first_at} for key, c in counts.items() if c.last_first_at is not None]
    if last:
        # After a replacement of its text, a query may add answers that start before its existing answers.
        this = bindparam("last", type_=queries.c.last_first_at.type)
        greatest = case((queries.c.last_first_at > this, queries.c.last_first_at), else_=this)
        connection.execute(
            update(queries).where(queries.c.query_id == bindparam("which")).values(last_first_at=greatest), last
        )


def _count_together(connection: Connection, tick: TickRecord, counts: Mapping[int, Count], *, everything: bool) -> None:
    """Record the outcomes of queries whose windows end at the instant of the tick."""
    members, queries = ddl.tick_queries, ddl.queries
    common = Counter((c.rows, c.reason, c.next_due) for c in counts.values()).most_common(1)[0][0]
    rows, reason, due = common
    counted = members.c.tick_id == tick.tick_id
    if not everything:
        counted = and_(counted, members.c.query_id.in_(list(counts)))
    moved = {"tau": tick.t, "next_run": tick.t + queries.c.every_us, "next_due": due}
    connection.execute(update(members).where(counted).values(rows=rows, reason=reason))
    connection.execute(
        update(queries)
        .where(queries.c.query_id.in_(select(members.c.query_id).where(counted)))
        .values(**moved, next_ordinal=queries.c.next_ordinal + rows)
    )
    others = [
        {"which": key, "gained": c.rows, "more": c.rows - rows, "why": c.reason, "due": c.next_due}
        for key, c in counts.items()
        if (c.rows, c.reason, c.next_due) != common
    ]
    if others:
        connection.execute(
            update(members)
            .where(members.c.tick_id == tick.tick_id, members.c.query_id == bindparam("which"))
            .values(rows=bindparam("gained"), reason=bindparam("why")),
            others,
        )
        connection.execute(
            update(queries)
            .where(queries.c.query_id == bindparam("which"))
            .values(next_ordinal=queries.c.next_ordinal + bindparam("more"), next_due=bindparam("due")),
            others,
        )


def _count_one_by_one(connection: Connection, tick: TickRecord, counts: Mapping[int, Count]) -> None:
    """Record the outcomes of queries whose windows end before the instant of the tick."""
    members, queries = ddl.tick_queries, ddl.queries
    for query_id, count in counts.items():
        connection.execute(
            update(members)
            .where(members.c.tick_id == tick.tick_id, members.c.query_id == query_id)
            .values(rows=count.rows, reason=count.reason, until=count.until)
        )
        values: dict[str, object] = {"next_ordinal": queries.c.next_ordinal + count.rows, "next_due": count.next_due}
        if count.until is not None:
            values |= {"tau": count.until, "next_run": count.until + queries.c.every_us}
        connection.execute(update(queries).where(queries.c.query_id == query_id).values(**values))


def settle_shared(
    connection: Connection, tick: TickRecord, counts: Mapping[int, Count], together: Mapping[int, str | None]
) -> dict[int, Count]:
    """Record the outcomes of the queries that share a ``tau``.  Return the other outcomes.

    A query whose outcome differs from that of its plan, other than by new answers, gets a ``tau`` of its own.  So does
    a query without an outcome, if its plan is not in ``together``.
    """
    members = ddl.tick_plans.c
    rows = connection.execute(select(members.plan_id, members.tau).where(members.tick_id == tick.tick_id))
    taus = {row.plan_id: row.tau for row in rows}
    if not taus:
        return dict(counts)
    own = dict(counts)
    plan_of = _sharing(connection, [plan_id for plan_id in taus if plan_id not in together], counts)
    reasons = _reasons(tick, plan_of, counts) | dict(together)
    news: dict[int, Count] = {}
    apart = []
    for query_id, plan_id in plan_of.items():
        outcome = counts.get(query_id)
        if plan_id not in reasons:
            continue
        if outcome is None or outcome.until != tick.t or outcome.next_due is not None:
            apart.append(query_id)
        elif outcome.rows:
            news[query_id] = own.pop(query_id)
        elif outcome.reason == reasons[plan_id]:
            del own[query_id]
        else:
            apart.append(query_id)
    for some in parts(apart):
        leave(connection, ddl.queries.c.query_id.in_(some))
    _count_news(connection, tick, news, {key: taus[plan_of[key]] for key in news})
    gone = [plan_id for plan_id in taus if plan_id not in reasons]
    for some in parts(gone):
        connection.execute(delete(ddl.tick_plans).where(members.tick_id == tick.tick_id, members.plan_id.in_(some)))
    _move_plans(connection, tick, {key: reasons[key] for key in taus.keys() & reasons.keys()})
    return own


def _sharing(connection: Connection, plan_ids: Sequence[int], counts: Mapping[int, Count]) -> dict[int, int]:
    """Map to its plan each query that shares the ``tau`` of one of the plans, or shares one and has an outcome."""
    queries = ddl.queries.c
    wanted = select(queries.query_id, queries.plan_id).where(~OWN)
    found: dict[int, int] = {}
    for some in parts(plan_ids):
        found |= {row[0]: row[1] for row in connection.execute(wanted.where(queries.plan_id.in_(some)))}
    for some in parts([key for key in counts if key not in found]):
        found |= {row[0]: row[1] for row in connection.execute(wanted.where(queries.query_id.in_(some)))}
    return found


def _reasons(tick: TickRecord, plan_of: Mapping[int, int], counts: Mapping[int, Count]) -> dict[int, str | None]:
    """Return the most common reason of the queries without new answers, for each plan with an outcome."""
    reasons: dict[int, Counter[str | None]] = {}
    for query_id, plan_id in plan_of.items():
        if (outcome := counts.get(query_id)) is not None:
            found = reasons.setdefault(plan_id, Counter())
            if not outcome.rows and outcome.until == tick.t:
                found[outcome.reason] += 1
    return {plan_id: found.most_common(1)[0][0] if found else None for plan_id, found in reasons.items()}


def _count_news(connection: Connection, tick: TickRecord, news: Mapping[int, Count], taus: Mapping[int, int]) -> None:
    if not news:
        return
    members, queries = ddl.tick_queries, ddl.queries
    rows = [
        {"tick_id": tick.tick_id, "query_id": key, "tau": taus[key], "rows": each.rows, "reason": each.reason}
        for key, each in news.items()
    ]
    connection.execute(insert(members), rows)
    connection.execute(
        update(queries)
        .where(queries.c.query_id == bindparam("which"))
        .values(next_ordinal=queries.c.next_ordinal + bindparam("gained")),
        [{"which": key, "gained": each.rows} for key, each in news.items()],
    )
    _count_last(connection, news)


def _move_plans(connection: Connection, tick: TickRecord, reasons: Mapping[int, str | None]) -> None:
    if not reasons:
        return
    members, plans = ddl.tick_plans, ddl.plans
    rows = [{"which": plan_id, "why": reason} for plan_id, reason in reasons.items()]
    connection.execute(
        update(members)
        .where(members.c.tick_id == tick.tick_id, members.c.plan_id == bindparam("which"))
        .values(reason=bindparam("why")),
        rows,
    )
    connection.execute(
        update(plans).where(plans.c.plan_id == bindparam("which"), plans.c.sharing > 0).values(tau=tick.t),
        [{"which": plan_id} for plan_id in reasons],
    )
