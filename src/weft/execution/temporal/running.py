"""Run the computation of a refresh on the engine that suits the size of its input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from weft.catalog.records import TableRecord
from weft.catalog.views import ViewRecord
from weft.execution.driver_reader import count_text, rows_of
from weft.execution.engines import choosing
from weft.execution.engines.choosing import Choice, bounded, rows_after
from weft.execution.engines.duckdb import BeyondBounds, duckdb_engine
from weft.execution.engines.engine import Engine
from weft.execution.look_ups import LookUps
from weft.execution.spark_runner import on_spark
from weft.execution.temporal.computing import RefreshInput, ViewChange, view_change
from weft.planning.view_plan import ViewPlan
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DataFile
from weft.storage.periods import TS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refresh_choice(view: ViewRecord, names: Mapping[int, str], files: Mapping[int, tuple[DataFile, ...]]) -> Choice:
    """Choose the engine for the next refresh of a view, from the names and the files of the inputs by table ID.

    The first refresh reads the whole logs of the inputs, and a later one the rows since the last refresh. If these are
    a large part of the logs, recomputing the view costs less.
    """
    bounds, keys = choosing.BOUNDS, sorted(view.reads)
    every = [(names[key], rows_of(files[key])) for key in keys]
    if view.tau is None:
        return replace(bounded(every, bounds.history, "log row"), from_scratch=True)
    most = min(bounds.changes, bounds.again)
    news = _news(view, names, files, inf)
    if sum(rows for _, rows in news) > most:
        news = _news(view, names, files, -1)
    new, whole = (sum(rows for _, rows in parts) for parts in (news, every))
    large = whole < bounds.share * new or (bounds.changes < new and whole <= bounds.history)
    if bounds.again < new and large:
        choice = bounded(every, bounds.history, "log row")
        why = f"the view is recomputed, because {count_text(new, 'log row')} are new; {choice.why}"
        return replace(choice, why=why, from_scratch=True)
    return bounded(news, bounds.changes, "new log row")


def _news(
    view: ViewRecord, names: Mapping[int, str], files: Mapping[int, tuple[DataFile, ...]], most: float
) -> list[tuple[str, float]]:
    """Return the name and the number of new rows of each input, counted as by ``rows_after``."""
    return [(names[key], rows_after(files[key], TS, view.tau, most)) for key in sorted(view.reads)]


@dataclass(frozen=True)
class Computation:
    """The computation of one refresh.

    ``dated`` and ``form`` are as in ``view_change``.
    """

    view_plan: ViewPlan
    own: TableRecord
    reading: RefreshInput
    look_ups: LookUps
    dated: bool
    form: Callable[[], FileForm]

    def run(self, choice: Choice, session: Callable[[], SparkSession]) -> tuple[ViewChange | None, Choice]:
        """Return the change of the view, and the engine that computed the change.

        If the computation in this process exceeds the bounds, Spark repeats it. Raise StorageError or ExecutionError.
        """
        if choice.by == "driver":
            try:
                # Many small statements run faster on one thread.
                with duckdb_engine(2 if choice.from_scratch else 1, choosing.BOUNDS.steps) as engine:
                    return self._change(engine, self.look_ups, choice.from_scratch), choice
            except BeyondBounds as beyond:
                choice = replace(choice, by="Spark", why=beyond.why)
        rows = sum(map(rows_of, self.reading.files.values()))
        # A later refresh has many terms. Most of them need no computation, because one of their inputs is empty.
        compute = partial(self._change, look_ups=None, from_scratch=choice.from_scratch)
        return on_spark(session, compute, rows=rows, probing=not choice.from_scratch), choice

    def _change(self, engine: Engine, look_ups: LookUps | None, from_scratch: bool) -> ViewChange | None:
        return view_change(
            engine,
            self.view_plan,
            self.own,
            self.reading,
            look_ups,
            from_scratch=from_scratch,
            dated=self.dated,
            form=self.form,
        )
