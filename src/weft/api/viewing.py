"""Manage temporal views: stored queries whose rows have periods of validity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.api.arguments import AnyInstant, micros, texts
from weft.api.requirements import requires
from weft.api.weft_methods import WeftMethods
from weft.catalog.naming import folded, words
from weft.catalog.views import ViewRecord, readers
from weft.errors import ClockError
from weft.instants import format_instant
from weft.printable import Brief, counted
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.algebra.schema import DataType
    from weft.execution.engines.choosing import Choice
    from weft.execution.temporal.refresh_views import Refreshed
    from weft.execution.temporal.showing import ShownAuxiliary
    from weft.planning.view_plan_words import ViewExplanation


@dataclass(frozen=True, repr=False)
class ShownView(Brief):
    """The columns of a view, the tables and views that it reads, and the names of its ``readers``.

    Names that the principal may not see are left out.

    ``periods`` is the number of current periods.  ``open`` is the number of periods without an end.  ``recorded`` is
    the number of rows in the history log, and ``size`` is the size of the log in bytes.  ``auxiliaries`` are the
    auxiliary views that the view reads.  ``next_refreshes`` has the engines of the next refresh, each with the subject
    of a sentence about it.
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
    next_refreshes: tuple[tuple[str, Choice], ...]

    def _brief(self) -> str:
        return f"{self.view._brief()}; {counted(self.periods, 'period')}"


class Viewing(WeftMethods):
    """The methods of ``Weft`` that manage temporal views."""

    @requires(Right.ADMIN)
    def add_view(self, name: str, sql: str, *, batched: bool = False) -> ViewRecord:
        """Create a temporal view over tracked tables and other views.  The query ``sql`` defines the view.

        A poll that changes a table of the view also refreshes the view.  With ``batched``, Weft refreshes the view only
        in ``refresh_views`` and before each read.  Raises SqlError, Refused, Conflict or LeaseBusy: see
        ``execution.temporal.adding``.
        """
        from weft.execution.temporal.adding import add_view

        return add_view(self.opened, name, sql, "batched" if batched else "eager")

    @requires(Right.READ, view="name")
    def warnings_of_view(self, name: str) -> tuple[str, ...]:
        """Return warnings about probable mistakes in a view.  Each warning suggests an alternative.

        Raises NotFound, PlanMismatch or StorageError.
        """
        from weft.execution.temporal.showing import running_totals

        return running_totals(self.opened.catalog, self.opened.catalog.views.named(name))

    @requires(Right.READ)
    def views(self) -> tuple[ViewRecord, ...]:
        """Return all views.  In this list, a view comes after the views that it reads."""
        return self.opened.seen().views()

    @requires(Right.READ, view="name")
    def show_view(self, name: str) -> ShownView:
        """Return the details of a view without refreshing it.  Raise NotFound or StorageError."""
        from weft.execution.temporal.showing import auxiliaries_of, input_names, next_refreshes, storage_counts

        catalog = self.opened.catalog
        views, tables = catalog.views.all(), {table.table_id: table for table in catalog.tables.all()}
        view = catalog.views.named(name)
        table = tables[view.table_id]
        periods, still, size = storage_counts(catalog, table)
        seen = self.opened.seen()
        names = {each.name for each in seen.tables()}
        return ShownView(
            view=view,
            columns=tuple((c.name, c.type) for c in table.schema.columns if c.name not in ("valid_from", "valid_to")),
            reads=tuple(
                name for name in input_names(view, {each.table_id: each for each in views}, tables) if name in names
            ),
            readers=tuple(each.name for each in readers(views, view.table_id) if each.name in names),
            auxiliaries=auxiliaries_of(catalog, view),
            periods=periods,
            open=still,
            recorded=table.rows,
            size=size,
            next_refreshes=next_refreshes(catalog, view),
        )

    @requires(Right.READ, view="name")
    def explain_view(self, name: str) -> ViewExplanation:
        """Explain how Weft maintains a view.  Raise NotFound, PlanMismatch or StorageError."""
        from weft.execution.temporal.refresh_views import view_plan_of
        from weft.planning.view_plan_words import explained_view

        catalog = self.opened.catalog
        view, tables = catalog.views.named(name), catalog.tables.all()
        auxiliaries = [each for each in catalog.views.all() if each.auxiliary]
        names = {table.table_id: table.name for table in tables}
        called = {each.name: names[next(iter(each.reads))] for each in auxiliaries}
        own = next(table.schema for table in tables if table.table_id == view.table_id)
        parts = {each.name: each.sql for each in auxiliaries}
        explanation = explained_view(view_plan_of(view, tables), parts, called, own)
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

    @requires(Right.READ, view="names")
    def refresh_views(self, names: str | Sequence[str] = (), *, now: AnyInstant | None = None) -> tuple[Refreshed, ...]:
        """Refresh the named views (default: all) and the views that they read.  Return the outcome of each refresh.

        The default of ``now`` is the time of the home's clock.  A second refresh at the same ``now`` changes nothing.
        The outcome of a failed refresh contains the error.  Raises NotFound or LeaseBusy.  Raises ClockError if the
        home has the wall clock or if ``now`` is in the past.
        """
        from weft.execution.temporal.refresh_views import refresh_views

        named = texts(names)
        known = self.opened.catalog.views
        wanted = [known.named(name) for name in named] if named else self.opened.seen().views()
        at = None if now is None else micros(now)
        if at is not None:
            self._check_instant(at, wanted)
        return refresh_views(self.opened, [view.table_id for view in wanted], now=at)

    def _check_instant(self, at: int, views: Sequence[ViewRecord]) -> None:
        if self.opened.catalog.home().clock == "wall":
            raise ClockError("this home has the wall clock: views are refreshed as of now", hint="Omit --now.")
        for view in views:
            if view.tau is not None and view.tau > at:
                raise ClockError(
                    f"{view.name} was already refreshed at {format_instant(view.tau)}, which is later than "
                    f"{format_instant(at)}",
                    hint="A clock never goes back. To read an earlier state, use FOR SYSTEM_TIME AS OF.",
                )

    @requires(Right.ADMIN, logged=False)
    def keep_views(self, *, now: AnyInstant | None = None) -> tuple[Refreshed, ...]:
        """Refresh the eager views with changed inputs, as each poll does.  Raise the same errors as
        ``refresh_views``.
        """
        from weft.execution.temporal.refresh_views import refresh_eager

        return refresh_eager(self.opened, now=None if now is None else micros(now))

    @requires(Right.INSTALL, logged=False)
    def current_views(self, sql: str, now: int | None) -> int:
        """Refresh the views that a query reads, and return the instant at which to evaluate the query.

        The instant is ``now`` (microseconds UTC), or the time of the home's clock if ``now`` is None.  Raises LeaseBusy
        and the error of a failed refresh.
        """
        from weft.execution.temporal.refresh_views import refresh_up_to

        named = words(sql)
        views = [view for view in self.opened.seen().views() if folded(view.name) in named]
        at = self.opened.now() if now is None else now
        return refresh_up_to(self.opened, views, at, exact=now is not None) if views else at

    @requires(Right.ADMIN)
    def remove_view(self, name: str) -> ViewRecord:
        """Remove a view with its recorded periods.  Return its record.

        Raises NotFound or LeaseBusy.  Raises Conflict if another view or a standing query reads the view.
        """
        from weft.execution.temporal.adding import remove_view

        return remove_view(self.opened, name)
