"""Deliver to Delta tables outside the home's own: append answers in typed columns, each once, under one folder.

A message is one commit.  The table's log records the messages it contains, so sending one again has no effect.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weft.delivery.channel import DOUBLING, Message, Recovery
from weft.delivery.file import path_below
from weft.errors import Conflict, DeliveryError, Refused, StorageError
from weft.location import Location
from weft.storage.answer_tables import append_answers, require_fit, require_own, table_id
from weft.storage.ledger import Answers


class DeltaChannel:
    """One Delta table under ``root``; missing folders are created, and symbolic links in the path are refused."""

    shown_rows: Final = None
    server: Final = None
    schedule: Final = DOUBLING
    person: Final = None

    def __init__(self, path: str, root: Path) -> None:
        self._root = root
        self._path = path_below(path, root, usage="delta:NAME", variable="WEFT_DELTA_ROOT")
        self._table = Location.of(root / self._path)

    @property
    def address(self) -> str:
        """The channel's canonical name."""
        return f"delta:{self._path}"

    def require(self, answers: Answers) -> None:
        """Raise Refused if the table belongs to others, or if a Delta table cannot have these columns."""
        require_fit(answers)
        require_own(self._place(), answers)

    def prepare(self) -> str:
        """Return the id of the present Delta table."""
        with self._sending():
            self._root.mkdir(parents=True, exist_ok=True)
            return json.dumps({"table": table_id(self._place())})

    def send(self, message: Message, position: str | None) -> None:
        """Append those of the message's rows that the table does not have."""
        with self._sending():
            append_answers(self._place(), message.answers, message.rows)

    def test(self, message: Message) -> str:
        """Check that the table can be written, without adding a row: programs read the table and expect answers
        only.
        """
        self.prepare()
        return "the table can be written; no test row was added, since the table contains answers only"

    def recover(self, position: str | None) -> Recovery:
        """Return ``undone``, since the table knows what it contains; ``unknown`` if it is missing or was replaced."""
        before = None if position is None else json.loads(position)["table"]
        with self._sending():
            return "undone" if before in (None, table_id(self._place())) else "unknown"

    def _place(self) -> Location:
        """Return the table's folder; raise Conflict if it cannot be a table's folder."""
        folder = self._root
        for part in self._path.parts:
            if (folder / "_delta_log").exists():
                raise Conflict("the path is inside another Delta table", where=self.address)
            folder /= part
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise Conflict(
                    "the path contains a symbolic link, or a file in place of a folder",
                    where=self.address,
                    hint=f"Deliver to a table in real folders under {self._root}.",
                )
        if folder.exists() and not (folder / "_delta_log").exists() and os.listdir(folder):
            raise Conflict("the folder has other files", where=self.address, hint="Deliver to a new path.")
        return self._table

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Raise the table's errors as DeliveryError."""
        try:
            yield
        except (Refused, StorageError) as error:
            raise DeliveryError(error.message, where=error.where or self.address, hint=error.hint) from error
        except OSError as error:
            raise DeliveryError(f"the table cannot be written: {error.strerror}", where=self.address) from error
