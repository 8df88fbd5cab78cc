"""What can be done with temporal views: kept queries whose answers come with the periods during which they held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.api.arguments import AnyInstant, micros, texts
from weft.api.weft_methods import WeftMethods
from weft.catalog.naming import folded, words
from weft.catalog.views import ViewRecord, readers
from weft.errors import ClockError
from weft.instants import format_instant
from weft.printable import Brief, counted

if TYPE_CHECKING:
    from weft.algebra.schema import DataType
    from weft.execution.temporal.refresh_views import Refreshed
    from weft.execution.temporal.showing import ShownAuxiliary
    from weft.planning.view_plan_words import ViewExplanation


@dataclass(frozen=True, repr=False)
class ShownView(Brief):
    """A view in full: its columns, the names of what it ``reads`` and of the views that read it (``readers``).

    ``periods`` counts those that it has now and ``open`` those of them that are open; ``recorded`` counts the rows of
    its log, which has ``size`` bytes.  ``auxiliaries`` are the auxiliary views that it is over.
    """

    view: ViewRecord
    columns: tuple[tuple[str, DataType], ...]
    reads: tuple[str, ...]
    readers: tuple[str, ...]
    auxiliaries: tuple[ShownAuxiliary, ...]
    periods: int
    open: int
    recorded: int
    size: int

    def _brief(self) -> str:
        return f"{self.view._brief()}; {counted(self.periods, 'period')}"


class Viewing(WeftMethods):
    """The part of an open home that is about temporal views."""

    def add_view(self, name: str, sql: str, *, batched: bool = False) -> ViewRecord:
        """Keeps the temporal view that ``sql`` defines over tracked tables and other views, from their whole history.

        It is maintained at the end of each poll that changed what it reads, or, ``batched``, when it is read or
        refreshed.  Raises SqlError, Refused, Conflict, LeaseBusy; see ``execution.temporal.adding``.
        """
        from weft.execution.temporal.adding import add_view

        return add_view(self.opened, name, sql, "batched" if batched else "eager")

    def warnings_of_view(self, name: str) -> tuple[str, ...]:
        """What is probably not meant in a view, and what to write instead.

        Raises NotFound, PlanMismatch, StorageError.
        """
        from weft.execution.temporal.unending import running_totals

        return running_totals(self.opened.catalog, self.opened.catalog.views.named(name))

    def views(self) -> tuple[ViewRecord, ...]:
        """Every view, each after all that it reads."""
        return self.opened.catalog.views.known()

    def show_view(self, name: str) -> ShownView:
        """One view in full, as it is kept; raises NotFound, StorageError."""
        from weft.execution.temporal.showing import auxiliaries_of, input_names, storage_counts

        catalog = self.opened.catalog
        views, tables = catalog.views.all(), {table.table_id: table for table in catalog.tables.all()}
        view = catalog.views.named(name)
        table = tables[view.table_id]
        periods, still, size = storage_counts(catalog, table)
        return ShownView(
            view=view,
            columns=tuple((c.name, c.type) for c in table.schema.columns if c.name not in ("valid_from", "valid_to")),
            reads=input_names(view, {each.table_id: each for each in views}, tables),
            readers=tuple(each.name for each in readers(views, view.table_id)),
            auxiliaries=auxiliaries_of(catalog, view),
            periods=periods,
            open=still,
            recorded=table.rows,
            size=size,
        )

    def explain_view(self, name: str) -> ViewExplanation:
        """How a view is maintained; computes nothing.  Raises NotFound, PlanMismatch, StorageError."""
        from weft.execution.temporal.refresh_views import view_plan_of
        from weft.planning.view_plan_words import explained_view

        catalog = self.opened.catalog
        view, tables = catalog.views.named(name), catalog.tables.all()
        auxiliaries = [each for each in catalog.views.all() if each.auxiliary]
        names = {table.table_id: table.name for table in tables}
        called = {each.name: names[next(iter(each.reads))] for each in auxiliaries}
        found = explained_view(view_plan_of(view, tables), {each.name: each.sql for each in auxiliaries}, called)
        return replace(found, name=view.name, kept=self._kept(view))

    def _kept(self, view: ViewRecord) -> tuple[str, ...]:
        """How much is kept of a view, and when it is maintained, in words."""
        from weft.execution.temporal.showing import storage_counts

        catalog = self.opened.catalog
        tables = {table.table_id: table for table in catalog.tables.all()}
        periods, still, _ = storage_counts(catalog, tables[view.table_id])
        when = "it is read or refreshed" if view.mode == "batched" else "a poll has changed what it reads"
        last = "it was not yet" if view.tau is None else f"last at {format_instant(view.tau)}"
        told = f"It has {periods:,} period{'s' * (periods != 1)}, {still:,} of them open."
        trouble = [f"WARNING: its last maintenance failed: {view.trouble}"] if view.trouble else []
        trouble += [f"WARNING: {each}" for each in self.warnings_of_view(view.name)]
        return (*trouble, told, f"Next due: it is maintained when {when}; {last}.")

    def refresh_views(self, names: str | Sequence[str] = (), *, now: AnyInstant | None = None) -> tuple[Refreshed, ...]:
        """Maintains views (none named: all) and what they read; now None: at the home's clock.

        What failed is told in each outcome; a view that was maintained at ``now`` is left as it is.  Raises NotFound,
        ClockError for a ``now`` that is past or on a home with the wall's clock, LeaseBusy.
        """
        from weft.execution.temporal.refresh_views import refresh_views

        named = texts(names)
        known = self.opened.catalog.views
        wanted = [known.named(name) for name in named] if named else known.known()
        at = None if now is None else micros(now)
        if at is not None:
            self._check_instant(at, wanted)
        return refresh_views(self.opened, [view.table_id for view in wanted], now=at)

    def _check_instant(self, at: int, views: Sequence[ViewRecord]) -> None:
        """Raises ClockError where the home's clock is not told, or a view was maintained later than ``at``."""
        if self.opened.catalog.home().clock == "wall":
            raise ClockError("this home's clock is the wall's: views are maintained as of now", hint="Leave --now out.")
        for view in views:
            if view.tau is not None and view.tau > at:
                raise ClockError(
                    f"{view.name} was maintained at {format_instant(view.tau)}, and {format_instant(at)} is before it",
                    hint="A clock never goes back. What held then is read by FOR SYSTEM_TIME AS OF.",
                )

    def keep_views(self, *, now: AnyInstant | None = None) -> tuple[Refreshed, ...]:
        """Maintains the eager views that are behind what they read, as after every poll; raises as ``refresh_views``.

        ``now`` is the instant of the polls, where they were told one.
        """
        from weft.execution.temporal.eager_views import refresh_eager

        return refresh_eager(self.opened, now=None if now is None else micros(now))

    def current_views(self, sql: str, now: int | None) -> int:
        """Maintains the views that a text names, for it to be asked at ``now`` (µs UTC; None: the home's clock).

        The instant at which it is to be asked.  Raises what a view's maintenance failed with, LeaseBusy.
        """
        from weft.execution.temporal.refresh_views import refresh_up_to

        named = words(sql)
        views = [view for view in self.opened.catalog.views.known() if folded(view.name) in named]
        at = self.opened.now() if now is None else now
        return refresh_up_to(self.opened, views, at, exact=now is not None) if views else at

    def remove_view(self, name: str) -> ViewRecord:
        """Takes a view away with all that was recorded of it.

        Raises NotFound, Conflict where another view or a standing query reads it, LeaseBusy.
        """
        from weft.execution.temporal.adding import remove_view

        return remove_view(self.opened, name)
