"""Store which answers a person has read.

A person mostly reads all answers of a query in order.  The catalog therefore stores one number for each query, the
ordinal up to which all answers are read, and the exceptions: unread answers up to it, and read answers after it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, or_, select

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.dialects import upserted
from weft.catalog.query_conditions import parts


class Marks:
    """The answers that each user has read.  Law: ``unread`` counts the ordinals that ``is_read`` does not return."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read_all(self, user_id: int, query_id: int, to: int) -> None:
        """Mark the answers up to the ordinal ``to`` as read."""
        with self._database.changing() as connection:
            own, read_to = _exceptions(user_id, query_id), _read_to(connection, user_id, query_id)
            connection.execute(delete(ddl.mark_exceptions).where(own, ddl.mark_exceptions.c.ordinal <= to))
            if to > read_to:
                _set(connection, user_id, query_id, to)

    def read(self, user_id: int, query_id: int, ordinals: Collection[int]) -> None:
        """Mark single answers as read."""
        self._mark(user_id, query_id, ordinals, is_read=True)

    def unread_again(self, user_id: int, query_id: int, ordinals: Collection[int]) -> None:
        """Mark single answers as unread."""
        self._mark(user_id, query_id, ordinals, is_read=False)

    def _mark(self, user_id: int, query_id: int, ordinals: Collection[int], *, is_read: bool) -> None:
        keys = {"user_id": user_id, "query_id": query_id}
        with self._database.changing() as connection:
            read_to = _read_to(connection, user_id, query_id)
            for some in parts(sorted(set(ordinals))):
                these = ddl.mark_exceptions.c.ordinal.in_(some)
                connection.execute(delete(ddl.mark_exceptions).where(_exceptions(user_id, query_id), these))
                rows = [{**keys, "ordinal": each} for each in some if is_read is (each > read_to)]
                if rows:
                    connection.execute(insert(ddl.mark_exceptions), rows)
            if is_read:
                _advance(connection, user_id, query_id, read_to)

    def is_read(self, user_id: int, spans: Mapping[int, tuple[int, int]]) -> dict[int, frozenset[int]]:
        """Return the ordinals whose answers are read, by the ID of the query.

        ``spans`` maps the queries to their first and last ordinals of interest.
        """
        marks, exceptions = ddl.marks.c, ddl.mark_exceptions.c
        read_to: dict[int, int] = {}
        apart: dict[int, set[int]] = {}
        with self._database.reading() as connection:
            for some in parts(sorted(spans)):
                wanted = select(marks.query_id, marks.read_to).where(marks.user_id == user_id, marks.query_id.in_(some))
                read_to |= {row[0]: row[1] for row in connection.execute(wanted)}
                within = (and_(exceptions.query_id == key, exceptions.ordinal.between(*spans[key])) for key in some)
                excepted = select(exceptions.query_id, exceptions.ordinal)
                for row in connection.execute(excepted.where(exceptions.user_id == user_id, or_(*within))):
                    apart.setdefault(row[0], set()).add(row[1])
        return {
            key: frozenset(
                each
                for each in range(first, last + 1)
                if (each <= read_to.get(key, 0)) is (each not in apart.get(key, ()))
            )
            for key, (first, last) in spans.items()
        }

    def unread(self, user_id: int, query_ids: Iterable[int]) -> dict[int, int]:
        """Map the IDs of queries to their numbers of unread answers."""
        queries, marks, exceptions = ddl.queries.c, ddl.marks.c, ddl.mark_exceptions.c
        mark = and_(marks.query_id == queries.query_id, marks.user_id == user_id)
        read_to = func.coalesce(marks.read_to, 0)
        counts: dict[int, int] = {}
        with self._database.reading() as connection:
            for some in parts(sorted(set(query_ids))):
                of_these = queries.query_id.in_(some)
                wanted = select(queries.query_id, queries.next_ordinal - 1 - read_to, read_to)
                rows = connection.execute(wanted.outerjoin_from(ddl.queries, ddl.marks, mark).where(of_these)).all()
                side = func.sum(case((exceptions.ordinal <= read_to, 1), else_=-1))
                joined = and_(marks.query_id == exceptions.query_id, marks.user_id == exceptions.user_id)
                excepted = (
                    select(exceptions.query_id, side)
                    .outerjoin_from(ddl.mark_exceptions, ddl.marks, joined)
                    .where(exceptions.user_id == user_id, exceptions.query_id.in_(some))
                    .group_by(exceptions.query_id)
                )
                more: dict[int, int] = {key: int(count) for key, count in connection.execute(excepted)}
                counts |= {key: max(behind + more.get(key, 0), 0) for key, behind, _ in rows}
        return counts


def _exceptions(user_id: int, query_id: int) -> ColumnElement[bool]:
    exceptions = ddl.mark_exceptions.c
    return and_(exceptions.user_id == user_id, exceptions.query_id == query_id)


def _read_to(connection: Connection, user_id: int, query_id: int) -> int:
    marks = ddl.marks.c
    wanted = select(marks.read_to).where(marks.user_id == user_id, marks.query_id == query_id)
    return connection.execute(wanted).scalar_one_or_none() or 0


def _set(connection: Connection, user_id: int, query_id: int, read_to: int) -> None:
    statement = upserted(connection, ddl.marks, ["user_id", "query_id"], ["read_to"])
    connection.execute(statement.values(user_id=user_id, query_id=query_id, read_to=read_to))
    _advance(connection, user_id, query_id, read_to)


def _advance(connection: Connection, user_id: int, query_id: int, read_to: int) -> None:
    """Absorb the read answers that follow ``read_to`` without a gap."""
    ordinal = ddl.mark_exceptions.c.ordinal
    wanted = select(ordinal).where(_exceptions(user_id, query_id), ordinal > read_to).order_by(ordinal)
    reached = read_to
    for each in connection.execute(wanted).scalars():
        if each != reached + 1:
            break
        reached = each
    if reached > read_to:
        absorbed = ordinal.between(read_to + 1, reached)
        connection.execute(delete(ddl.mark_exceptions).where(_exceptions(user_id, query_id), absorbed))
        statement = upserted(connection, ddl.marks, ["user_id", "query_id"], ["read_to"])
        connection.execute(statement.values(user_id=user_id, query_id=query_id, read_to=reached))
