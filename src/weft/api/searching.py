"""Search the answers of all queries by their words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog import layout
from weft.catalog.records import QueryRecord
from weft.errors import StorageError
from weft.execution.home import OpenHome
from weft.printable import Brief, counted
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.arrangement.word_index import Hit, Indexed, WordIndex
    from weft.storage.delta_log import DataFile, DeltaSnapshot
    from weft.storage.table import Table

T = TypeVar("T")
_SECONDS: Final = 0.3
"""The time for which a search reads answers that are not in the index yet."""
_FEW: Final = 5_000
"""The number of answers that a search indexes at once if there is no index."""
_adding: Final[dict[Path, threading.Lock]] = {}
"""The lock of the thread that adds answers to the index in a folder.  Several threads would add the same answers."""


@dataclass(frozen=True)
class FoundAnswer:
    """An answer that contains the words of a search."""

    query: QueryRecord
    ordinal: int
    first_at: int
    text: str


@dataclass(frozen=True, repr=False)
class Found(Brief):
    """The answers that contain the words of a search, the newest first.

    ``more`` continues the search as ``before``, or is None at the end.  If ``complete`` is false, the index does not
    have the newest answers yet, and a later search finds more.
    """

    answers: tuple[FoundAnswer, ...]
    more: int | None
    complete: bool

    def _brief(self) -> str:
        return counted(len(self.answers), "answer") + ("" if self.complete else " so far")


class Searching(WeftMethods):
    """The methods of ``Weft`` that search."""

    @requires(Right.READ)
    def search(self, text: str, *, query_id: int | None = None, before: int | None = None, limit: int = 50) -> Found:
        """Return at most ``limit`` answers of one or all queries with words that begin as those of ``text``.

        The newest answers come first.  ``before`` continues an earlier search.  ``more`` does not depend on answers
        that the principal may not read.
        """
        seen = self.opened.seen()
        among = None if seen.seen_by is None else seen.catalog.queries.ids_read_by(*seen.seen_by)
        complete, hits = self._with_index(
            lambda index: (
                _catch_up(self.opened, index, quickly=True),
                index.search(text, before=before, query_id=query_id, among=among, limit=limit + 1),
            )
        )
        more = hits[limit - 1].place if len(hits) > limit else None
        return Found(tuple(self._live(hits[:limit])), more, complete)

    @requires(Right.ADMIN, logged=False)
    def index_answers(self) -> None:
        """Add the answers that are not in the index of ``search`` yet.  The first time, this reads the whole ledger."""
        self._with_index(lambda index: _catch_up(self.opened, index, quickly=False))

    def _with_index(self, use: Callable[[WordIndex], T]) -> T:
        """Build a damaged index again."""
        from weft.arrangement.run import ArrangementDamaged
        from weft.arrangement.word_index import WordIndex

        index = WordIndex(self.opened.folder / layout.SEARCH)
        try:
            return use(index)
        except ArrangementDamaged:
            index.begin_again()
            return use(index)

    def _live(self, hits: Iterable[Hit]) -> Iterator[FoundAnswer]:
        found = [hit.answer for hit in hits]
        records = self.opened.catalog.queries.by_ids({each.query_id for each in found})
        live = {query.query_id: query for query in self.opened.seen().among(records)}
        for each in found:
            query = live.get(each.query_id)
            if query is not None and query.state != "removed":
                yield FoundAnswer(query, each.ordinal, each.first_at, each.text)


def _catch_up(home: OpenHome, index: WordIndex, *, quickly: bool) -> bool:
    """Index the answers of later versions of the ledger.  Return whether the index has all answers.

    With ``quickly``, stop after ``_SECONDS``, read no large ledger for the first time, and do not wait for a thread
    that adds answers.
    """
    from weft.storage.table import Table

    ledger = Table(home.catalog.data / layout.LEDGER)
    if not ledger.exists() or index.version() == ledger.snapshot().version:
        return True
    lock = _adding.setdefault(index.folder, threading.Lock())
    if not lock.acquire(blocking=not quickly):
        return False
    try:
        return _add(ledger, index, quickly=quickly)
    finally:
        lock.release()


def _add(ledger: Table, index: WordIndex, *, quickly: bool) -> bool:
    snapshot, covered = ledger.snapshot(), index.version()
    if 0 <= covered < snapshot.version and _are_gone(ledger, covered, snapshot.version):
        index.begin_again()
        covered = -1
    if covered < 0:
        return not (quickly and (snapshot.rows or 0) > _FEW) and _build(ledger, snapshot, index)
    until = time.monotonic() + _SECONDS
    for version in range(covered + 1, snapshot.version + 1):
        if quickly and time.monotonic() > until:
            return False
        entry = ledger.entry(version)
        index.add(_answers(ledger, () if entry.removed else entry.added), version=version)
    return True


def _are_gone(ledger: Table, covered: int, last: int) -> bool:
    """Return whether a purge has removed answers, or the log has no entries of these versions."""
    try:
        return any(ledger.entry(version).removes_rows for version in range(covered + 1, last + 1))
    except StorageError:
        return True


def _build(ledger: Table, snapshot: DeltaSnapshot, index: WordIndex) -> bool:
    """Index file by file.  After an interruption, the next call continues with the next file."""
    done = index.files()
    for file in sorted(snapshot.files, key=lambda file: (file.least.get("tick", 0), file.name)):
        if file.name not in done:
            index.add(_answers(ledger, (file,)), file=file.name)
    index.add((), version=snapshot.version)
    return True


def _answers(ledger: Table, files: Iterable[DataFile]) -> Iterator[Indexed]:
    from weft.arrangement.word_index import Indexed
    from weft.storage.ledger import ledger_schema

    for batch in ledger.scan(ledger_schema("query_id", "ordinal", "first_at", "row"), files=tuple(files)):
        columns = (batch.column(name) for name in ("query_id", "ordinal", "first_at", "row"))
        query_ids, ordinals, instants, rows = columns
        lists = (query_ids.to_pylist(), ordinals.to_pylist(), instants.cast("int64").to_pylist(), rows.to_pylist())
        for query_id, ordinal, first_at, row in zip(*lists, strict=True):
            yield Indexed(query_id, ordinal, first_at, " ".join(value for value in row if value))
