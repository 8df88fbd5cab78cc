"""Create and open homes.  Read and change the home's record."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from typing import Any, get_args

from sqlalchemy import Connection, Engine, func, insert, inspect, select, update

from weft.access import FOLDER_MODES, make_file, make_folder
from weft.catalog import ddl, layout
from weft.catalog.database import catalog_errors
from weft.catalog.dialects import postgresql_engine, sqlite_engine, to_write
from weft.catalog.migrations import FIRST_FORMAT, migrate
from weft.catalog.records import Clock, HomeRecord, LeaseName
from weft.configuration import configuration
from weft.errors import CatalogError, WeftError
from weft.instants import MIN_INSTANT


def read_home(connection: Connection) -> HomeRecord:
    """Return the home's record, read in the caller's transaction."""
    row = connection.execute(select(ddl.home)).one()
    return HomeRecord(
        home_id=row.home_id,
        format=row.format,
        clock=row.clock,
        created_at=row.created_at,
        watermark=row.watermark,
        last_ts=row.last_ts,
        now=row.now,
        t0=row.t0,
    )


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


def open_database(home: Path, url: str | None, *, create: bool, clock: Clock, at: int) -> Engine:
    """Open the database of a home.  With ``create``, create a missing database and missing folders.

    ``clock`` applies only to a new home.  Raise CatalogError if the folder is not a home, if the home has a newer
    format, or if the home has data but no catalog.
    """
    file = layout.catalog_file(home)
    if url is None and (not file.exists() or file.stat().st_size == 0):
        _refuse_orphan(home)
        if not create:
            raise CatalogError(
                f"{home} is not a Weft home", hint="Create a home with `weft init`, or name another home with --home."
            )
    if create:
        _make_folders(home, new=not file.exists())
        if url is None:
            make_file(file)  # SQLite gives its log and journal the permissions of the file
    engine = sqlite_engine(file) if url is None else postgresql_engine(url)
    try:
        with catalog_errors(home):
            _check_format(engine, home, create=create, clock=clock, at=at)
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def deleted_on_error(home: Path) -> Iterator[None]:
    """Delete a home that the block has created if the block raises WeftError.

    A home that contains more than an empty catalog remains. If the folder existed before, only what is new in it is
    deleted.
    """
    if layout.catalog_file(home).exists():
        yield
        return
    before = set(home.iterdir()) if home.is_dir() else None
    mode = None if before is None else home.stat().st_mode
    try:
        yield
    except WeftError:
        if home.is_dir():
            _delete_new(home, before or set())
            if mode is None:
                _remove_empty(home)
            elif not layout.catalog_file(home).exists():
                home.chmod(S_IMODE(mode))
        raise


def _delete_new(home: Path, before: set[Path]) -> None:
    new = [path for top in home.iterdir() if top not in before for path in (top, *top.rglob("*"))]
    catalog, holders = layout.catalog_file(home), layout.holders_folder(home)
    own = [catalog.with_name(catalog.name + suffix) for suffix in ("", "-wal", "-shm")]
    files = [path for path in new if not path.is_dir()]
    if all(path in own or path.parent == holders for path in files):
        for path in files:
            path.unlink(missing_ok=True)
        for path in sorted(set(new) - set(files), reverse=True):
            _remove_empty(path)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def _check_format(engine: Engine, home: Path, *, create: bool, clock: Clock, at: int) -> None:
    with engine.connect() as connection:
        exists = inspect(connection).has_table(ddl.home.name)
    if not exists:
        _refuse_orphan(home)
        if not create:
            raise CatalogError(
                f"{home} is not a Weft home: its catalog is empty", hint="Create a home with `weft init`."
            )
        _make_database(engine, clock=clock, at=at)
    with engine.connect() as connection:
        version = connection.execute(select(ddl.home.c.format)).scalar_one_or_none()
    if version is None:
        raise CatalogError(
            f"the catalog of {home} is damaged: it has no home record",
            hint="Restore a backup of the entire home.",
        )
    if not isinstance(version, int) or version < FIRST_FORMAT:
        raise CatalogError(
            f"the catalog of {home} is damaged: it gives its format as {version!r}, which no version of Weft writes",
            hint="Restore a backup of the entire home.",
        )
    if version > ddl.FORMAT:
        raise CatalogError(
            f"the home {home} has format {version}, but this version of Weft reads formats up to {ddl.FORMAT}",
            hint="Use the version of Weft that wrote the home, or a newer one.",
        )
    if version < ddl.FORMAT:
        with engine.connect() as plain, (connection := to_write(plain)).begin():
            # Read the format again, because another process may have migrated the home in the meantime.
            migrate(connection, connection.execute(select(ddl.home.c.format)).scalar_one())


def _make_database(engine: Engine, *, clock: Clock, at: int) -> None:
    with engine.connect() as plain:
        connection = to_write(plain)
        with connection.begin():
            if inspect(connection).has_table(ddl.home.name):  # another process created it meanwhile
                return
            ddl.metadata.create_all(connection)
            connection.execute(
                insert(ddl.home).values(
                    only=1,
                    home_id=str(uuid.uuid4()),
                    format=ddl.FORMAT,
                    clock=clock,
                    created_at=at,
                    watermark=MIN_INSTANT,
                    last_ts=MIN_INSTANT,
                    t0=at if clock == "wall" else None,
                )
            )
            connection.execute(insert(ddl.leases), [{"name": name, "token": 0} for name in get_args(LeaseName)])


def _make_folders(home: Path, *, new: bool) -> None:
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


def _refuse_orphan(home: Path) -> None:
    if layout.has_data(home):
        raise CatalogError(
            f"the catalog of {home} is missing, but the data exists",
            hint="Restore catalog.sqlite from the same backup as the data, or create a new home in another folder.",
        )
