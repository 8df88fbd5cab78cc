"""Where things are in a home.

Its catalog, logs and the files of channels are in a local folder.  Its data (tables, ledger, quarantine) is named
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
"""The Delta table with every answer of every query, relative to the data, as recorded versions name it."""
SYNOPSES: Final = "synopses"
"""The folder with a Delta table for each relation that synopses store, relative to the data."""
WRITING: Final = "writing"
"""Where Spark writes data files before they become a table's, relative to the data; whoever writes empties it first."""
STAGED: Final = "staged"
"""The folder with the rows of a transaction over several tables until all have theirs, relative to the data."""
GIVEN: Final = "given"
"""The folder into which Spark writes the rows of DataFrames that are appended, until they are read; relative to the
data."""
QUARANTINE: Final = "quarantine"
"""The folder with the bytes of records that could not be read, named by their SHA-256, relative to the data."""


def data(home: Path) -> Location:
    """Where the tables, the ledger and the quarantine of a home are: in its folder."""
    return replace(Location.of(home), follows=True)


def home_of(data: Location) -> Path:
    """The folder of the home whose data is there."""
    return Path(data.path)


def has_data(home: Path) -> bool:
    """Whether there is any table, or a ledger."""
    return bool((data(home) / TABLES).names()) or (data(home) / LEDGER).exists()


def catalog_file(home: Path) -> Path:
    """The SQLite database with definitions, lease, ticks and outbox."""
    return home / "catalog.sqlite"


def runner_file(home: Path) -> Path:
    """The file that ``weft run`` and ``weft serve`` lock while they tick; it has the process's number."""
    return home / "runner"


def holders_folder(home: Path) -> Path:
    """The folder with a file for each process that holds leases, locked while it runs; belongs in no backup."""
    return home / "holders"


def arrangements_folder(home: Path) -> Path:
    """The folder with the arrangements: derived, so that it may be deleted at any time."""
    return home / "arrangements"


def present_folder(home: Path) -> Path:
    """The folder with the open rows of tracked tables: derived, so that it may be deleted at any time."""
    return home / "present"


def files_folder(home: Path) -> Path:
    """The folder under which file channels write where no other root is set."""
    return home / "files"


def delta_folder(home: Path) -> Path:
    """The folder under which channels write Delta tables where no other root is set."""
    return home / "delta"


def logs_folder(home: Path) -> Path:
    """The folder for Spark's log and for stack traces."""
    return home / "logs"
