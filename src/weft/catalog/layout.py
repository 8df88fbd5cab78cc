"""Where things are in a home's folder."""

from __future__ import annotations

from pathlib import Path

LEDGER = "ledger"
"""The ledger's path relative to the home, as recorded versions name it."""


def catalog_file(home: Path) -> Path:
    """The SQLite database with definitions, lease, ticks and outbox."""
    return home / "catalog.sqlite"


def tables_folder(home: Path) -> Path:
    """The folder with one Delta table a user's table."""
    return home / "tables"


def ledger_folder(home: Path) -> Path:
    """The Delta table with every answer of every query."""
    return home / LEDGER


def quarantine_folder(home: Path) -> Path:
    """The folder with the bytes of records that could not be read, named by their SHA-256."""
    return home / "quarantine"


def files_folder(home: Path) -> Path:
    """The folder under which file channels write where no other root is set."""
    return home / "files"


def logs_folder(home: Path) -> Path:
    """The folder for Spark's log and for stack traces."""
    return home / "logs"
