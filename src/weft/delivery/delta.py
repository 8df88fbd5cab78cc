"""Delta tables of a user's own: answers appended in typed columns, each once, under one folder.

A message is one commit, and the table's own log tells which messages it has: sending one again does nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weft.delivery.channel import Message, Recovery
from weft.delivery.places import below
from weft.delivery.retrying import DOUBLING
from weft.errors import Conflict, DeliveryError, Refused, StorageError
from weft.location import Location
from weft.storage.answer_tables import append_answers, require_fit, require_own, table_id
from weft.storage.ledger import Answers


class DeltaChannel:
    """One Delta table under ``root``; folders on the way are made, symbolic links on the way are refused."""

    shown_rows: Final = None
    server: Final = None
    schedule: Final = DOUBLING
    person: Final = None

    def __init__(self, path: str, root: Path) -> None:
        self._root = root
        self._path = below(path, root, usage="delta:NAME", variable="WEFT_DELTA_ROOT")
        self._table = Location.of(root / self._path)

    @property
    def address(self) -> str:
        """The channel's one name, whichever way it was written."""
        return f"delta:{self._path}"

    def require(self, answers: Answers) -> None:
        """Raises Refused where a table of others is there, or no Delta table can have such columns."""
        require_fit(answers)
        require_own(self._place(), answers)

    def prepare(self) -> str:
        """Which table is there, by its id in Delta."""
        with self._sending():
            self._root.mkdir(parents=True, exist_ok=True)
            return json.dumps({"table": table_id(self._place())})

    def send(self, message: Message, position: str | None) -> None:
        """Appends those of the message's rows that the table does not have."""
        with self._sending():
            append_answers(self._place(), message.answers, message.rows)

    def test(self, message: Message) -> str:
        """Looks whether a table can be there.  No row is added: it has answers only, and programs read them."""
        self.prepare()
        return "it can be written to; no row was added, since a table has answers only"

    def recover(self, position: str | None) -> Recovery:
        """Nothing is to be undone: the table knows what it has.  ``unknown`` where it is gone, or another one."""
        before = None if position is None else json.loads(position)["table"]
        with self._sending():
            return "undone" if before in (None, table_id(self._place())) else "unknown"

    def _place(self) -> Location:
        """The table's folder; raises Conflict where it cannot be a table's."""
        folder = self._root
        for part in self._path.parts:
            if (folder / "_delta_log").exists():
                raise Conflict("the path is inside of another Delta table", where=self.address)
            folder /= part
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise Conflict(
                    "the path goes through a symbolic link or something that is no folder",
                    where=self.address,
                    hint=f"Deliver to a table in real folders under {self._root}.",
                )
        if folder.exists() and not (folder / "_delta_log").exists() and os.listdir(folder):
            raise Conflict(
                "the folder has other files", where=self.address, hint="Deliver to a path where nothing is yet."
            )
        return self._table

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """What the table does not take, as the outbox is told of it."""
        try:
            yield
        except (Refused, StorageError) as error:
            raise DeliveryError(error.message, where=error.where or self.address, hint=error.hint) from error
        except OSError as error:
            raise DeliveryError(f"the table cannot be written: {error.strerror}", where=self.address) from error
