"""Manage temporal views: stored queries whose rows have the periods during which the rows are valid."""

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
    """The details of a view: its columns, the tables and views that it reads, and its ``readers``, by name.

    ``periods`` is the number of its current periods, ``open`` the number of periods without an end.  ``recorded`` is
    the number of rows in its history log, ``size`` the log's size in bytes.  ``auxiliaries`` are the auxiliary views
    that the view reads.
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
    """The methods of ``Weft`` that manage temporal views."""

    def add_view(self, name: str, sql: str, *, batched: bool = False) -> ViewRecord:
        """Create the temporal view that ``sql`` defines over the entire history of tracked tables and other views.

        Each poll that changed a table of the view refreshes the view at its end.  With ``batched``, only
        ``refresh_views`` and reading the view refresh it.  Raises SqlError, Refused, Conflict and LeaseBusy; see
        ``execution.temporal.adding``.
        """
        from weft.execution.temporal.adding import add_view

        return add_view(self.opened, name, sql, "batched" if batched else "eager")

    def warnings_of_view(self, name: str) -> tuple[str, ...]:
        """Return a warning for each part of a view that is probably unintended, with an alternative.

        Raises NotFound, PlanMismatch and StorageError.
        """
        from weft.execution.temporal.showing import running_totals

        return running_totals(self.opened.catalog, self.opened.catalog.views.named(name))

    def views(self) -> tuple[ViewRecord, ...]:
        """Return every view, after the views that it reads."""
        return self.opened.catalog.views.known()

    def show_view(self, name: str) -> ShownView:
        """Return the details of a view without refreshing it; raise NotFound or StorageError."""
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
        """Return an explanation of how Weft maintains a view; raise NotFound, PlanMismatch or StorageError."""
        from weft.execution.temporal.refresh_views import view_plan_of
        from weft.planning.view_plan_words import explained_view

        catalog = self.opened.catalog
        view, tables = catalog.views.named(name), catalog.tables.all()
        auxiliaries = [each for each in catalog.views.all() if each.auxiliary]
        names = {table.table_id: table.name for table in tables}
        called = {each.name: names[next(iter(each.reads))] for each in auxiliaries}
        explanation = explained_view(view_plan_of(view, tables), {each.name: each.sql for each in auxiliaries}, called)
        return replace(explanation, name=view.name, status=self._status_lines(view))

    def _status_lines(self, view: ViewRecord) -> tuple[str, ...]:
        from weft.execution.temporal.showing import storage_counts

        catalog = self.opened.catalog
        tables = {table.table_id: table for table in catalog.tables.all()}
        periods, still, _ = storage_counts(catalog, tables[view.table_id])
        when = (
            "a command reads or refreshes the view" if view.mode == "batched" else "a poll changes a table of the view"
        )
        last = "never so far" if view.tau is None else f"last at {format_instant(view.tau)}"
        size = f"The view has {periods:,} period{'s' * (periods != 1)}, {still:,} of them open."
        warnings = [f"WARNING: the last refresh of the view failed: {view.trouble}"] if view.trouble else []
        warnings += [f"WARNING: {each}" for each in self.warnings_of_view(view.name)]
        return (*warnings, size, f"Next due: the view is refreshed when {when}; {last}.")

    def refresh_views(self, names: str | Sequence[str] = (), *, now: AnyInstant | None = None) -> tuple[Refreshed, ...]:
        """Refresh the named views (by default all) and the views that they read; return the outcome of each refresh.

        ``now`` is by default the home's clock.  A view that was already refreshed at ``now`` does not change.  If a
        refresh fails, its outcome contains the error.  Raises NotFound, LeaseBusy, and ClockError if ``now`` is in the
        past or the home has the wall clock.
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
        """Raise ClockError if the home has the wall clock, or if a view was refreshed later than ``at``."""
        if self.opened.catalog.home().clock == "wall":
            raise ClockError("this home has the wall clock: views are refreshed as of now", hint="Omit --now.")
        for view in views:
            if view.tau is not None and view.tau > at:
                raise ClockError(
                    f"{view.name} was already refreshed at {format_instant(view.tau)}, which is later than "
                    f"{format_instant(at)}",
                    hint="A clock never goes back. To read an earlier state, use FOR SYSTEM_TIME AS OF.",
                )

    def keep_views(self, *, now: AnyInstant | None = None) -> tuple[Refreshed, ...]:
        """Refresh the eager views whose inputs have changed, as each poll does; raise the errors of ``refresh_views``.

        ``now`` is the instant of the polls, if the caller chose one.
        """
        from weft.execution.temporal.refresh_views import refresh_eager

        return refresh_eager(self.opened, now=None if now is None else micros(now))

    def current_views(self, sql: str, now: int | None) -> int:
        """Refresh the views that a query names, and return the instant at which to evaluate the query.

        The instant is ``now`` (microseconds UTC) if given, otherwise the home's clock.  Raises LeaseBusy, and the error
        of a failed refresh.
        """
        from weft.execution.temporal.refresh_views import refresh_up_to

        named = words(sql)
        views = [view for view in self.opened.catalog.views.known() if folded(view.name) in named]
        at = self.opened.now() if now is None else now
        return refresh_up_to(self.opened, views, at, exact=now is not None) if views else at

    def remove_view(self, name: str) -> ViewRecord:
        """Remove a view with its recorded periods; return its record.

        Raises NotFound, LeaseBusy, and Conflict if another view or a standing query reads the view.
        """
        from weft.execution.temporal.adding import remove_view

        return remove_view(self.opened, name)
