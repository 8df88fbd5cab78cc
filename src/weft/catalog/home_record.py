"""Create and open homes.  Read and change the home's record."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from typing import Any, Final, get_args

from sqlalchemy import Connection, Engine, func, insert, inspect, select, update

from weft.access import FOLDER_MODES, make_file, make_folder
from weft.catalog import ddl, layout
from weft.catalog.address import CatalogAddress
from weft.catalog.channel_folders import mark_roots
from weft.catalog.database import catalog_errors, record_of
from weft.catalog.dialects import make_tables, postgresql_engine, server_time, sqlite_engine, to_write
from weft.catalog.migrations import migrate
from weft.catalog.records import Clock, HomeRecord, LeaseName
from weft.configuration import configuration
from weft.errors import CatalogError, Conflict, Refused, WeftError
from weft.instants import MIN_INSTANT
from weft.rights.secrets import new_secret

_HOME: Final = select(ddl.home)


def read_home(connection: Connection) -> HomeRecord:
    """Return the home's record, read in the caller's transaction."""
    return record_of(HomeRecord, connection.execute(_HOME).one())


def read_link_key(connection: Connection) -> str | None:
    """Return the key that signs the links in letters, or None if none was created yet."""
    key: str | None = connection.execute(select(ddl.home.c.link_key)).scalar_one()
    return key


def make_link_key(connection: Connection) -> str:
    """Create the key that signs the links in letters, in the caller's transaction."""
    key = new_secret()
    set_home(connection, link_key=key)
    return key


def effective_watermark(connection: Connection) -> int:
    """Return the smallest ``ts`` that a new row can have: the watermark, or the instant of a later planned tick.

    An interrupted tick runs again at its recorded instant, so no new row may precede that instant.
    """
    planned = select(func.max(ddl.ticks.c.t)).where(ddl.ticks.c.state == "planned")
    t = connection.execute(planned).scalar_one()
    watermark = read_home(connection).watermark
    return watermark if t is None else max(watermark, t)


def set_home(connection: Connection, **values: Any) -> None:
    """Update columns of the home's record."""
    connection.execute(update(ddl.home).values(**values))


def open_database(
    address: CatalogAddress, *, create: bool, clock: Clock, at: int, copying: bool = False
) -> tuple[Engine, bool]:
    """Open the database of a home.  With ``create``, create a missing database and missing folders.

    Return also whether the folder has just become that of a home which existed, as a further machine has it.
    ``clock`` and ``at`` apply only to a new home.  An unfinished copy of a home can be opened only by the process that
    is ``copying`` it.  Raise CatalogError if the folder is not a home, if its deletion has begun, if this version of
    Weft does not read its format, or if the home has data but no catalog.  Raise Conflict if the database is the
    catalog of another folder.
    """
    if layout.is_begun_copy(address.home) and not copying:
        raise CatalogError(
            f"{address.home} is the unfinished copy of a home",
            hint="Run the same `weft copy` again: it continues. Or delete the folder.",
        )
    if layout.is_begun_destruction(address.home) and not has_catalog(address):
        raise CatalogError(
            f"the deletion of the home {address.home} was interrupted",
            hint="Run `weft destroy` with this folder again: it continues.",
        )
    if create and not address.is_noted:
        address.data.require()
    engine = _engine_of_file(address, create=create) if address.url is None else postgresql_engine(address.url)
    try:
        with catalog_errors(address):
            is_new = _open_tables(engine, address, create=create, clock=clock, at=at)
            _take_place(engine, address)
        joins = not (is_new or address.is_noted)
        if create and address.url is not None:
            make_folders(address.home)
            address.note()
    except BaseException:
        engine.dispose()
        raise
    return engine, joins


def has_catalog(address: CatalogAddress) -> bool:
    """Return whether the catalog of a home exists.  Raise CatalogError if its server cannot be reached."""
    file = layout.catalog_file(address.home)
    if address.url is None and not file.exists():
        return False
    engine = sqlite_engine(file) if address.url is None else postgresql_engine(address.url)
    try:
        with catalog_errors(address), engine.connect() as connection:
            return inspect(connection).has_table(ddl.home.name)
    finally:
        engine.dispose()


def _engine_of_file(address: CatalogAddress, *, create: bool) -> Engine:
    """Return the engine of a catalog in a file.  With ``create``, create a missing file."""
    file = layout.catalog_file(address.home)
    if not file.exists() or file.stat().st_size == 0:
        _refuse_orphan(address)
        if not create:
            raise CatalogError(
                f"{address.home} is not a Weft home",
                hint="Create a home with `weft init`, or name another home with --home.",
            )
    if create:
        make_folders(address.home)
        address.note()
        make_file(file)  # SQLite gives its log and journal the permissions of the file
    return sqlite_engine(file)


@contextmanager
def deleted_on_error(home: Path) -> Iterator[None]:
    """Delete a home that the block has created if the block raises WeftError.

    A home that contains more than an empty catalog remains. If the folder existed before, only what is new in it is
    deleted. A home with a catalog on a server remains, because a person has chosen its catalog.
    """
    if layout.catalog_file(home).exists():
        yield
        return
    before = set(home.iterdir()) if home.is_dir() else None
    mode = None if before is None else home.stat().st_mode
    try:
        yield
    except WeftError:
        if layout.catalog_file(home).exists() and _delete_new(home, before or set()):
            if mode is None:
                _remove_empty(home)
            else:
                home.chmod(S_IMODE(mode))
        raise


def _delete_new(home: Path, before: set[Path]) -> bool:
    """Delete what is new in the folder, and return True. Return False if that is more than an empty catalog."""
    new = [path for top in home.iterdir() if top not in before for path in (top, *top.rglob("*"))]
    catalog, holders = layout.catalog_file(home), layout.holders_folder(home)
    own = [catalog.with_name(catalog.name + suffix) for suffix in ("", "-wal", "-shm")]
    files = [path for path in new if not path.is_dir()]
    if layout.has_data(layout.data(home)) or not all(path in own or path.parent == holders for path in files):
        return False
    for path in files:
        path.unlink(missing_ok=True)
    for path in sorted(set(new) - set(files), reverse=True):
        _remove_empty(path)
    return True


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _open_tables(engine: Engine, address: CatalogAddress, *, create: bool, clock: Clock, at: int) -> bool:
    """Migrate the tables, or create missing tables.  Return whether the tables are new."""
    with engine.connect() as connection:
        exists = inspect(connection).has_table(ddl.home.name)
    if not exists:
        _refuse_orphan(address)
        if not create:
            raise CatalogError(
                f"{address.home} is not a Weft home: its catalog is empty",
                where=str(address),
                hint="Create a home with `weft init`.",
            )
        _make_database(engine, address, clock=clock, at=at)
    with engine.connect() as connection:
        version = connection.execute(select(ddl.home.c.format)).scalar_one_or_none()
    if _readable(version, address) < ddl.FORMAT:
        with engine.connect() as plain, (connection := to_write(plain)).begin():
            # Read the format again, because another process may have migrated the home in the meantime.
            migrate(connection, connection.execute(select(ddl.home.c.format)).scalar_one())
    return not exists


def _readable(version: Any, address: CatalogAddress) -> int:
    """Return the format of a catalog.  Raise CatalogError if this version of Weft does not read the format."""
    home = address.home
    if version is None:
        raise CatalogError(
            f"the catalog of {home} is damaged: it has no home record", hint="Restore a backup of the entire home."
        )
    if not isinstance(version, int) or version < 1:
        raise CatalogError(
            f"the catalog of {home} is damaged: it gives its format as {version!r}, which no version of Weft writes",
            hint="Restore a backup of the entire home.",
        )
    if version < ddl.FIRST_FORMAT:
        raise CatalogError(
            f"the catalog of {home} has format {version}, which Weft had before its first release; this version reads "
            f"the formats from {ddl.FIRST_FORMAT} on",
            hint="Create a new home with `weft init`, and load its sources and install its queries again.",
        )
    if version > ddl.FORMAT:
        raise CatalogError(
            f"the home {home} has format {version}, but this version of Weft reads formats up to {ddl.FORMAT}",
            hint="Use the version of Weft that wrote the home, or a newer one.",
        )
    return version


def _take_place(engine: Engine, address: CatalogAddress) -> None:
    """Record where the data of the home is, if the catalog is on PostgreSQL or the data is on S3.

    A folder may be moved.  Raise Conflict if the folder with this catalog still exists elsewhere, and if the folder
    does not yet name the catalog: each of two folders would lack the data of the other.  Raise Conflict also if the
    settings name another place on S3.
    """
    here = address.place
    with engine.connect() as connection:
        place = connection.execute(select(ddl.home.c.place)).scalar_one()
    if place == here:
        return
    if here is None or place is None or address.on_s3 or place.startswith("s3://"):
        raise Conflict(
            f"the catalog {address} belongs to the data in {place or address.home}, not to {address.data}",
            where=str(address.home),
            hint="Correct store.url in weft.toml, or name another schema for the catalog: each home needs its own.",
        )
    if not address.is_noted or _is_home_of(Path(place), address):
        raise Conflict(
            f"{address} is already the catalog of the home {place}",
            where=str(address.home),
            hint="Name another schema, such as ?schema=orders at the end of the URL: each home needs its own.",
        )
    with engine.connect() as plain, (connection := to_write(plain)).begin():
        set_home(connection, place=here)


def _is_home_of(folder: Path, address: CatalogAddress) -> bool:
    """Return whether another folder of this machine uses the catalog, or may use it."""
    if not folder.exists() or folder.samefile(address.home):
        return False
    try:
        return configuration(folder).catalog_url == address.url
    except Refused:
        return True


def _make_database(engine: Engine, address: CatalogAddress, *, clock: Clock, at: int) -> None:
    """The clock of a database server replaces ``at``, the time of this machine."""
    if address.url is not None:
        with engine.connect() as plain:
            at = server_time(plain)
    home_id = str(uuid.uuid4())
    with engine.connect() as plain:
        connection = to_write(plain)
        with connection.begin():
            if inspect(connection).has_table(ddl.home.name):  # another process created it meanwhile
                return
            make_tables(connection, ddl.metadata, address.schema)
            connection.execute(
                insert(ddl.home).values(
                    only=1,
                    home_id=home_id,
                    format=ddl.FORMAT,
                    clock=clock,
                    created_at=at,
                    place=address.place,
                    watermark=MIN_INSTANT,
                    last_ts=MIN_INSTANT,
                    t0=at if clock == "wall" else None,
                )
            )
            connection.execute(insert(ddl.leases), [{"name": name, "token": 0} for name in get_args(LeaseName)])
            if address.url is not None:
                make_folders(address.home)
                mark_roots(address.home, home_id)
            address.mark(home_id)  # before the commit, so that no other home can take the place


def make_folders(home: Path) -> None:
    """Create the folder of a home, and the folders in it.  Raise CatalogError."""
    new = not layout.logs_folder(home).exists()
    try:
        access = configuration(home).home_access if new else "umask"
        home.mkdir(0o777 if access == "umask" else 0o700, parents=True, exist_ok=True)
        if access != "umask" and home.stat().st_uid == os.geteuid():
            home.chmod(FOLDER_MODES[access])
        layout.files_folder(home).mkdir(exist_ok=True)  # belongs to a channel, so the umask applies
        make_folder(layout.logs_folder(home))
    except OSError as error:
        raise CatalogError(
            f"the home {home} could not be created: {error.strerror}", hint="Choose another folder with --home."
        ) from error


def _refuse_orphan(address: CatalogAddress) -> None:
    if layout.has_data(address.data) and not address.is_only_marked:
        what = f"{address.data} has the data of a home" if address.on_s3 else "the data exists"
        raise CatalogError(
            f"the catalog of {address.home} is missing, but {what}",
            where=str(address),
            hint=(
                "Restore the catalog from the same backup as the data (on PostgreSQL, also its URL in weft.toml), or "
                "create a new home in another place."
            ),
        )
