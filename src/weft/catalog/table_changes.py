"""Rename and drop tables that no query, view or source uses."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from weft.catalog import ddl
from weft.catalog.database import Database
from weft.catalog.loads import forget_instants, forget_quarantined
from weft.catalog.naming import folded, table_name
from weft.catalog.records import ATTACHED, TableRecord
from weft.catalog.tables import forget_table, read_table
from weft.catalog.views import queries_reading, views_reading
from weft.errors import Conflict


class TableChanges:
    """Operations that rename or drop a table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rename(self, table_id: int, name: str) -> TableRecord:
        """Rename a table.  Raise Refused for an invalid name.

        Raise Conflict if the name is taken, or if a query, a view or a source uses the table.
        """
        wanted = table_name(name)
        with self._database.changing_under_lease() as connection:
            table = read_table(connection, table_id)
            _require_unused(connection, table, "renamed")
            same = ddl.tables.c.folded == folded(wanted)
            taken = connection.execute(select(ddl.tables.c.table_id, ddl.tables.c.name).where(same)).first()
            if taken is not None and taken.table_id != table_id:
                raise Conflict(f"there is already a table {taken.name!r}", hint="Choose another name.")
            changed = update(ddl.tables).where(ddl.tables.c.table_id == table_id)
            connection.execute(changed.values(name=wanted, folded=folded(wanted)))
            return read_table(connection, table_id)

    def drop(self, table_id: int) -> tuple[str, ...]:
        """Delete a table, its loads and its quarantined records.  Return the digests of the quarantined records.

        Records of other tables may have the same digests.  Raise Conflict if a query, a view or a source uses the
        table, or if a load is running.
        """
        with self._database.changing_under_lease() as connection:
            table = read_table(connection, table_id)
            _require_unused(connection, table, "dropped")
            loads = select(ddl.loads.c.load_id).where(ddl.loads.c.table_id == table_id)
            if connection.execute(select(ddl.active_loads).where(ddl.active_loads.c.load_id.in_(loads))).first():
                raise Conflict(f"a load into {table.name} is running", hint="Wait until the load has ended.")
            digests = forget_quarantined(connection, table_id)
            connection.execute(delete(ddl.sources).where(ddl.sources.c.table_id == table_id))
            forget_table(connection, table_id)
            forget_instants(connection)
            return digests


def _require_unused(connection: Connection, table: TableRecord, change: str) -> None:
    own = select(ddl.views.c.table_id).where(ddl.views.c.table_id == table.table_id)
    if connection.execute(own).first() is not None:
        raise Conflict(
            f"{table.name} is a view and cannot be {change} as a table",
            hint=f"Remove the view with `weft view remove {table.name}`, and add it again under another name.",
        )
    source = select(ddl.sources.c.kind).where(ddl.sources.c.table_id == table.table_id)
    kind = connection.execute(source).scalar()
    if kind is not None and kind != ATTACHED:
        raise Conflict(
            f"{table.name} is the table of a source and cannot be {change}",
            hint=f"Remove the source first: `weft source remove {table.name}`.",
        )
    named = [f"the query {name}" for name in queries_reading(connection, table.table_id)]
    named += [f"the view {name}" for name in views_reading(connection, table.table_id)]
    if named:
        raise Conflict(
            f"{table.name} cannot be {change}, because {', '.join(named)} {'reads' if len(named) == 1 else 'read'} it",
            hint="Remove the queries with `weft remove QUERY` and the views with `weft view remove VIEW` first.",
        )
