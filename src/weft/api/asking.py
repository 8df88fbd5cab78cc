"""Asking queries of a home: at one instant, over a window, or only what they would do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.api.arguments import AnyInstant, micros
from weft.api.explaining import Known, explained
from weft.api.viewing import Viewing
from weft.catalog.naming import folded
from weft.catalog.records import FromMode
from weft.errors import Refused
from weft.instants import format_instant
from weft.planning.explain import Explanation
from weft.planning.how_many import why_no_answer
from weft.planning.plan import Plan, columns_of, plan, standing_plan
from weft.planning.synopsis_words import SynopsisExplanation
from weft.sql.ordering import order_of

if TYPE_CHECKING:
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest
    from weft.execution.forecast import Forecast
    from weft.execution.relations import Relation
    from weft.planning.view_plan_words import ViewExplanation


class Asking(Viewing):
    """The methods of a home that ask and explain queries."""

    def try_query(self, sql: str, *, now: AnyInstant | None = None, limit: int | None = 20) -> Answer:
        """Q(now): the answer as if the database were fixed, at most ``limit`` of its rows; now None: the home's clock.

        Views that the text names are maintained first.  Raises SqlError for what cannot stand, ExecutionError,
        StorageError.
        """
        compiled = plan(sql, self.opened.schemas(sql))
        at = self.current_views(sql, None if now is None else micros(now))
        from weft.execution.ad_hoc import ask

        known = self._read_by(compiled)
        order = order_of(sql, [name for name, _ in columns_of(compiled.query)])
        return ask(self.opened.session(), self.opened.catalog.data, known, compiled.query, at, limit, order)

    def backtest(
        self, sql: str, *, since: AnyInstant | None = None, until: AnyInstant | None = None, limit: int | None = 20
    ) -> Backtest:
        """What the query would have delivered, and when: the answers that begin in [since, until), at most ``limit`` of
        them, and how many there are over time.  Nothing is kept.

        ``since`` None: it stood from the start; else it was installed at that instant from now on: rows that were in
        its answer just before are no news.  ``until`` None: the home's clock.  Views that the text names are maintained
        first.  Raises SqlError for what cannot stand, Refused for a window without an instant, LimitExceeded,
        ExecutionError, StorageError.
        """
        begins = None if since is None else micros(since)
        compiled = standing_plan(sql, self.opened.schemas(sql), from_now=begins is not None)
        ends = self.current_views(sql, None if until is None else micros(until))
        if begins is not None and begins >= ends:
            asked = f"from {format_instant(begins)} to {format_instant(ends)}"
            raise Refused(
                f"there is no instant {asked}", hint="--from is the first instant, --to the one after the last."
            )
        from weft.execution.backtest import Window, backtest

        known = self._read_by(compiled)
        window = Window(begins, ends, self.opened.catalog.home().t0)
        found = backtest(self.opened.session(), self.opened.catalog.data, known, compiled, window, limit)
        if found.count:
            return found
        from weft.api.explaining_installed import extents

        held = extents(self.opened, {table.name: table for table in compiled.tables})
        return replace(found, nothing=why_no_answer(held, ends))

    def _read_by(self, compiled: Plan) -> dict[str, Relation]:
        """What a query reads as it is now; raises Refused where rows of it were discarded."""
        from weft.execution.relations import relations
        from weft.execution.synopsis.discarding import refuse_discarded

        refuse_discarded(self.opened.catalog, compiled.tables)
        return relations(self.opened.catalog, compiled.reads)

    def explain(self, sql: str, *, start: FromMode = "start") -> Explanation:
        """What the query would do when installed, ``brief`` in about ten lines; starts no Spark.  Raises SqlError."""
        from weft.api.explaining_installed import extents

        schemas = self.opened.schemas(sql)
        return explained(sql, Known(schemas, None, extents(self.opened, schemas)), from_now=start == "now")

    def explain_installed(self, name: str) -> Explanation | SynopsisExplanation | ViewExplanation:
        """The same of a standing query, as it runs, with its answers so far and when it is due next; or of a view.

        Raises NotFound, PlanMismatch where it fits its tables no more, StorageError.
        """
        from weft.api.explaining_installed import explained_query

        if self.opened.catalog.queries.among([name]) or folded(name) not in {
            folded(each.name) for each in self.views()
        }:
            return explained_query(self.opened, name)
        return self.explain_view(name)

    def explain_tick(self, name: str) -> Forecast:
        """What the query's next tick would read, and how, as things are now; starts no Spark and writes nothing.

        Raises NotFound, ClockError, PlanMismatch, StorageError.
        """
        from weft.execution.forecast import forecast

        return forecast(self.opened.catalog, name, self.opened.clock())
