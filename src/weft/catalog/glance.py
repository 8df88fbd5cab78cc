"""Read the schemas of a home's tables with Python's own SQLite module, which is quick to import."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

from weft.algebra.schema import Column, DataType, TableSchema
from weft.catalog import layout
from weft.catalog.naming import folded
from weft.catalog.records import results_schema, table_schema

_TABLES = "SELECT table_id, name, {} FROM tables ORDER BY table_id"
_VIEWS = "SELECT table_id, mode, depends_on_now FROM views"
_SIZES = "SELECT name, rows, first_ts, last_ts, table_id IN (SELECT table_id FROM views) FROM tables"
_COLUMNS = "SELECT table_id, column_id, name, type, nullable FROM columns ORDER BY table_id, column_id"
_MOST_NAMES = 900
"""The maximum number of parameters in one statement.  Every build of SQLite accepts this number."""
_RESULTS = "SELECT query_id, name, columns FROM queries WHERE state <> 'removed' AND folded IN ({})"
_ANSWERS = "SELECT name, next_ordinal - 1, last_first_at FROM queries WHERE state <> 'removed' AND folded IN ({})"
_TRACKED_SINCE = 5
READS_FORMATS = (1, 2, 3, 4, 5, 13, 14)
"""The catalog formats that this module can read.  Homes of other formats need ``Catalog``."""
_VIEWS_SINCE = 13


def table_sizes(home: Path, queries: Iterable[str] = ()) -> dict[str, tuple[int, int | None, int | None, bool]]:
    """Return the sizes of the home's tables and of the results of ``queries``, by name.

    A size is a tuple (number of rows, first ts, last ts, true for a view).  Tables that this module cannot read are
    omitted.
    """
    file = layout.catalog_file(home)
    names = sorted(set(map(folded, queries)))[:_MOST_NAMES]
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            tables = connection.execute(_SIZES).fetchall()
            answers = connection.execute(_ANSWERS.format(", ".join("?" * len(names))), names).fetchall()
    except (sqlite3.Error, ValueError):
        return {}
    sizes = {name: (rows, first, last, bool(view)) for name, rows, first, last, view in tables}
    return sizes | {results_schema(0, name, ()).name: (rows, None, last, False) for name, rows, last in answers}


def table_schemas(
    home: Path, queries: Iterable[str] = (), words: Collection[str] = ()
) -> dict[str, TableSchema] | None:
    """Return the schemas of the home's tables and of the results of ``queries``, by name.

    Queries that are not installed are omitted.  Return None if the home does not exist, has another format, or is busy.
    Also return None if one of ``words`` (from ``naming.words``) names a view that needs a definition.
    """
    file = layout.catalog_file(home)
    names = sorted(set(map(folded, queries)))
    if not file.exists() or len(names) > _MOST_NAMES:
        return None
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as connection:
            connection.execute("BEGIN")
            version = connection.execute("SELECT format FROM home").fetchone()
            if version is None or version[0] not in READS_FORMATS:
                return None
            columns: dict[int, list[Column]] = {}
            for table_id, column_id, name, type_name, nullable in connection.execute(_COLUMNS):
                column = Column(column_id, name, DataType.of_column(type_name), bool(nullable))
                columns.setdefault(table_id, []).append(column)
            tracked = "tracked" if version[0] >= _TRACKED_SINCE else "0"
            tables = connection.execute(_TABLES.format(tracked)).fetchall()
            views = connection.execute(_VIEWS).fetchall() if version[0] >= _VIEWS_SINCE else []
            results = connection.execute(_RESULTS.format(", ".join("?" * len(names))), names).fetchall()
    except (sqlite3.Error, ValueError):
        return None
    auxiliary = {table_id for table_id, mode, _ in views if mode == "auxiliary"}
    depends = {table_id: bool(depends_on_now) for table_id, _, depends_on_now in views}
    if any(depends.get(table_id) and folded(name) in words for table_id, name, _ in tables):
        return None
    known = {
        name: table_schema(
            table_id, name, columns.get(table_id, ()), tracked=bool(tracked), depends_on_now=depends.get(table_id)
        )
        for table_id, name, tracked in tables
        if table_id not in auxiliary
    }
    for query_id, name, stored in results:
        schema = results_schema(
            query_id, name, [(label, DataType.of_column(kind)) for label, kind in json.loads(stored)]
        )
        known[schema.name] = schema
    return known
