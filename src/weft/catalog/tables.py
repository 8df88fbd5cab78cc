"""Store tables and their columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, insert, select, update

from weft.algebra.schema import STRING, TIMESTAMP, VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.catalog import ddl
from weft.catalog.database import Database, inserted_id
from weft.catalog.grants import forget_grants
from weft.catalog.name_order import by_name, is_one_of
from weft.catalog.naming import folded, not_found, table_name
from weft.catalog.records import ATTACHED, BY, TS, StoredVersion, TableRecord, table_schema
from weft.errors import Conflict, Refused

_PERIODS = (VALID_FROM, VALID_TO)
TableKind = Literal["view", "tracked"]
"""A view, or a tracked table that is no view."""


@dataclass(frozen=True)
class _Reading:
    """The statements that read some tables, the views and the attached tables among them, and their columns."""

    tables: Select[Any]
    views: Select[Any]
    attached: Select[Any]
    columns: Select[Any]


def _reading(wanted: Select[Any]) -> _Reading:
    """Return the statements that read the tables of ``wanted``."""
    key = wanted.with_only_columns(ddl.tables.c.table_id)
    views, sources, columns = ddl.views.c, ddl.sources.c, ddl.columns.c
    return _Reading(
        wanted,
        select(views.table_id, views.mode, views.depends_on_now).where(views.table_id.in_(key)),
        select(sources.table_id).where(sources.kind == ATTACHED, sources.table_id.in_(key)),
        select(ddl.columns).where(columns.table_id.in_(key)).order_by(columns.table_id, columns.column_id),
    )


_ALL: Final = _reading(select(ddl.tables).order_by(ddl.tables.c.table_id))
_BY_ID: Final = _reading(select(ddl.tables).where(ddl.tables.c.table_id == bindparam("id")))
_BY_NAME: Final = _reading(select(ddl.tables).where(ddl.tables.c.folded == bindparam("folded")))
"""The statements of each command are built once, because building one takes longer than running it."""


class Tables:
    """The tables of a home.  IDs of tables are never reused.  Within a table, IDs of columns are never reused."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        name: str,
        columns: Sequence[tuple[str, DataType]],
        keys: Sequence[str] | None = None,
        ts_from: str | None = None,
        *,
        tracked: bool = False,
        authored: bool = False,
    ) -> TableRecord:
        """Create a table.

        Weft adds a column ``ts TIMESTAMP NOT NULL`` if ``columns`` does not contain ``ts``.  An ``authored`` table also
        gets the column ``_by STRING`` for the user who appended the row.  A tracked table also gets the columns
        ``valid_from`` and ``valid_to``.  ``keys`` and ``ts_from`` are case-insensitive column names.  The record
        contains ``keys`` and ``ts_from`` in the spelling of ``columns``, without duplicates.

        Raise Conflict if the name is taken.  Raise Refused for invalid names, columns or keys.
        """
        with self._database.changing() as connection:
            return create_table(
                connection, table_name(name), columns, keys, ts_from, tracked=tracked, authored=authored
            )

    def check(self, name: str, columns: Sequence[tuple[str, DataType]], *, tracked: bool = False) -> None:
        """Raise Refused if ``create`` would refuse the name or the columns."""
        table_name(name)
        _with_own(columns, tracked)

    def all(self) -> tuple[TableRecord, ...]:
        """Return all tables, including auxiliary views, in the order of creation."""
        return self._database.read(read_tables, None)

    def known(self) -> tuple[TableRecord, ...]:
        """Return the tables and views that users can name, in the order of creation."""
        return tuple(table for table in self.all() if not table.auxiliary)

    def page(
        self,
        *,
        text: str | None = None,
        kind: TableKind | None = None,
        ids: Collection[int] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> tuple[TableRecord, ...]:
        """Return at most ``limit`` tables and views that users can name, ordered by name.

        Their names contain ``text`` in any case, and come after ``after``.  Their IDs are among ``ids`` (None: all).
        """
        tables, views = ddl.tables.c, ddl.views.c
        conditions: list[ColumnElement[bool]] = [_is_known()]
        if kind is not None:
            is_view = tables.table_id.in_(select(views.table_id))
            conditions += [is_view] if kind == "view" else [tables.tracked == 1, ~is_view]
        if ids is not None:
            conditions.append(is_one_of(tables.table_id, ids))
        wanted = select(ddl.tables).where(*conditions)
        with self._database.reading() as connection:
            return _read(connection, _reading(by_name(wanted, tables.folded, text=text, after=after, limit=limit)))

    def names(self, ids: Collection[int]) -> tuple[str, ...]:
        """Return the names of those tables and views with these IDs that users can name, ordered by name."""
        tables = ddl.tables.c
        wanted = select(tables.name).where(is_one_of(tables.table_id, ids), _is_known())
        return tuple(row.name for row in self._database.rows(by_name(wanted, tables.folded)))

    def find(self, name: str) -> TableRecord | None:
        """Return the table with this case-insensitive name, or None."""
        return self._database.read(_find, name)

    def named(self, name: str) -> TableRecord:
        """Return the table with this case-insensitive name.  Raise NotFound for an unknown name."""
        return self._database.read(_named, name)

    def by_id(self, table_id: int) -> TableRecord:
        """Return the table with this ID.  Raise NotFound for an unknown ID."""
        return self._database.read(read_table, table_id)

    def evolve(
        self, name: str, columns: Sequence[tuple[str, DataType]], extended: Sequence[tuple[str, DataType]] = ()
    ) -> TableRecord:
        """Add nullable ``columns`` to a table.  Raise Conflict if the table already has one of these columns.

        Extend nested columns to the types in ``extended``.
        """
        _check_columns(columns)
        with self._database.changing() as connection:
            table = _named(connection, name)
            if table.tracked:
                _refuse_own([each for each, _ in columns])
            for each, _ in columns:
                if table.schema.column(each) is not None:
                    raise Conflict(f"{table.name} already has a column {each!r}")
            last = max(column.id for column in table.stored.columns)
            if columns:
                _add_columns(connection, table.table_id, last + 1, columns)
            for each, kind in extended:
                _extend(connection, table, each, kind)
            return read_table(connection, table.table_id)

    def versions(self) -> tuple[StoredVersion, ...]:
        """Return the last recorded version of each Delta table, including the ledger, ordered by path."""
        rows = self._database.rows(select(ddl.stored_versions).order_by(ddl.stored_versions.c.path))
        return tuple(StoredVersion(row.path, row.version, row.rows) for row in rows)

    def with_discarded_rows(self) -> frozenset[int]:
        """Return the IDs of the tables that have fewer rows than were ever stored."""
        tables, stored = ddl.tables.c, ddl.stored_versions.c
        joined = ddl.tables.join(ddl.stored_versions, stored.path == tables.path)
        fewer = select(tables.table_id).select_from(joined).where(tables.tracked == 0, stored.rows < tables.rows)
        return frozenset(row.table_id for row in self._database.rows(fewer))

    def forget_versions(self, paths: Iterable[str]) -> None:
        """Delete the recorded versions of Delta tables.  The caller must delete the Delta tables afterwards."""
        with self._database.changing_under_lease() as connection:
            for path in paths:
                connection.execute(delete(ddl.stored_versions).where(ddl.stored_versions.c.path == path))

    def record_versions(self, versions: Iterable[tuple[str, int, int]]) -> None:
        """Record the (path, version, number of rows) of Delta tables after a purge or a compaction."""
        tables = ddl.tables
        with self._database.changing_under_lease() as connection:
            for path, version, rows in versions:
                connection.execute(update(tables).where(tables.c.path == path).values(version=version))
                record_version(connection, path, version, rows)


def _is_known() -> ColumnElement[bool]:
    auxiliary = select(ddl.views.c.table_id).where(ddl.views.c.mode == "auxiliary")
    return ddl.tables.c.table_id.not_in(auxiliary)


def create_table(
    connection: Connection,
    name: str,
    columns: Sequence[tuple[str, DataType]],
    keys: Sequence[str] | None = None,
    ts_from: str | None = None,
    *,
    tracked: bool = False,
    authored: bool = False,
) -> TableRecord:
    """Create a table as ``Tables.create`` does, in the caller's transaction.  The name must be valid."""
    named = _with_own(columns, tracked, authored)
    own = [_own_name(name, wanted, named) for wanted in keys or ()]
    if TS in map(folded, own):
        raise Refused(
            "ts cannot be a key: Weft sets the ts of a row when it stores the row",
            hint="Name other columns as the key.",
        )
    if ts_from is not None:
        ts_from = _own_name(name, ts_from, named)
    taken = connection.execute(
        select(ddl.tables.c.name).where(ddl.tables.c.folded == folded(name))
    ).scalar_one_or_none()
    if taken is not None:
        raise Conflict(f"there is already a table {taken!r}", hint="Choose another name.")
    values = {
        "name": name,
        "folded": folded(name),
        "path": "",
        "keys": json.dumps(list(dict.fromkeys(own))),
        "ts_from": ts_from,
        "rows": 0,
        "version": -1,
        "tracked": int(tracked),
    }
    table_id = inserted_id(connection, insert(ddl.tables).values(**values))
    own_row = ddl.tables.c.table_id == table_id
    connection.execute(update(ddl.tables).where(own_row).values(path=f"tables/{table_id}-{name}"))
    _add_columns(connection, table_id, 1, named)
    return read_table(connection, table_id)


def record_version(connection: Connection, path: str, version: int, rows: int) -> None:
    """Record the version and the number of rows of a Delta table in the caller's transaction."""
    stored = ddl.stored_versions
    changed = connection.execute(update(stored).where(stored.c.path == path).values(version=version, rows=rows))
    if changed.rowcount == 0:
        connection.execute(insert(stored).values(path=path, version=version, rows=rows))


def forget_table(connection: Connection, table_id: int) -> str:
    """Delete an unused table and its loads from the catalog.  Return the path of the table."""
    path = connection.execute(select(ddl.tables.c.path).where(ddl.tables.c.table_id == table_id)).scalar_one()
    loads = select(ddl.loads.c.load_id).where(ddl.loads.c.table_id == table_id)
    for of_loads in (ddl.load_files, ddl.active_loads):
        connection.execute(delete(of_loads).where(of_loads.c.load_id.in_(loads)))
    forget_grants(connection, "table", table_id)
    for table in (ddl.quarantine, ddl.reservations, ddl.revisions, ddl.loads, ddl.columns, ddl.tables):
        connection.execute(delete(table).where(table.c.table_id == table_id))
    connection.execute(delete(ddl.stored_versions).where(ddl.stored_versions.c.path == path))
    return str(path)


def read_table(connection: Connection, table_id: int) -> TableRecord:
    """Return the table with this ID in the caller's transaction.  Raise NotFound for an unknown ID."""
    tables = read_tables(connection, table_id)
    if not tables:
        raise not_found("table", f"#{table_id}", ())
    return tables[0]


def _named(connection: Connection, name: str) -> TableRecord:
    found = _find(connection, name)
    if found is None:
        known = (table.name for table in read_tables(connection, None) if not table.auxiliary)
        raise not_found("table", name, known)
    return found


def _find(connection: Connection, name: str) -> TableRecord | None:
    found = _read(connection, _BY_NAME, folded=folded(name))
    return found[0] if found and not found[0].auxiliary else None


def read_tables(connection: Connection, table_id: int | None = None) -> tuple[TableRecord, ...]:
    """Return all tables, or only the table with the ID ``table_id``, in the caller's transaction."""
    return _read(connection, _ALL) if table_id is None else _read(connection, _BY_ID, id=table_id)


def _read(connection: Connection, reading: _Reading, **given: int | str) -> tuple[TableRecord, ...]:
    """Return the tables that ``reading`` selects, in its order.  ``given`` has the values of its parameters."""
    modes = {row.table_id: row for row in connection.execute(reading.views, given)}
    attached = set(connection.scalars(reading.attached, given))
    columns: dict[int, list[Column]] = {}
    for row in connection.execute(reading.columns, given):
        column = Column(row.column_id, row.name, DataType.of_column(row.type), bool(row.nullable))
        columns.setdefault(row.table_id, []).append(column)
    return tuple(
        TableRecord(
            schema=table_schema(
                row.table_id,
                row.name,
                columns.get(row.table_id, ()),
                tracked=bool(row.tracked),
                depends_on_now=bool(modes[row.table_id].depends_on_now) if row.table_id in modes else None,
                key=tuple(json.loads(row.keys)),
            ),
            log=TableSchema(row.table_id, row.name, tuple(columns[row.table_id])) if row.tracked else None,
            path=row.path,
            keys=tuple(json.loads(row.keys)),
            ts_from=row.ts_from,
            rows=row.rows,
            version=row.version,
            first_ts=row.first_ts,
            last_ts=row.last_ts,
            auxiliary=row.table_id in modes and modes[row.table_id].mode == "auxiliary",
            is_view=row.table_id in modes and modes[row.table_id].mode != "auxiliary",
            attached=row.table_id in attached,
        )
        for row in connection.execute(reading.tables, given)
    )


def _with_own(
    columns: Sequence[tuple[str, DataType]], tracked: bool, authored: bool = False
) -> list[tuple[str, DataType]]:
    named = list(columns)
    if tracked:
        _refuse_own([each for each, _ in named])
        named += [(each, TIMESTAMP) for each in _PERIODS]
    if all(folded(each) != TS for each, _ in named):
        named.append((TS, TIMESTAMP))
    _check_columns(named)
    if authored:
        named.append((BY, STRING))
    return named


def _refuse_own(names: Iterable[str]) -> None:
    for name in names:
        if folded(name) in (TS, *_PERIODS):
            raise Refused(
                f"{name!r} is the name of a column that Weft adds to each tracked table",
                hint="Rename the column in the source, or omit the column: name the other columns with --columns.",
            )


def _add_columns(connection: Connection, table_id: int, first_id: int, columns: Sequence[tuple[str, DataType]]) -> None:
    connection.execute(
        insert(ddl.columns),
        [
            {
                "table_id": table_id,
                "column_id": column_id,
                "name": name,
                "type": type_.declared,
                "nullable": int(folded(name) not in (TS, VALID_FROM)),
            }
            for column_id, (name, type_) in enumerate(columns, first_id)
        ],
    )


def _extend(connection: Connection, table: TableRecord, name: str, kind: DataType) -> None:
    """Keep the fields that other writers have added since the caller read the table."""
    column = table.stored.column(name)
    if column is not None and column.type.shape is not None and kind.shape is not None:
        extended = DataType.of_json(column.type.shape.extended(kind.shape))
        own = (ddl.columns.c.table_id == table.table_id) & (ddl.columns.c.column_id == column.id)
        connection.execute(update(ddl.columns).where(own).values(type=extended.declared))


def _own_name(table: str, wanted: str, columns: Sequence[tuple[str, DataType]]) -> str:
    for name, _ in columns:
        if folded(name) == folded(wanted):
            return name
    raise Refused(
        f"{table} has no column {wanted!r}", hint=f"Name one of the columns {', '.join((name for name, _ in columns))}."
    )


def _check_columns(columns: Sequence[tuple[str, DataType]]) -> None:
    seen: set[str] = set()
    for name, type_ in columns:
        if not name.strip():
            raise Refused("a column needs a name")
        if folded(name) in seen:
            raise Refused(
                f"the column {name!r} occurs twice",
                hint="Rename one of the two columns: the comparison of names ignores case.",
            )
        seen.add(folded(name))
        if name.startswith("_"):
            raise Refused(f"the column name {name!r} is reserved, because it begins with _", hint="Rename the column.")
        if folded(name) == TS and type_ != TIMESTAMP:
            raise Refused(f"the column ts has the type {type_}, but ts must be a TIMESTAMP", hint="Rename the column.")
        if type_.name in ("NULL", "INTERVAL"):
            raise Refused(f"the column {name!r} has the type {type_}, which a table cannot store")
