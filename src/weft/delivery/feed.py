"""Deliver to an Atom feed: ``feed:NAME`` keeps the newest answers in ``NAME.atom`` below the root folder of files.

The page serves the file at ``/feeds/NAME.atom`` to those who may read the query.  Without a server, a feed reader reads
the file.  A message replaces the whole file in one step.  A repeated message replaces its own entries, so it has no
effect.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

from weft.configuration import configuration
from weft.delivery.atom import FeedHead, entry_of, feed, feed_urn, read_feed
from weft.delivery.channel import DOUBLING, Message, Recovery
from weft.errors import Conflict, DeliveryError, Refused
from weft.failpoint import failpoint
from weft.storage.ledger import Answers

KEPT: Final = 100
"""The maximum number of answers in the file."""
_NAME: Final = re.compile(r"[\w-][\w.-]{0,99}")


class FeedChannel:
    """The file ``NAME.atom`` below the folder ``root``.  It belongs to one query."""

    shown_rows: Final = None
    server: Final = None
    schedule: Final = DOUBLING
    person: Final = None

    def __init__(self, name: str, home: Path, root: Path) -> None:
        if not _NAME.fullmatch(name):
            raise Refused(
                f"{name!r} is not the name of a feed",
                hint="Write feed:NAME, with letters, digits and _ - . in NAME.",
            )
        self._name, self._home, self._root = name, home, root

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return f"feed:{self._name}"

    @property
    def file(self) -> Path:
        """The file with the feed."""
        return self._root / f"{self._name}.atom"

    def require(self, answers: Answers) -> None:
        """Raise Conflict if the file is the feed of another query or home."""
        try:
            urn, _ = self._read()
        except DeliveryError as error:
            raise Conflict(error.message, where=error.where, hint=error.hint) from error
        if urn is not None and urn != feed_urn(answers):
            raise self._taken()

    def prepare(self) -> None:
        """Return no position, because a repeated message has no effect."""

    def send(self, message: Message, position: str | None) -> None:
        """Replace the file with one that also has the answers of the message."""
        urn, entries = self._read()
        if urn is not None and urn != feed_urn(message.answers):
            raise self._taken()
        about, rows = message.about, message.rows[-KEPT:]
        base = configuration(self._home).web_url
        address = None if base is None else f"{base}/feeds/{self._name}.atom"
        head = FeedHead(message.answers, about.sql, about.user, rows[-1].first_at, base, address)
        entries |= {row.ordinal: entry_of(head, row) for row in rows}
        newest = sorted(entries, reverse=True)[:KEPT]
        self._replace(feed(head, (entries[ordinal] for ordinal in newest)))

    def content(self, head: FeedHead) -> bytes:
        """Return the feed, without entries if no answer was delivered yet.  ``head`` is that of an empty feed."""
        try:
            return self.file.read_bytes()
        except FileNotFoundError:
            return feed(head, ())
        except OSError as error:
            raise self._unreadable(error) from None

    def test(self, message: Message) -> str:
        """Check that the file can be written.  Add no entry, because a feed contains answers only."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from None
        if not os.access(self._root, os.W_OK):
            raise DeliveryError(f"the folder {self._root} cannot be written", where=self.address)
        return "the feed can be written; no test entry was added, because the feed contains answers only"

    def recover(self, position: str | None) -> Recovery:
        """Return ``undone``, because the feed ignores a repetition."""
        return "undone"

    def _read(self) -> tuple[str | None, dict[int, Element]]:
        """Return the id and the entries of the file, or None without entries for a missing file."""
        try:
            return read_feed(self.file.read_bytes())
        except FileNotFoundError:
            return None, {}
        except OSError as error:
            raise self._unreadable(error) from None
        except ValueError as error:
            raise DeliveryError(
                f"{self.file} is not a feed of Weft: {error}", where=self.address, hint="Move the file away."
            ) from None

    def _replace(self, content: bytes) -> None:
        made = self.file.with_name(f".{self.file.name}.new")
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                made.unlink()
            with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            failpoint("feed.written")
            made.replace(self.file)
            failpoint("feed.renamed")
            folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._unwritable(error) from None

    def _taken(self) -> Conflict:
        return Conflict(
            f"{self.file} is the feed of another query",
            where=self.address,
            hint="Move the file away, or choose another name.",
        )

    def _unreadable(self, error: OSError) -> DeliveryError:
        return DeliveryError(f"the feed cannot be read: {error.strerror}", where=self.address)

    def _unwritable(self, error: OSError) -> DeliveryError:
        return DeliveryError(f"the feed cannot be written: {error.strerror}", where=self.address)
