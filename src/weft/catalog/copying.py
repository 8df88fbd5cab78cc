"""Copy the catalog of a home into another database: SQLite or PostgreSQL, in either direction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, Table, insert, inspect, select

from weft.access import make_file
from weft.catalog import ddl, layout
from weft.catalog.address import CatalogAddress
from weft.catalog.database import Database, catalog_errors
from weft.catalog.dialects import last_id, make_tables, postgresql_engine, set_last_id, sqlite_engine, to_write
from weft.errors import CatalogError, Conflict

_AT_ONCE: Final = 1_000


def require_free(address: CatalogAddress, *, resumed_from: str | None) -> None:
    """Raise Conflict if the address is already the catalog of a home.

    ``resumed_from`` is the ID of the home whose copy is resumed. The catalog may be that of the earlier attempt.
    """
    if address.url is None and not layout.catalog_file(address.home).exists():
        return
    with _opened(address) as engine, engine.connect() as connection:
        _require_free(connection, address, resumed_from)


def _require_free(connection: Connection, address: CatalogAddress, resumed_from: str | None) -> None:
    if not inspect(connection).has_table(ddl.home.name):
        return
    found = connection.execute(select(ddl.home.c.home_id, ddl.home.c.place)).one()
    if tuple(found) != (resumed_from, address.place):
        raise Conflict(
            f"{address} is already the catalog of the home {found.place}",
            hint="Name another schema, such as ?schema=orders at the end of the URL: each home needs its own.",
        )


@contextmanager
def copied_catalog(source: Database, target: CatalogAddress) -> Iterator[Mapping[str, int]]:
    """Write the rows of a catalog into another database in one transaction, which commits after the ``with`` block.

    Yield the number of rows of each table. The tables of an earlier attempt are replaced. Leases and running loads
    belong to processes of the source, so they are left out. Raise CatalogError if the target reads a row differently.
    Raise Conflict if another home has taken the target meanwhile.
    """
    with _opened(target) as engine, engine.connect() as plain, (connection := to_write(plain)).begin():
        with source.reading() as original:
            own = original.execute(select(ddl.home.c.home_id)).scalar_one()
        _require_free(connection, target, own)
        ddl.metadata.drop_all(connection)
        make_tables(connection, ddl.metadata, target.schema)
        with source.reading() as original:
            counts = {each.name: _copied(original, connection, each, target) for each in ddl.metadata.sorted_tables}
        yield counts


@contextmanager
def _opened(address: CatalogAddress) -> Iterator[Engine]:
    file = layout.catalog_file(address.home)
    if address.url is None:
        make_file(file)
    engine = sqlite_engine(file) if address.url is None else postgresql_engine(address.url)
    try:
        with catalog_errors(address):
            yield engine
    finally:
        engine.dispose()


def _copied(source: Connection, target: Connection, table: Table, address: CatalogAddress) -> int:
    """Copy the rows of a table and the last ID that it gave, and return the number of rows."""
    written, read, count = hashlib.sha256(), hashlib.sha256(), 0
    for rows in _rows(source, table):
        values = [_carried(table, row, address) for row in rows]
        target.execute(insert(table), values)
        _add(written, (tuple(each.values()) for each in values))
        count += len(values)
    if table.autoincrement_column is not None:
        set_last_id(target, table, last_id(source, table))
    for rows in _rows(target, table):
        _add(read, map(tuple, rows))
    if read.digest() != written.digest():
        raise CatalogError(
            f"the rows of the table {table.name} differ in the copy of the catalog",
            where=str(address),
            hint="Check the disk or the server, and copy again.",
        )
    return count


def _rows(connection: Connection, table: Table) -> Iterator[Sequence[Row[Any]]]:
    """Yield the rows of a table in the order of the primary key, except for the running loads of a home."""
    if table is not ddl.active_loads:
        wanted = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_AT_ONCE)
        yield from connection.execute(wanted).partitions()


def _carried(table: Table, row: Row[Any], address: CatalogAddress) -> dict[str, Any]:
    values = dict(row._mapping)
    if table is ddl.home:
        values["place"] = address.place
    elif table is ddl.leases:
        values |= dict.fromkeys(("purpose", "holder", "acquired_at", "expires_at"))
    return values


def _add(digest: Any, rows: Iterable[tuple[Any, ...]]) -> None:
    for row in rows:
        digest.update(repr(row).encode(errors="surrogatepass"))
