"""Deliver to Delta tables other than the home's own tables.  Append each answer once, in typed columns.

Each message is one commit.  The log of the table records which messages the table contains.  A repeated message
therefore has no effect.
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
from weft.storage.answer_tables import append_answers, require_fit, require_own, table_id
from weft.storage.ledger import Answers
from weft.storage.table import Table
from weft.store import Store, local_store


class DeltaChannel:
    """A Delta table below the folder ``root``.  The channel creates missing folders and refuses symbolic links."""

    shown_rows: Final = None
    server: Final = None
    schedule: Final = DOUBLING
    person: Final = None

    def __init__(self, path: str, root: Path) -> None:
        self._root = root
        self._path = path_below(path, root, usage="delta:NAME", variable="WEFT_DELTA_ROOT")
        self._table = local_store(root / self._path)

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return f"delta:{self._path}"

    def require(self, answers: Answers) -> None:
        """Raise Refused if another writer owns the table, or if a Delta table cannot store the columns."""
        require_fit(answers)
        require_own(Table(self._place()), answers)

    def prepare(self) -> str:
        """Return a position (JSON) with the ID of the Delta table."""
        with self._sending():
            self._root.mkdir(parents=True, exist_ok=True)
            return json.dumps({"table": table_id(Table(self._place()))})

    def send(self, message: Message, position: str | None) -> None:
        """Append those rows of the message that the table does not contain."""
        with self._sending():
            append_answers(Table(self._place()), message.answers, message.rows)

    def test(self, message: Message) -> str:
        """Check that the table is writable.  Add no row, because the readers of the table expect only answers."""
        self.prepare()
        return "the table can be written; no test row was added, because the table contains answers only"

    def recover(self, position: str | None) -> Recovery:
        """Return ``undone``, or ``unknown`` if the table is missing or was replaced."""
        before = None if position is None else json.loads(position)["table"]
        with self._sending():
            return "undone" if before in (None, table_id(Table(self._place()))) else "unknown"

    def _place(self) -> Store:
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
        try:
            yield
        except (Refused, StorageError) as error:
            raise DeliveryError(error.message, where=error.where or self.address, hint=error.hint) from error
        except OSError as error:
            raise DeliveryError(f"the table cannot be written: {error.strerror}", where=self.address) from error
