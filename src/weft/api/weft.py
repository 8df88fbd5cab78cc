"""``Weft``: everything that the command line does with a home, as methods of one object."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from weft.algebra.schema import TableSchema
from weft.api import replace_query, standing
from weft.api.arguments import AnyInstant, micros, texts
from weft.api.asking import Asking
from weft.api.delivering import Delivering
from weft.api.keeping import Keeping
from weft.api.loading import Loading
from weft.api.results import Results
from weft.api.sourcing import Sourcing
from weft.api.standing import Keep, NewQuery, Shown
from weft.api.tabling import Tabling
from weft.catalog import Catalog, Writer, layout, open_catalog
from weft.catalog.records import Choice, Clock, FromMode, QueryRecord
from weft.configuration import configuration
from weft.errors import ClockError, Conflict, LeaseBusy, NotFound, WeftError
from weft.execution.home import LEASE_WAIT_US, OpenHome
from weft.instants import format_instant
from weft.location import Location
from weft.planning.synopsis_plan import Language
from weft.printable import counted, one_line
from weft.schedule.clock import now_us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.delivery.outbox import Delivered
    from weft.execution.maintenance import Step
    from weft.execution.replacement_preview import Replacement
    from weft.extraction.sources.source_lease import Polled
    from weft.schedule.runner import Stop
    from weft.schedule.ticking import Ticked

_DELIVERY_WAIT_US = 10 * 1_000_000
"""How long a tick waits for another one's deliveries before it leaves its own to the next."""

AnyPath = str | os.PathLike[str]


def _log_trouble(error: WeftError) -> None:
    """Logs what failed and will be tried again."""
    logging.getLogger("weft").warning("%s; trying again", error)


class Weft(Asking, Delivering, Keeping, Loading, Sourcing, Tabling):
    """A home and everything that can be done with it; close it, or use it as a context manager.

    Spark starts with the first operation that computes (``try_query``, a tick with something to do); the JVM is
    this process's one, the session (temporary views, settings) this home's.
    """

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        clock: Clock | None = None,
        create: bool = False,
        wall: Callable[[], int] = now_us,
    ) -> Weft:
        """Opens the home in the folder ``home`` (or ``file:///`` URI; None: that of the variable WEFT_HOME, else
        ``weft-home``); with ``create`` it is made where there is none.

        ``clock`` is that of a new home (None: wall); of one that exists it must be the same, else Conflict.  ``wall``
        tells the time in microseconds UTC.  Raises Refused for a URI of another kind, NotFound where there is no home
        and none is to be made, CatalogError for one that is damaged or of a newer Weft.
        """
        # Absolute: Spark's JVM stays in the folder in which it was started.
        folder = Path(Location.of(configuration().home if home is None else home).path)
        existed = layout.catalog_file(folder).exists()
        if not (existed or create or layout.has_data(folder)):
            raise NotFound(
                f"{folder} is not a Weft home",
                hint="Make one with `weft init`, from Python with Weft.open(…, create=True), or name another.",
            )
        catalog = open_catalog(folder, create=create, clock=clock or "wall", at=wall())
        try:
            found = catalog.home().clock
        except BaseException:
            catalog.close()
            raise
        if existed and clock is not None and found != clock:
            catalog.close()
            raise Conflict(
                f"{folder} is a home already, and its clock is {found}",
                hint="A home's clock is fixed; choose another folder.",
            )
        return cls(OpenHome(folder, catalog, wall))

    @property
    def home(self) -> Path:
        """The home's folder, which is known when it is closed, too."""
        return self._home.folder

    @property
    def catalog(self) -> Catalog:
        """What the home knows about itself."""
        return self.opened.catalog

    @property
    def clock(self) -> Callable[[], int]:
        """The wall's clock, in microseconds UTC."""
        return self.opened.clock

    def __repr__(self) -> str:
        if self.closed:
            return f"<closed home {self._home.folder}>"
        try:
            tables, queries = len(self.catalog.tables.known()), sum(self.catalog.queries.counts().values())
            clock = self.catalog.home().clock
        except WeftError as error:
            return f"<home {self._home.folder}: {one_line(error.message, 80)}>"
        has = f"{counted(tables, 'table')}, {counted(queries, 'query', 'queries')}"
        return f"<home {self._home.folder}, {clock} clock: {has}>"

    def session(self) -> SparkSession:
        """This home's Spark session; a process's first call takes 5 to 15 seconds.  Raises ExecutionError."""
        return self.opened.session()

    def schemas(self, *texts: str) -> Mapping[str, TableSchema]:
        """The home's tables as queries see them, by name, and the results that the queries ``texts`` may name."""
        return self.opened.schemas(*texts)

    def writing(self, purpose: str) -> AbstractContextManager[Writer]:
        """Holds the lease to write, what dead writers left behind being settled; raises LeaseBusy."""
        return self.opened.writing(purpose)

    def install(
        self,
        name: str,
        sql: str,
        *,
        user: str | None = None,
        every: str | int | None = None,
        start: FromMode | None = None,
        to: str | Sequence[str] = (),
        keep: Keep = "history",
        language: Language = "sql",
        allow_unbounded: bool = False,
        discard_history: bool = False,
        duplicates: bool = False,
        digest: str | None = None,
        zone: str | None = None,
        replace: bool = False,
    ) -> QueryRecord:
        """Leaves a query standing.  ``every`` is text such as ``10m``, or microseconds; ``to`` is a channel or several.

        ``user``, ``every``, ``start`` and ``to`` are the settings' where they are not given;
        ``to="cursor"`` is no channel.  ``digest`` and ``zone`` of the channels are as in ``subscribe``.

        ``keep="synopsis"`` finds its answers from the least of the past that they need, kept by ticks, without Spark;
        raises SynopsisError where that cannot be, or has no bound and that is not allowed.  A formula, in another
        ``language``, is always kept so, but one of 2fol that has no synopsis, which is asked of the kept history;
        with ``duplicates`` its answers are counted.  With ``discard_history`` rows go once they are taken in.

        From ``start`` it delivers the whole history's answers first, from ``now`` only rows that enter the answer from
        the home's present instant on.  Raises SqlError, Conflict, Refused for channels or lengths that cannot be.

        With ``replace`` the text takes the place of that of the query ``name``, which keeps its answers, its channels,
        and what is not given here; what it has not delivered yet of what the new text gives, it delivers.  ``start``
        None: the new text stands from where the old one stood.  Raises NotFound, Conflict where the columns are others.
        """
        kept = (keep, language, allow_unbounded, discard_history, duplicates, digest, zone)
        given = NewQuery(name, sql, user, every, start, texts(to), *kept)
        return replace_query.replace(self.opened, given) if replace else standing.install(self.opened, given)

    def replacement(
        self,
        name: str,
        sql: str,
        *,
        user: str | None = None,
        every: str | int | None = None,
        start: FromMode | None = None,
        to: str | Sequence[str] = (),
        keep: Keep = "history",
        language: Language = "sql",
        allow_unbounded: bool = False,
        discard_history: bool = False,
        duplicates: bool = False,
        digest: str | None = None,
        zone: str | None = None,
    ) -> Replacement:
        """What ``install`` with ``replace`` would come to, were it ticked now: how many answers would be new, how many
        known, and how many only the old text gave.  Nothing is changed; views that the text names are maintained first.

        Raises as ``install``, LimitExceeded, ExecutionError, StorageError.
        """
        kept = (keep, language, allow_unbounded, discard_history, duplicates, digest, zone)
        given = NewQuery(name, sql, user, every, start, texts(to), *kept)
        return replace_query.replacement(self.opened, given, lambda: self.current_views(sql, None))

    def install_all(self, queries: Iterable[NewQuery]) -> tuple[QueryRecord, ...]:
        """Leaves many queries standing, a thousand of them, or none of these, in one transaction; in their order.

        Raises as ``install``, the query's name being in the error's ``where``; the thousands before it then stand.
        """
        return standing.install_all(self.opened, queries)

    def queries(self, *, after: int = 0, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """The installed queries in the order of their ids, those with an id above ``after``, at most ``limit``."""
        return self.catalog.queries.all(after=after, limit=limit)

    def show(self, name: str, ticks: int = 5) -> Shown:
        """One query in full; raises NotFound."""
        return standing.show(self.opened, name, ticks)

    def results(self, name: str, *, after: int | None = None, limit: int | None = None) -> Results:
        """The query's answers of an ordinal above ``after``: iterate over them, or take them as a table.

        They come in the order of the query's ORDER BY; with ``after``, and without ORDER BY, in the order of their
        ordinals.  They are those that there are now, read when they are asked for, without Spark.  Raises NotFound.
        """
        query = self.catalog.queries.named(name)
        return Results(self.catalog.data, self.catalog.queries, query, after, limit, lambda: self.opened.session())

    def pause(self, name: str) -> QueryRecord:
        """Leaves a query out of ticks until it is resumed; raises NotFound, Conflict where it is not active."""
        return standing.pause(self.opened, name)

    def resume(self, name: str, *, skip: bool = False) -> QueryRecord:
        """Lets a query that was paused or failed go on, and has its channels that failed tried again at once.

        It goes on where it stopped; with ``skip`` as if it were installed from now on at the home's present instant:
        what was an answer before, or became one in between, is left out.  Raises NotFound, Conflict where nothing of it
        was stopped, PlanMismatch with ``skip`` where it fits the tables no more.
        """
        return standing.resume(self.opened, name, skip=skip)

    def remove(self, name: str, *, purge: bool = False) -> QueryRecord:
        """Removes a query, its name being free again; with ``purge`` its answers, too.

        Raises NotFound, Conflict where other queries read its results.
        """
        return standing.remove(self.opened, name, purge=purge)

    def tick(self, names: str | Sequence[str] = (), *, now: AnyInstant | None = None) -> Ticked:
        """One tick of the named queries and those that they read (none: all that are active), then their deliveries.

        ``now`` None is the home's clock; another instant is for replay homes.  Starts Spark only where there is
        something to compute.  Raises ClockError, NotFound, Conflict for a named query that is not active, LeaseBusy,
        StorageError, ExecutionError.
        """
        from weft.schedule.ticking import tick

        t = None if now is None else micros(now)
        self._check_clock(t)
        wanted = tuple(self._active(name).query_id for name in texts(names))
        done = tick(self.opened, Choice(wanted or None), t=t, wait_us=LEASE_WAIT_US)
        try:
            return replace(done, delivered=tuple(self._deliver(_DELIVERY_WAIT_US)))
        except LeaseBusy:
            return replace(done, delivered=None)

    def run(
        self,
        stop: Stop | None = None,
        *,
        ticked: Callable[[Ticked], None] = lambda _: None,
        delivered: Callable[[list[Delivered]], None] = lambda _: None,
        troubled: Callable[[WeftError], None] = _log_trouble,
        maintained: Callable[[Step], None] = lambda _: None,
        polled: Callable[[Polled], None] = lambda _: None,
        pace_us: int | None = None,
    ) -> None:
        """Ticks by timeliness until ``stop`` is wished; see ``schedule.runner``.  ``delivered`` is called in another
        thread.

        ``stop`` None: until SIGINT (Ctrl-C, or a notebook's Interrupt) or SIGTERM, after the tick that is under way; a
        second SIGINT raises KeyboardInterrupt at once.  In a thread that is not the main one no signal arrives: give
        it a ``stop``.  What fails and is tried again goes to ``troubled``, by default to the logger ``weft``.
        """
        from weft.schedule.runner import PACE_US, Runner, stopped_by_signals

        pace = PACE_US if pace_us is None else pace_us
        runner = Runner(self.opened, ticked, delivered, troubled, maintained, polled, pace)
        with nullcontext(stop) if stop is not None else stopped_by_signals() as wished:
            runner.run(wished)

    def deliver(self) -> list[Delivered]:
        """Sends what waits to the channels; raises LeaseBusy.  Starts no Spark."""
        return self._deliver(LEASE_WAIT_US)

    def time_driven(self, queries: Iterable[QueryRecord]) -> Mapping[int, bool | None]:
        """By id, whether time alone can add rows to the query or to one that it reads; None: one fits its tables no
        more."""
        return standing.time_driven(self.opened, queries)

    def __enter__(self) -> Weft:
        _ = self.opened  # a closed one is not entered
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _deliver(self, wait_us: int) -> list[Delivered]:
        from weft.delivery.outbox import deliver

        return deliver(self.catalog, self.home, self.clock(), clock=self.clock, wait_us=wait_us)

    def _active(self, name: str) -> QueryRecord:
        query = self.catalog.queries.named(name)
        if query.state != "active":
            raise Conflict(f"{query.name} is {query.state}", hint=f"`weft resume {query.name}` lets it go on.")
        return query

    def _check_clock(self, t: int | None) -> None:
        home = self.catalog.home()
        if t is None:
            return
        if t < home.watermark:
            raise ClockError(
                f"this home has gone on to {format_instant(home.watermark)}, and {format_instant(t)} is before it",
                hint="A clock never goes back: tick at a later instant.",
            )
        if home.clock == "wall" and t > self.clock():
            raise ClockError(
                f"{format_instant(t)} is in the future, and this home's clock is the wall's",
                hint="Only a home made with `weft init --clock replay` is ticked at an instant of your choice.",
            )
