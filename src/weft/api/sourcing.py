"""What can be done with sources that keep no history, and with the tracked tables that record them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.arguments import AnyInstant, length, micros, renaming
from weft.api.weft_methods import WeftMethods
from weft.catalog.sources import SourceKind, SourceRecord, Stamps

if TYPE_CHECKING:
    from weft.algebra.schema import DataType
    from weft.execution.histories import History
    from weft.extraction.batches import Progress
    from weft.extraction.sources.correcting import Corrected
    from weft.extraction.sources.history import PastLoaded
    from weft.extraction.sources.source_lease import Polled


class Sourcing(WeftMethods):
    """The part of an open home that is about sources."""

    def add_source(
        self,
        name: str,
        kind: SourceKind,
        at: str | os.PathLike[str],
        key: str | Sequence[str],
        *,
        every: str | int = "10m",
        ts: Stamps | None = None,
        columns: Sequence[tuple[str, DataType | None]] | None = None,
        rename: str | Mapping[str, str] | None = None,
        table: str | None = None,
        slot: str | None = None,
        publication: str | None = None,
    ) -> SourceRecord:
        """Tracks a source as the table ``name``; nothing is recorded before the first poll.

        ``at`` is its path or URI, ``key`` the column, or the columns, that tell its rows apart, ``every`` how often
        ``run`` polls it, ``columns`` those that are taken, with their types or None (to be inferred), ``rename`` other
        names for columns of a file, a mapping or text as of the command, ``table`` the one in the source, where it has
        several.
        ``slot`` and ``publication`` are those of a PostgreSQL server whose changes are followed.  See
        ``extraction.sources.adding``.
        """
        from weft.extraction.sources.adding import add_source

        every_us = length(every)
        return add_source(
            self.opened,
            name,
            kind,
            os.fspath(at),
            [key] if isinstance(key, str) else key,
            every_us=every_us,
            stamps=ts,
            chosen=columns,
            rename=renaming(rename),
            table_of=table,
            slot=slot,
            publication=publication,
        )

    def poll_source(
        self,
        name: str,
        *,
        now: AnyInstant | None = None,
        evolve: bool = False,
        allow_empty: bool = False,
        bad_lines: bool = False,
        progress: Progress | None = None,
    ) -> Polled:
        """Records what has changed in a source since its last poll; see ``extraction.sources.polling``.

        ``now`` is for replay homes.  ``evolve`` takes columns that are new, ``allow_empty`` a source that is empty now;
        with ``bad_lines`` the lines of a feed that are no changes go to quarantine.
        """
        how: dict[str, Any] = {"evolve": evolve, "allow_empty": allow_empty, "bad_lines": bad_lines}
        return self.poll_feed(name, now=now, progress=progress, **how)[0]

    def poll_feed(
        self,
        name: str,
        *,
        now: AnyInstant | None = None,
        evolve: bool = False,
        allow_empty: bool = False,
        bad_lines: bool = False,
        progress: Progress | None = None,
    ) -> list[Polled]:
        """As ``poll_source``; after it what became of the other sources that follow the same feed of changes."""
        from weft.extraction.sources.polling import poll_feed
        from weft.extraction.sources.source_lease import Accepting

        at = None if now is None else micros(now)
        return poll_feed(self.opened, name, Accepting(evolve, allow_empty, bad_lines), now=at, progress=progress)

    def load_past(
        self,
        name: str,
        path: str | os.PathLike[str],
        ts_from: str,
        *,
        op: str | None = None,
        progress: Progress | None = None,
    ) -> PastLoaded:
        """Loads dated states, or with ``op`` dated changes, of a source; see ``extraction.sources.history``."""
        from weft.extraction.sources.history import load_history

        return load_history(self.opened, name, path, ts_from, op=op, progress=progress)

    def correct_source(
        self,
        name: str,
        key: Mapping[str, Any],
        begin: AnyInstant,
        end: AnyInstant,
        values: Mapping[str, Any] | None,
        *,
        now: AnyInstant | None = None,
    ) -> Corrected:
        """Corrects a past period [begin, end) of a tracked table: the row of ``key`` had ``values`` then.

        ``values`` None: there was no such row.  What was known before stays readable (``known`` of ``history``).
        ``now`` is for replay homes.  See ``extraction.sources.correcting``.
        """
        from weft.extraction.sources.correcting import Correction, correct

        given = Correction(key, micros(begin), micros(end), values)
        return correct(self.opened, name, given, now=None if now is None else micros(now))

    def history(
        self, name: str, *, where: str | None = None, known: AnyInstant | None = None, limit: int | None = None
    ) -> History:
        """The periods of a tracked table, those for which the SQL condition ``where`` holds, at most ``limit``.

        A view is maintained first.  ``known`` has them as they were known at an instant.  See ``execution.histories``.
        """
        from weft.execution.histories import history
        from weft.execution.temporal.refresh_views import refresh_named

        if known is None:
            refresh_named(self.opened, name)
        return history(self.opened, name, where, limit, None if known is None else micros(known))

    def sources(self) -> tuple[SourceRecord, ...]:
        """Every source, in the order in which their tables were made."""
        return self.opened.catalog.sources.all()

    def remove_source(self, name: str) -> tuple[SourceRecord, str | None]:
        """Forgets a source; its tracked table stays, with all that was recorded.

        A server that keeps its changes for the source need not any more; where it could not be told, the second part
        says so.  Raises NotFound, LeaseBusy.
        """
        from weft.extraction.sources.removing import remove_source

        return remove_source(self.opened, name)
