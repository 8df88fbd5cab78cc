"""Store saved queries: texts with parameters, which people fill in and install."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, insert, or_, select, update

from weft.algebra.form_parameter import FormParameter
from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.grants import forget_grants
from weft.catalog.name_order import by_name, is_one_of
from weft.catalog.naming import folded, not_found, query_name
from weft.catalog.users import rights_changed
from weft.errors import Conflict
from weft.printable import Brief, counted


@dataclass(frozen=True, repr=False)
class SavedQuery(Brief):
    """A text with parameters, in the order of the text.  ``saved_at`` is in microseconds UTC."""

    saved_id: int
    name: str
    sql: str
    parameters: tuple[FormParameter, ...]
    owner: str
    description: str
    saved_at: int

    def _brief(self) -> str:
        return f"saved query {self.name} of {self.owner}, {counted(len(self.parameters), 'parameter')}"


class SavedQueries:
    """The saved queries of a home.  Names ignore case."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(
        self,
        *,
        text: str | None = None,
        seen_by: tuple[str | None, Collection[int]] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[SavedQuery, ...]:
        """Return at most ``limit`` saved queries, ordered by name, whose names come after ``after``.

        Their names or descriptions contain ``text`` in any case.  With ``seen_by``, return only those of this owner and
        those with these IDs.
        """
        saved, wanted = ddl.saved_queries.c, select(ddl.saved_queries)
        if seen_by is not None:
            owner, others = seen_by
            wanted = wanted.where(or_(saved.owner == owner, is_one_of(saved.saved_id, others)))
        wanted = by_name(wanted, saved.folded, text=text, also_in=(saved.description,), after=after, limit=limit)
        return tuple(map(_record, self._database.rows(wanted)))

    def find(self, name: str) -> SavedQuery | None:
        """Return the saved query with this case-insensitive name, or None."""
        return self._one(ddl.saved_queries.c.folded == folded(name))

    def by_id(self, saved_id: int) -> SavedQuery | None:
        """Return the saved query with this ID, or None."""
        return self._one(ddl.saved_queries.c.saved_id == saved_id)

    def _one(self, condition: ColumnElement[bool]) -> SavedQuery | None:
        row = self._database.first(select(ddl.saved_queries).where(condition))
        return None if row is None else _record(row)

    def save(
        self,
        name: str,
        sql: str,
        parameters: Sequence[FormParameter],
        owner: str,
        description: str,
        at: int,
        *,
        replace: bool,
    ) -> SavedQuery:
        """Store a saved query.  With ``replace``, it takes the place of the one with its name, which keeps its rights.

        Raise Refused for an invalid name.  Raise Conflict if the name is taken.
        """
        saved, stored = ddl.saved_queries.c, json.dumps([asdict(each) for each in parameters])
        own = saved.folded == folded(query_name(name))
        values = {"sql": sql, "parameters": stored, "owner": owner, "description": description, "saved_at": at}
        with self._database.changing() as connection:
            old = connection.execute(select(saved.saved_id, saved.owner).where(own)).one_or_none()
            if old is None:
                key = inserted_id(
                    connection, insert(ddl.saved_queries).values(name=name, folded=folded(name), **values)
                )
            elif replace:
                key = old.saved_id
                connection.execute(update(ddl.saved_queries).where(own).values(**values))
                if old.owner != owner:
                    rights_changed(connection)
            else:
                raise Conflict(
                    f"there is already a saved query {name}", hint="Choose another name, or replace the saved query."
                )
            return _record(connection.execute(select(ddl.saved_queries).where(saved.saved_id == key)).one())

    def remove(self, name: str) -> SavedQuery:
        """Delete a saved query with the rights to it.  Raise NotFound.

        Queries that were installed from it stay.  The next tick pauses those of readers, who install nothing else.
        """
        own = ddl.saved_queries.c.folded == folded(name)
        with self._database.changing() as connection:
            row = connection.execute(select(ddl.saved_queries).where(own)).one_or_none()
            if row is None:
                raise not_found("saved query", name, connection.execute(select(ddl.saved_queries.c.name)).scalars())
            forget_grants(connection, "saved", row.saved_id)
            connection.execute(delete(ddl.saved_queries).where(own))
            rights_changed(connection)
            return _record(row)


def _record(row: Row[Any]) -> SavedQuery:
    parameters = tuple(FormParameter(**each) for each in json.loads(row.parameters))
    return SavedQuery(row.saved_id, row.name, row.sql, parameters, row.owner, row.description, row.saved_at)
