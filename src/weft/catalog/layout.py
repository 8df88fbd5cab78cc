"""Define the paths in a home.

A local folder contains the settings, the catalog (unless a server has it), the logs and derived files.  The paths of
the data (tables, ledger, quarantine) are relative to a ``Store``: the same folder, or a place on S3.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.configuration import FILE, Configuration, configuration, s3_access
from weft.errors import Refused
from weft.store import S3Access, Store, local_store, store_of

TABLES: Final = "tables"
"""The folder for tables and views, relative to the data location."""
LEDGER: Final = "ledger"
"""The Delta table that contains all answers, relative to the data location."""
SYNOPSES: Final = "synopses"
"""The folder for synopses, relative to the data location."""
STAGED: Final = "staged"
"""The folder for the rows of an unfinished transaction over several tables, relative to the data location."""
GIVEN: Final = "given"
"""The folder where Spark writes the rows of appended DataFrames, relative to the data location."""
SEARCH: Final = "search"
"""The folder for the index of answers, in the folder of the home.  It is derived data."""
OF_HOME: Final = "weft-home"
"""The object with the ID and the catalog of the home whose data is on S3, relative to the data location."""
PAGE_KEY: Final = "page.key"
"""The file with the key of the page of a home without users, in the folder of the home."""
QUARANTINE: Final = "quarantine"
"""The folder for the bytes of unreadable records, relative to the data location.  File names are SHA-256 digests."""

DATA: Final = (TABLES, LEDGER, SYNOPSES, STAGED, GIVEN, QUARANTINE)
"""All folders that Weft makes at the data location."""
DESTRUCTION: Final = "destroying.json"
"""The file that marks the begun deletion of a home, in its folder."""
OF_FOLDER: Final = (
    *(f"catalog.sqlite{suffix}" for suffix in ("", "-wal", "-shm")),
    *("arrangements", "states", "present", SEARCH, "holders", "logs", "serve", "runner", PAGE_KEY, FILE),
    DESTRUCTION,
)
"""The files that Weft makes in the folder of a home besides the data and the output of channels.

The settings follow the data that they name, and the mark of a begun deletion is the last.
"""

COPY: Final = "copying.json"
"""The file that marks an unfinished copy of a home, in the folder of the copy and at its data location."""


def data(home: Path, store: str | None = None) -> Store:
    """Return the location of a home's tables, ledger and quarantine.

    The settings of the home name it, or ``store`` for a new home.  Raise Refused for invalid settings.
    """
    chosen = configuration(home)
    place = store or chosen.store_url
    if place is not None:
        return store_of(place, s3_access(chosen))
    return replace(local_store(home), follows=True, access=_access_elsewhere(chosen))


def _access_elsewhere(chosen: Configuration) -> S3Access:
    """Return how a home in a folder reaches object stores. It may have no table there, and then needs no settings."""
    try:
        return s3_access(chosen)
    except Refused:
        return S3Access()


def has_data(data: Store) -> bool:
    """Return whether the location has a table or a ledger, or is the store of a home."""
    marked = data.remote and (data / OF_HOME).exists()  # a local folder may have a home of this name
    return marked or bool((data / TABLES).names()) or (data / LEDGER).exists()


def is_begun_copy(home: Path) -> bool:
    """Return whether the folder is the unfinished copy of a home."""
    return (home / COPY).exists()


def is_begun_destruction(home: Path) -> bool:
    """Return whether the deletion of the home in the folder has begun.  The home exists until its catalog is gone."""
    return (home / DESTRUCTION).exists()


def catalog_file(home: Path) -> Path:
    """Return the path of the catalog's SQLite database."""
    return home / "catalog.sqlite"


def runner_file(home: Path) -> Path:
    """Return the lock file of ``weft run`` and ``weft serve``.  The file contains the process ID."""
    return home / "runner"


def holders_folder(home: Path) -> Path:
    """Return the folder for the lock files of processes.  Backups must exclude this folder."""
    return home / "holders"


def page_key_file(home: Path) -> Path:
    """Return the path of the file with the key of the page."""
    return home / PAGE_KEY


def states_folder(home: Path) -> Path:
    """Return the folder of the running totals of groups."""
    return home / "states"


def arrangements_folder(home: Path) -> Path:
    """Return the folder for arrangements.  Users may delete this folder at any time, because Weft can rebuild it."""
    return home / "arrangements"


def present_folder(home: Path) -> Path:
    """Return the folder that caches the current rows of tracked tables.  Users may delete this folder at any time."""
    return home / "present"


def files_folder(home: Path) -> Path:
    """Return the default folder for file channels."""
    return home / "files"


def delta_folder(home: Path) -> Path:
    """Return the default folder for channels that write Delta tables."""
    return home / "delta"


def logs_folder(home: Path) -> Path:
    """Return the folder for Spark's log and stack traces."""
    return home / "logs"
