"""Manage sources, and the tables that record the history of sources."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.api.acting import own_limits
from weft.api.arguments import AnyInstant, column_list, length, micros, renaming
from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceKind, SourceRecord, Stamps
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.algebra.schema import DataType
    from weft.execution.histories import History
    from weft.extraction.batches import Progress
    from weft.extraction.sources.correcting import Corrected
    from weft.extraction.sources.history import PastLoaded
    from weft.extraction.sources.source_lease import Polled


class Sourcing(WeftMethods):
    """The methods of ``Weft`` that manage sources."""

    @requires(Right.ADMIN)
    def add_source(
        self,
        name: str,
        kind: SourceKind,
        at: str | os.PathLike[str],
        key: str | Sequence[str] = (),
        *,
        every: str | int = "10m",
        ts: Stamps | None = None,
        columns: str | Sequence[tuple[str, DataType | None]] | None = None,
        rename: str | Mapping[str, str] | None = None,
        table: str | None = None,
        slot: str | None = None,
        publication: str | None = None,
    ) -> SourceRecord:
        """Track a source as the table ``name``, and return its record.  The first poll records the first rows.

        A source of mail (maildir, imap or nntp) appends new messages to a mail table and has no ``key``.

        ``at`` is the path or URI of the source.  ``key`` names the columns that identify the rows of the source.
        ``every`` is the interval at which ``run`` polls the source.  ``columns`` selects columns with their types, as
        text such as ``id INT, name`` or as pairs.  If a type is missing or None, Weft infers it.  ``rename`` is a
        mapping from old to new column names, or text as on the command line.  ``table`` selects a table if the source
        has several tables.  ``slot`` and ``publication`` are names on a PostgreSQL server.  See
        ``extraction.sources.adding`` for the kinds of sources and for the errors.
        """
        from weft.extraction.sources.adding import NewSource, add_source

        keys, place = [key] if isinstance(key, str) else key, os.fspath(at)
        names = (renaming(rename), table, slot, publication)
        chosen = column_list(columns) if isinstance(columns, str) else columns
        return add_source(self.opened, NewSource(name, kind, place, keys, length(every), ts, chosen, *names))

    @requires(Right.ADMIN, logged=False)
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
        """Record the changes of a source since its last poll, and return a summary.  See
        ``extraction.sources.polling``.

        Only replay homes allow ``now``.  With ``evolve``, the source may have new columns.  With ``allow_empty``, the
        source may be empty.  With ``bad_lines``, invalid lines of a feed go to the quarantine.
        """
        how: dict[str, Any] = {"evolve": evolve, "allow_empty": allow_empty, "bad_lines": bad_lines}
        return self.poll_feed(name, now=now, progress=progress, **how)[0]

    @requires(Right.ADMIN)
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
        """Poll a source and all other sources of its feed.  Return a result for each source.  See ``poll_source``."""
        from weft.extraction.sources.polling import poll_feed
        from weft.extraction.sources.source_lease import Accepting

        at = None if now is None else micros(now)
        return poll_feed(self.opened, name, Accepting(evolve, allow_empty, bad_lines), now=at, progress=progress)

    @requires(Right.ADMIN)
    def load_past(
        self,
        name: str,
        path: str | os.PathLike[str],
        ts_from: str,
        *,
        op: str | None = None,
        progress: Progress | None = None,
    ) -> PastLoaded:
        """Load past states of a source or, with ``op``, past changes.  See ``extraction.sources.history``."""
        from weft.extraction.sources.history import load_history

        return load_history(self.opened, name, path, ts_from, op=op, progress=progress)

    @requires(Right.ADMIN)
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

        If ``values`` is None, the row did not exist in the period.  The method ``history`` can still return the
        uncorrected periods: see its parameter ``known``.  Only replay homes allow ``now``.  See
        ``extraction.sources.correcting``.
        """
        from weft.extraction.sources.correcting import Correction, correct

        correction = Correction(key, micros(begin), micros(end), values)
        return correct(self.opened, name, correction, now=None if now is None else micros(now))

    @requires(Right.READ, table="name")
    def history(
        self,
        name: str,
        *,
        where: str | None = None,
        known: AnyInstant | None = None,
        held_at: AnyInstant | None = None,
        limit: int | None = None,
    ) -> History:
        """Return at most ``limit`` periods of a tracked table or view.  The SQL condition ``where`` selects the
        periods.

        Weft first refreshes the view.  If ``known`` is an instant, the result has the periods as recorded at that
        instant.  If ``held_at`` is one, the result has only the periods that contain it.  See ``execution.histories``.
        """
        from weft.execution.histories import history
        from weft.execution.temporal.refresh_views import refresh_named

        if known is None:
            refresh_named(self.opened, name)
        at, held = (None if each is None else micros(each) for each in (known, held_at))
        return history(self.opened, name, where, limit, at, held_at=held, allowed=own_limits(self.opened))

    @requires(Right.ADMIN, logged=False)
    def sources(self) -> tuple[SourceRecord, ...]:
        """Return all sources in the order in which their tables were created."""
        return self.opened.catalog.sources.all()

    @requires(Right.ADMIN, logged=False)
    def source(self, name: str) -> tuple[SourceRecord, TableRecord]:
        """Return a source and its table.  Raise NotFound."""
        catalog = self.opened.catalog
        source = catalog.sources.named(name)
        return source, catalog.tables.by_id(source.table_id)

    @requires(Right.ADMIN)
    def remove_source(self, name: str) -> tuple[SourceRecord, str | None]:
        """Remove a source and return its record.  The tracked table and its periods remain.

        Weft also drops the replication slot on the server if no other source uses the slot.  The second result is the
        reason why Weft could not drop the slot, or None.  Raises NotFound or LeaseBusy.
        """
        from weft.extraction.sources.adding import remove_source

        return remove_source(self.opened, name)
