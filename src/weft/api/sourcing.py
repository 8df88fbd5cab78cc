"""Manage sources that do not store their history, and the tracked tables that record it."""

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
    """The methods of ``Weft`` that manage sources."""

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
        """Track a source as the table ``name``, and return its record; the first poll records the first rows.

        ``at`` is the path or URI of the source, and ``key`` the column or columns that identify its rows.  ``run``
        polls the source at the interval ``every``.  ``columns`` selects columns, each with its type or None to infer
        the type. ``rename`` renames columns of a file: a mapping, or text as on the command line.  ``table`` is the
        table in the source, if the source has several.  ``slot`` and ``publication`` are names on a PostgreSQL server.
        See ``extraction.sources.adding`` for the kinds and the errors.
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
        """Record the changes of a source since its last poll, and return a summary; see ``extraction.sources.polling``.

        Only replay homes allow ``now``.  ``evolve`` accepts new columns, ``allow_empty`` accepts an empty source, and
        ``bad_lines`` quarantines the lines of a feed that are not changes.
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
        """Poll a source and all other sources of the same feed as ``poll_source`` does; return a result for each."""
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
        """Load dated states of a source or, with ``op``, dated changes; see ``extraction.sources.history``."""
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
        """Correct a tracked table: the row with ``key`` had ``values`` in the past period [``begin``, ``end``).

        If ``values`` is None, the row did not exist in the period.  ``history`` with its parameter ``known`` still
        returns the uncorrected periods.  Only replay homes allow ``now``.  See ``extraction.sources.correcting``.
        """
        from weft.extraction.sources.correcting import Correction, correct

        correction = Correction(key, micros(begin), micros(end), values)
        return correct(self.opened, name, correction, now=None if now is None else micros(now))

    def history(
        self, name: str, *, where: str | None = None, known: AnyInstant | None = None, limit: int | None = None
    ) -> History:
        """Return at most ``limit`` periods of a tracked table or view that satisfy the SQL condition ``where``.

        A view is refreshed first.  With ``known`` the result has the periods as recorded at that instant.  See
        ``execution.histories``.
        """
        from weft.execution.histories import history
        from weft.execution.temporal.refresh_views import refresh_named

        if known is None:
            refresh_named(self.opened, name)
        return history(self.opened, name, where, limit, None if known is None else micros(known))

    def sources(self) -> tuple[SourceRecord, ...]:
        """Return every source, in the order in which the tracked tables were created."""
        return self.opened.catalog.sources.all()

    def remove_source(self, name: str) -> tuple[SourceRecord, str | None]:
        """Remove a source and return its record; its tracked table stays, with all recorded periods.

        Weft also drops the source's replication slot on the server, unless another source uses the slot.  The second
        part of the result is the reason if this failed, otherwise None.  Raises NotFound and LeaseBusy.
        """
        from weft.extraction.sources.adding import remove_source

        return remove_source(self.opened, name)
