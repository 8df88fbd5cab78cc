"""Define the paths in a home.

The catalog, the logs and the files of channels are in a local folder.  The data (tables, ledger, quarantine) has paths
relative to a ``Location``, so that a home can be moved.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.location import Location

TABLES: Final = "tables"
"""The folder with a Delta table for each user's table, relative to the data."""
LEDGER: Final = "ledger"
"""The Delta table with every answer of every query, relative to the data; recorded versions use this path."""
SYNOPSES: Final = "synopses"
"""The folder with a Delta table for each stored relation of a synopsis, relative to the data."""
WRITING: Final = "writing"
"""The folder where Spark writes data files before they move into a table, relative to the data; each writer empties
it.
"""
STAGED: Final = "staged"
"""The folder with the rows of a transaction over several tables until all of them have theirs, relative to the data."""
GIVEN: Final = "given"
"""The folder into which Spark writes the rows of appended DataFrames until Weft reads them, relative to the data."""
QUARANTINE: Final = "quarantine"
"""The folder with the bytes of unreadable records, named by their SHA-256, relative to the data."""


def data(home: Path) -> Location:
    """Return the location of a home's tables, ledger and quarantine."""
    return replace(Location.of(home), follows=True)


def home_of(data: Location) -> Path:
    """Return the folder of the home with this data."""
    return Path(data.path)


def has_data(home: Path) -> bool:
    """Return whether the home has a table or a ledger."""
    return bool((data(home) / TABLES).names()) or (data(home) / LEDGER).exists()


def catalog_file(home: Path) -> Path:
    """Return the SQLite database with definitions, leases, ticks and outbox."""
    return home / "catalog.sqlite"


def runner_file(home: Path) -> Path:
    """Return the file that ``weft run`` and ``weft serve`` lock while they tick; it contains the process number."""
    return home / "runner"


def holders_folder(home: Path) -> Path:
    """Return the folder with a file for each process that holds leases, locked while it runs; exclude it from
    backups.
    """
    return home / "holders"


def arrangements_folder(home: Path) -> Path:
    """Return the folder of the arrangements, which are derived and may be deleted at any time."""
    return home / "arrangements"


def present_folder(home: Path) -> Path:
    """Return the folder of the cached current rows of tracked tables, which may be deleted at any time."""
    return home / "present"


def files_folder(home: Path) -> Path:
    """Return the folder of file channels, unless another root is configured."""
    return home / "files"


def delta_folder(home: Path) -> Path:
    """Return the folder of the Delta tables of channels, unless another root is configured."""
    return home / "delta"


def logs_folder(home: Path) -> Path:
    """Return the folder of Spark's log and of stack traces."""
    return home / "logs"
