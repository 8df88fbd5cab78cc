"""Define the paths in a home.

A local folder contains the catalog, the logs and the files of channels.  The paths of the data (tables, ledger,
quarantine) are relative to a ``Store``, so a home can be moved.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.store import Store, local_store

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
QUARANTINE: Final = "quarantine"
"""The folder for the bytes of unreadable records, relative to the data location.  File names are SHA-256 digests."""


def data(home: Path) -> Store:
    """Return the location of a home's tables, ledger and quarantine."""
    return replace(local_store(home), follows=True)


def home_of(data: Store) -> Path:
    """Return the folder of the home whose data is at ``data``."""
    return Path(data.path)


def has_data(home: Path) -> bool:
    """Return whether the home has a table or a ledger."""
    return bool((data(home) / TABLES).names()) or (data(home) / LEDGER).exists()


def catalog_file(home: Path) -> Path:
    """Return the path of the catalog's SQLite database."""
    return home / "catalog.sqlite"


def runner_file(home: Path) -> Path:
    """Return the lock file of ``weft run`` and ``weft serve``.  The file contains the process ID."""
    return home / "runner"


def holders_folder(home: Path) -> Path:
    """Return the folder for the lock files of processes.  Backups must exclude this folder."""
    return home / "holders"


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
