"""An index of the words of answers, on the driver's local disk: derived data, which may be deleted at any time.

The index is a database of SQLite with a full-text table.  Its answers have increasing places, so the newest are found
first.  It records up to which version of the ledger it has the answers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.access import make_file, make_folder
from weft.arrangement.run import ArrangementDamaged

_FORMAT: Final = 1
_FILE: Final = "answers.sqlite"
_WAIT_SECONDS: Final = 10.0
_LONGEST: Final = 20_000
"""The maximum number of characters of an answer that are indexed."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS covered (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS files (name TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS answers (place INTEGER PRIMARY KEY, query_id INTEGER NOT NULL, "
    "ordinal INTEGER NOT NULL, first_at INTEGER NOT NULL, UNIQUE (query_id, ordinal))",
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING "
    "fts5(text, tokenize = 'unicode61 remove_diacritics 2', prefix = '3')",
)


@dataclass(frozen=True)
class Indexed:
    """An answer of the query ``query_id`` as text.  ``first_at`` is its first instant (microseconds UTC)."""

    query_id: int
    ordinal: int
    first_at: int
    text: str


@dataclass(frozen=True)
class Hit:
    """An answer that contains the wanted words.  ``place`` grows with each indexed answer."""

    place: int
    answer: Indexed


class WordIndex:
    """The index in a folder.  Threads and processes may share it.  Damage raises ArrangementDamaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def version(self) -> int:
        """Return the last version of the ledger whose answers are in the index, or -1."""
        with self._opened() as connection:
            row = connection.execute("SELECT version FROM covered").fetchone()
            return -1 if row is None else int(row[0])

    def files(self) -> frozenset[str]:
        """Return the names of the files whose answers an unfinished building of the index has added."""
        with self._opened() as connection:
            return frozenset(row[0] for row in connection.execute("SELECT name FROM files"))

    def add(self, answers: Iterable[Indexed], *, version: int | None = None, file: str | None = None) -> None:
        """Add answers in one transaction.  Answers that are there stay.

        Record that the index has the file ``file``, or everything up to ``version``.
        """
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for each in answers:
                added = connection.execute(
                    "INSERT OR IGNORE INTO answers (query_id, ordinal, first_at) VALUES (?, ?, ?)",
                    (each.query_id, each.ordinal, each.first_at),
                )
                if added.rowcount == 1:
                    text = (added.lastrowid, each.text[:_LONGEST])
                    connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", text)
            if version is not None:
                connection.execute("INSERT OR REPLACE INTO covered VALUES (1, ?)", (version,))
                connection.execute("DELETE FROM files")
            if file is not None:
                connection.execute("INSERT OR IGNORE INTO files VALUES (?)", (file,))
            connection.execute("COMMIT")

    def search(
        self,
        text: str,
        *,
        before: int | None = None,
        query_id: int | None = None,
        among: Collection[int] | None = None,
        limit: int,
    ) -> tuple[Hit, ...]:
        """Return at most ``limit`` answers with words that begin as those of ``text``, the newest first.

        The places of the answers are below ``before``.  ``among`` are the IDs of the queries to search (None: all).
        Without a word in ``text``, no answer is found.
        """
        wanted = " ".join(f'"{word}"*' for word in text.replace('"', " ").replace("\0", " ").split())
        if not wanted:
            return ()
        conditions, values = ["words MATCH ?"], [wanted]
        for condition, value in (("answers.place < ?", before), ("answers.query_id = ?", query_id)):
            if value is not None:
                conditions.append(condition)
                values.append(str(value))
        if among is not None:
            conditions.append("answers.query_id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(sorted(among)))
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT answers.place, query_id, ordinal, first_at, text FROM words JOIN answers "
                f"ON answers.place = words.rowid WHERE {' AND '.join(conditions)} ORDER BY words.rowid DESC LIMIT ?",
                (*values, limit),
            )
            return tuple(Hit(row[0], Indexed(*row[1:])) for row in rows)

    def begin_again(self) -> None:
        """Delete the index, because answers are gone from the ledger or the index is damaged."""
        for file in self.folder.glob(f"{_FILE}*"):
            file.unlink(missing_ok=True)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        path = self.folder / _FILE
        connection: sqlite3.Connection | None = None
        try:
            make_folder(self.folder)
            make_file(path)
            connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
            if connection.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
                connection.execute("PRAGMA journal_mode = WAL")
                for table in _TABLES:
                    connection.execute(table)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.execute("PRAGMA synchronous = OFF")  # lost pages are found as damage, and cost a rebuild
            yield connection
        except sqlite3.DatabaseError as error:
            raise ArrangementDamaged(f"the index of answers cannot be read: {error}", where=str(path)) from None
        finally:
            if connection is not None:
                connection.close()
