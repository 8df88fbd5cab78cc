"""Ask ad hoc queries, backtest them over a window, and explain them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.api.acting import own_limits
from weft.api.arguments import AnyInstant, micros
from weft.api.dialects import in_dialect
from weft.api.requirements import requires
from weft.api.viewing import Viewing
from weft.catalog.naming import folded
from weft.catalog.records import FromMode
from weft.errors import Refused
from weft.instants import format_instant
from weft.rights.principal import Right

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from weft.api.explaining import Known
    from weft.execution.ad_hoc import Answer
    from weft.execution.backtest import Backtest
    from weft.execution.relations import Relation
    from weft.execution.ticks.forecast import Forecast
    from weft.execution.why import Why
    from weft.planning.explain import Explanation
    from weft.planning.plan import Plan
    from weft.planning.plan_tree import PlanNode
    from weft.planning.synopsis_words import SynopsisExplanation
    from weft.planning.view_plan_words import ViewExplanation


class Asking(Viewing):
    """The methods of ``Weft`` that ask and explain queries."""

    @requires(Right.INSTALL, logged=False)
    def try_query(
        self, sql: str, *, now: AnyInstant | None = None, limit: int | None = 20, dialect: str | None = None
    ) -> Answer:
        """Run the query ``sql`` at the instant ``now``, and return at most ``limit`` rows.  ``dialect`` is as for
        ``install``.

        The default of ``now`` is the time of the home's clock.  Weft first refreshes the views that the query reads.
        Raises SqlError if Weft does not support the query.  Also raises ExecutionError and StorageError.
        """
        given = None if now is None else micros(now)
        with in_dialect(sql, dialect, self.opened.schemas) as text:
            return self._tried(text, given, limit)

    def _tried(self, sql: str, given: int | None, limit: int | None) -> Answer:
        from weft.execution.ad_hoc import ask
        from weft.planning.plan import columns_of, plan
        from weft.runtime.cancelling import cancellable
        from weft.sql.lower.ordering import order_of

        home = self.opened
        compiled = plan(sql, self.opened.schemas(sql))
        with cancellable(home.session) as session:
            at = self.current_views(sql, given)
            known = self._read_by(compiled)
            order = order_of(sql, [name for name, _ in columns_of(compiled.query)])
            return ask(session, home.catalog, known, compiled, at, limit, order, allowed=own_limits(home))

    @requires(Right.INSTALL, logged=False)
    def backtest(
        self,
        sql: str,
        *,
        since: AnyInstant | None = None,
        until: AnyInstant | None = None,
        limit: int | None = 20,
        dialect: str | None = None,
    ) -> Backtest:
        """Return the answers that a standing query would have delivered in [``since``, ``until``), with their times.

        The result contains at most ``limit`` answers, but counts all answers.  The method stores nothing.  Without
        ``since``, the query begins with the earliest rows.  With ``since``, the query omits rows that were already in
        its result at ``since``.  The default of ``until`` is the time of the home's clock.  Weft first refreshes the
        views that the query reads.  ``dialect`` is as for ``install``.

        Raises SqlError if Weft does not support the query.  Raises Refused if the window is empty.  Also raises
        LimitExceeded, ExecutionError and StorageError.
        """
        from weft.planning.plan import standing_plan

        begins = None if since is None else micros(since)
        given = None if until is None else micros(until)
        from weft.runtime.cancelling import cancellable

        with in_dialect(sql, dialect, self.opened.schemas) as text:
            compiled = standing_plan(text, self.opened.schemas(text), from_now=begins is not None)
            _require_period(begins, self.opened.now() if given is None else given)
            with cancellable(self.opened.session) as session:
                return self._backtested(session, compiled, begins, self.current_views(text, given), limit)

    def _backtested(
        self, session: Callable[[], SparkSession], compiled: Plan, begins: int | None, ends: int, limit: int | None
    ) -> Backtest:
        from weft.api.explaining import extents
        from weft.execution.backtest import BacktestWindow, backtest
        from weft.planning.how_many import why_no_answer

        known = self._read_by(compiled)
        window = BacktestWindow(begins, ends, self.opened.catalog.home().t0)
        home = self.opened
        answers = backtest(session, home.catalog, known, compiled, window, limit, allowed=own_limits(home))
        if answers.count:
            return answers
        sizes = extents(self.opened.catalog, {table.name: table for table in compiled.tables})
        return replace(answers, nothing=why_no_answer(sizes, ends))

    def _read_by(self, compiled: Plan) -> dict[str, Relation]:
        from weft.catalog.discarded import discarded_tables, refuse_discarded
        from weft.execution.relations import relations

        refuse_discarded(discarded_tables(self.opened.catalog), compiled.tables)
        return relations(self.opened.catalog, compiled.reads)

    @requires(Right.INSTALL, logged=False)
    def explain(self, sql: str, *, start: FromMode = "start", dialect: str | None = None) -> Explanation:
        """Explain how Weft would evaluate a query after its installation.  The method does not start Spark.

        ``start`` and ``dialect`` have the same meaning as in ``install``.  The field ``brief`` of the explanation has
        about ten lines.  Raises SqlError.
        """
        from weft.api.explaining import explain_query

        with in_dialect(sql, dialect, self.opened.schemas) as text:
            return explain_query(text, self.known(text), from_now=start == "now")

    @requires(Right.INSTALL, logged=False)
    def known(self, sql: str) -> Known:
        """Return the tables and results that the query ``sql`` may read, with their sizes."""
        from weft.api.explaining import Known, extents

        schemas = self.opened.schemas(sql)
        return Known(schemas, None, extents(self.opened.catalog, schemas))

    @requires(Right.READ)
    def explain_installed(self, name: str) -> Explanation | SynopsisExplanation | ViewExplanation:
        """Return an explanation of a standing query or a view.

        The explanation of a query includes the number of answers and the time of the next tick.  Raises NotFound or
        StorageError.  Raises PlanMismatch if the query no longer fits its tables.
        """
        from weft.api.explaining_installed import explain_installed

        seen = self.opened.seen()
        if not seen.shows_query(name) and folded(name) in {folded(each.name) for each in seen.views()}:
            return self.explain_view(name)
        return explain_installed(self.opened, seen.query(name).name)

    @requires(Right.READ, query="name")
    def plan_tree(self, name: str) -> PlanNode:
        """Return the operators of a standing query as a tree, the last one first.

        Raises NotFound.  Raises PlanMismatch if the query no longer fits its tables.
        """
        from weft.api.explaining_installed import tree_of

        return tree_of(self.opened, name)

    @requires(Right.READ, query="name")
    def why(self, name: str, ordinal: int) -> Why:
        """Explain why an answer of a standing query appeared at its first instant.

        The result names the driver (the row that began or ended, or the threshold that NOW reached), the rows that it
        joined, and the conditions that no row satisfied.  Raises NotFound if the query or the answer does not exist.
        Raises PlanMismatch for a formula.  Also raises ExecutionError and StorageError.
        """
        from weft.api.why import why
        from weft.runtime.cancelling import cancellable

        with cancellable(self.opened.session) as session:
            return why(self.opened, session, name, ordinal)

    @requires(Right.OWN, query="name", logged=False)
    def explain_tick(self, name: str) -> Forecast:
        """Predict which data the next tick of the query would read.

        The method does not start Spark and writes nothing.  Raises NotFound, ClockError, PlanMismatch or StorageError.
        """
        from weft.execution.ticks.forecast import forecast

        return forecast(self.opened.catalog, name, self.opened.clock())


def _require_period(begins: int | None, ends: int) -> None:
    if begins is not None and begins >= ends:
        raise Refused(
            f"the window from {format_instant(begins)} to {format_instant(ends)} is empty",
            hint="Choose --from before --to. The window contains the instant --from, but not the instant --to.",
        )
