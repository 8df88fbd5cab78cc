"""Define the paths in a home.

The catalog, the logs and the files of channels are in a local folder.  The paths of the data (tables, ledger,
quarantine) are relative to a ``Location``, so that a home can be moved.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.location import Location

TABLES: Final = "tables"
"""The folder that contains a Delta table for each user table, relative to the data location."""
LEDGER: Final = "ledger"
"""The Delta table of all answers, relative to the data location; recorded versions use this path."""
SYNOPSES: Final = "synopses"
"""The folder that contains a Delta table for each stored relation of a synopsis, relative to the data location."""
WRITING: Final = "writing"
"""The folder, relative to the data location, where Spark writes data files before Weft moves them into a table.
Each writer empties the folder.
"""
STAGED: Final = "staged"
"""The folder, relative to the data location, with the rows of an unfinished transaction over several tables."""
GIVEN: Final = "given"
"""The folder where Spark writes the rows of appended DataFrames for Weft to read, relative to the data location."""
QUARANTINE: Final = "quarantine"
"""The folder that contains the bytes of unreadable records, named by their SHA-256, relative to the data location."""


def data(home: Path) -> Location:
    """Return the location of a home's tables, ledger and quarantine."""
    return replace(Location.of(home), follows=True)


def home_of(data: Location) -> Path:
    """Return the folder of the home whose data is at ``data``."""
    return Path(data.path)


def has_data(home: Path) -> bool:
    """Return whether the home has a table or a ledger."""
    return bool((data(home) / TABLES).names()) or (data(home) / LEDGER).exists()


def catalog_file(home: Path) -> Path:
    """Return the path of the SQLite database with definitions, leases, ticks and outbox."""
    return home / "catalog.sqlite"


def runner_file(home: Path) -> Path:
    """Return the lock file of ``weft run`` and ``weft serve``, which contains the process number."""
    return home / "runner"


def holders_folder(home: Path) -> Path:
    """Return the folder with one file for each process that holds leases.

    A process locks its file while it runs.  Backups must exclude the folder.
    """
    return home / "holders"


def arrangements_folder(home: Path) -> Path:
    """Return the folder of the arrangements; it may be deleted at any time, because Weft can rebuild them."""
    return home / "arrangements"


def present_folder(home: Path) -> Path:
    """Return the folder of the cached current rows of tracked tables, which may be deleted at any time."""
    return home / "present"


def files_folder(home: Path) -> Path:
    """Return the default folder of file channels; the settings can name another root."""
    return home / "files"


def delta_folder(home: Path) -> Path:
    """Return the default folder of the Delta tables of channels; the settings can name another root."""
    return home / "delta"


def logs_folder(home: Path) -> Path:
    """Return the folder of Spark's log and of stack traces."""
    return home / "logs"
