"""The class ``Weft``, whose methods offer every operation of the command line."""

from __future__ import annotations

import copy
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
from weft.api.accounts import Accounts
from weft.api.arguments import AnyInstant, micros, texts
from weft.api.asking import Asking
from weft.api.browsing import Browsing
from weft.api.delivering import Delivering
from weft.api.dialects import in_dialect
from weft.api.health import Maintaining
from weft.api.loading import Loading, Tabling
from weft.api.requirements import requires
from weft.api.results import Results
from weft.api.saving import Saving
from weft.api.searching import Searching
from weft.api.sourcing import Sourcing
from weft.api.standing import Keep, NewQuery, Shown
from weft.catalog import Catalog, Writer, layout, open_catalog
from weft.catalog.address import CatalogAddress
from weft.catalog.records import Choice, Clock, FromMode, QueryRecord
from weft.configuration import configuration
from weft.errors import ClockError, Conflict, LeaseBusy, NotFound, WeftError
from weft.execution.home import LEASE_WAIT_US, OpenHome
from weft.instants import format_instant
from weft.planning.stored_synopsis import Language
from weft.printable import counted, one_line
from weft.rights.principal import Principal, Right
from weft.schedule.clock import now_us
from weft.store import local_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.api.portable.changes import Change
    from weft.api.portable.folder import Exported
    from weft.delivery.outbox import Delivered
    from weft.execution.maintenance import Step
    from weft.execution.replacement_preview import Replacement
    from weft.extraction.sources.source_lease import Polled
    from weft.schedule.runner import Stop
    from weft.schedule.ticking import Ticked

_DELIVERY_WAIT_US = 10 * 1_000_000
"""The time for which a tick waits while another process delivers."""

AnyPath = str | os.PathLike[str]


def _log_trouble(error: WeftError) -> None:
    logging.getLogger("weft").warning("%s; trying again", error)


class Weft(Asking, Browsing, Delivering, Maintaining, Loading, Saving, Searching, Sourcing, Tabling):
    """An open home.  Call ``close`` after use, or use a ``with`` block.

    Spark starts at the first operation that needs Spark, such as ``try_query`` or a tick with new rows.  All homes of a
    process share one JVM, but each home has its own Spark session.
    """

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        clock: Clock | None = None,
        create: bool = False,
        catalog: str | None = None,
        store: str | None = None,
        wall: Callable[[], int] | None = None,
    ) -> Weft:
        """Open the home in the folder ``home``.  With ``create``, create a missing home.

        ``home`` is a path or a ``file:///`` URI.  The default of ``home`` is the variable WEFT_HOME or, without this
        variable, ``weft-home``.  ``clock`` is the clock of a new home (default: ``wall``).  An existing home must have
        the same clock.  ``catalog`` is the URL of the PostgreSQL database for the catalog of a new home.  ``store`` is
        the place on S3 for its data, such as ``s3://bucket/home``.  The function ``wall`` returns the time in
        microseconds UTC.  By default, it is the clock of the catalog's server, or of this machine if the catalog has no
        server.

        Raises NotFound if the home does not exist.  Raises Refused for a URI with another scheme, and for invalid
        settings.  Raises Conflict if the home has another clock or another catalog.  Raises CatalogError if the home is
        damaged, if the home belongs to another version of Weft, or if the server of the catalog cannot be reached.
        """
        # Use an absolute path because the working directory of Spark's JVM never changes.
        folder = Path(local_store(configuration().home if home is None else home).path)
        if not (create or layout.is_begun_copy(folder) or layout.is_begun_destruction(folder)) and not (
            (there := CatalogAddress.of(folder)).is_noted or layout.has_data(there.data)
        ):
            raise NotFound(
                f"{folder} is not a Weft home",
                hint=(
                    "Create the home with `weft init`, or in Python with Weft.open(…, create=True), or name "
                    "another folder."
                ),
            )
        machine = wall or now_us
        opened = open_catalog(folder, create=create, clock=clock or "wall", at=machine(), url=catalog, store=store)
        try:
            actual = opened.home().clock
        except BaseException:
            opened.close()
            raise
        if clock is not None and actual != clock:
            opened.close()
            raise Conflict(
                f"{folder} is already a home, with the {actual} clock",
                hint="A home's clock cannot be changed; choose another folder.",
            )
        return cls(OpenHome(folder, opened, wall or opened.clock or machine))

    @property
    def accounts(self) -> Accounts:
        """The users, groups, rights, passwords and tokens of the home."""
        return Accounts(self.opened)

    @requires(Right.ADMIN, logged=False)
    def acting_as(self, principal: Principal) -> Weft:
        """Return the same open home on behalf of a principal: it shows and does only what she may see and do.

        Both share the catalog, the Spark session and ``close``.  ``accounts`` finds the principal of a session or a
        token.
        """
        other = copy.copy(self)
        other._home = replace(self.opened, principal=principal)
        return other

    @property
    def home(self) -> Path:
        """The folder of the home, also available after ``close``."""
        return self._home.folder

    @property
    def home_id(self) -> str:
        """The ID of the home, which never changes."""
        return self.opened.catalog.home().home_id

    @property
    def catalog(self) -> Catalog:
        """The home's catalog, with everything in it.  Raise NotAllowed if the principal is no administrator."""
        self.opened.seen().require(Right.ADMIN)
        return self.opened.catalog

    @property
    def clock(self) -> Callable[[], int]:
        """A function that returns the wall clock's time in microseconds UTC: see ``open``."""
        return self.opened.clock

    def __repr__(self) -> str:
        if self.closed:
            return f"<closed home {self._home.folder}>"
        if not self._home.principal.is_owner:
            return f"<home {self._home.folder}, for {self._home.principal.name or 'a visitor'}>"
        try:
            tables, queries = len(self.catalog.tables.known()), sum(self.catalog.queries.counts().values())
            clock = self.catalog.home().clock
        except WeftError as error:
            return f"<home {self._home.folder}: {one_line(error.message, 80)}>"
        has = f"{counted(tables, 'table')}, {counted(queries, 'query', 'queries')}"
        return f"<home {self._home.folder}, {clock} clock: {has}>"

    @requires(Right.ADMIN, logged=False)
    def session(self) -> SparkSession:
        """Return the Spark session of this home.  The first call in a process takes 5 to 15 seconds.

        Raises ExecutionError.
        """
        return self.opened.session()

    @requires(Right.READ)
    def schemas(self, *texts: str) -> Mapping[str, TableSchema]:
        """Return the schemas of the home's tables, and of the results that the queries ``texts`` read."""
        return self.opened.schemas(*texts)

    @requires(Right.ADMIN, logged=False)
    def writing(self, purpose: str) -> AbstractContextManager[Writer]:
        """Complete or undo the work of dead writers, and hold the write lease during a ``with`` block.  Raise
        LeaseBusy.
        """
        return self.opened.writing(purpose)

    @requires(Right.INSTALL)
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
        dialect: str | None = None,
        replace: bool = False,
        text_since: int | None = None,
    ) -> QueryRecord:
        """Install a standing query, and return its record.

        ``every`` is the interval between ticks: text such as ``10m``, or microseconds.  ``to`` is one channel or
        several channels.  The channel ``"cursor"`` means that Weft sends no messages.  ``digest`` and ``zone`` apply to
        the channels, as in ``subscribe``.  With ``start="start"``, the query first delivers the answers of the whole
        history.  With ``start="now"``, the query delivers only rows that enter its result from now on.  The settings
        of the home contain the defaults of ``user``, ``every``, ``start`` and ``to``.

        ``dialect`` is the dialect of ``sql``, if it is not Spark's: postgres, duckdb, snowflake, bigquery or tsql.
        Weft stores the translation, with the original as a comment.  Raises SqlError if a part of the query means
        something else in Spark's dialect.

        With ``keep="synopsis"``, Weft stores only a synopsis: the part of the past that the query needs.  Ticks
        maintain the synopsis without Spark.  Raises SynopsisError if the query has no synopsis.  Without
        ``allow_unbounded``, also raises SynopsisError if the synopsis is unbounded.  For a formula in another
        ``language``, Weft uses a synopsis even without ``keep``.  If a 2fol formula has no synopsis, Weft evaluates the
        formula over the stored history.  With ``duplicates``, the answers of a 2fol formula have counts.  With
        ``discard_history``, Weft deletes rows after all synopses have processed the rows.

        With ``replace``, ``sql`` replaces the text of an existing query.  The query keeps its answers, its channels and
        the values of all omitted parameters.  Afterwards, Weft delivers only answers that it has not delivered before.
        Without ``start``, the new text begins at the same instant as the old one.  Raises NotFound.  Raises Conflict if
        the columns differ, or if ``text_since`` is given and the query no longer has the text of this instant:
        ``QueryRecord.text_since``.

        Raises SqlError or FormulaError if Weft does not support the query.  Raises Conflict if the name is in use.
        Raises Refused for an invalid channel or interval.
        """
        options = (keep, language, allow_unbounded, discard_history, duplicates, digest, zone, dialect)
        install = replace_query.replace if replace else standing.install
        return install(self.opened, NewQuery(name, sql, user, every, start, texts(to), *options, text_since=text_since))

    @requires(Right.OWN, query="name", logged=False)
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
        dialect: str | None = None,
    ) -> Replacement:
        """Predict the effects of ``install`` with ``replace`` and an immediate tick.  Change nothing.

        The result counts the new answers, the delivered answers, and the answers that only the old text gives.  Weft
        first refreshes the views that the query reads.  Raises the same errors as ``install``.  Also raises
        LimitExceeded, ExecutionError and StorageError.
        """
        self.opened.seen().require(Right.INSTALL)
        options = (keep, language, allow_unbounded, discard_history, duplicates, digest, zone)
        with in_dialect(sql, dialect, self.opened.schemas, stored=True, language=language) as text:
            query = NewQuery(name, text, user, every, start, texts(to), *options)
            return replace_query.replacement(self.opened, query, lambda: self.current_views(text, None))

    @requires(Right.INSTALL)
    def install_all(self, queries: Iterable[NewQuery]) -> tuple[QueryRecord, ...]:
        """Install many queries, and return their records in the same order.

        A transaction installs up to 1,000 queries.  An error does not undo earlier transactions.  Raises the same
        errors as ``install``.  The attribute ``where`` of an error names the query.
        """
        return standing.install_all(self.opened, queries)

    @requires(Right.ADMIN)
    def export(self, folder: str | os.PathLike[str], *, prune: bool = False) -> Exported:
        """Write the queries, channels, views, sources, saved queries, users and rights as text files into a folder.

        ``apply`` reads such a folder.  The files contain no secrets: in the address of a webhook, a variable replaces
        the path.  A file that would not change is not written.  With ``prune``, Weft deletes the files of all others.
        Raises Refused if a file cannot be written.  Raises PlanMismatch if a synopsis no longer fits its tables.
        """
        from weft.api.portable.described import described
        from weft.api.portable.folder import write_folder

        return write_folder(Path(folder), described(self.opened), prune=prune)

    @requires(Right.ADMIN)
    def apply(
        self,
        folder: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        prune: bool = False,
        secrets: Mapping[str, str] | None = None,
        planned: Callable[[tuple[Change, ...]], None] = lambda _: None,
    ) -> tuple[Change, ...]:
        """Change the home so that it has the definitions in a folder, and return the changes.

        Weft first reads all files, compiles all texts and reads the new sources.  Then it calls ``planned`` with the
        changes, and carries them out, unless ``dry_run``.  A changed text of a query is replaced as ``install`` does
        with ``replace``.  With ``prune``, Weft removes objects that are not in the folder: queries, views, sources,
        saved queries, users and groups.  Otherwise they stay.  ``secrets`` maps the variables in the addresses of
        webhooks to their values.

        Raises Refused with the refusals of all files, before anything changes.  If a change fails later, the changes
        before it remain, and the next ``apply`` continues.
        """
        from weft.api.portable.changes import planned_changes

        changes = planned_changes(self.opened, Path(folder), secrets or {}, prune=prune)
        planned(changes)
        for change in changes if not dry_run else ():
            change.carry_out()
        return changes

    @requires(Right.READ)
    def queries(self, *, after: int = 0, limit: int | None = None) -> tuple[QueryRecord, ...]:
        """Return at most ``limit`` installed queries with IDs above ``after``, in the order of the IDs."""
        return self.opened.seen().queries(after=after, limit=limit)

    @requires(Right.READ, query="name")
    def show(self, name: str, ticks: int = 5) -> Shown:
        """Return the details of a query and at most ``ticks`` of its latest ticks.  Raise NotFound."""
        return standing.show(self.opened, name, ticks)

    @requires(Right.READ, query="name")
    def results(self, name: str, *, after: int | None = None, limit: int | None = None) -> Results:
        """Return at most ``limit`` answers of a query.  The ordinals of the answers are above ``after``.  Raise
        NotFound.

        Iterate over the result, or convert it to a table.  The query's ORDER BY determines the order of the answers.
        If ``after`` is given or the query has no ORDER BY, the answers are in the order of their ordinals.  The result
        does not include later answers.  Weft reads the answers on demand, without Spark.
        """
        catalog = self.opened.catalog
        query = self.opened.seen().query(name)
        given = (catalog.data, catalog.queries, catalog.ticks, query, after, limit)
        return Results(*given, lambda: self.opened.session())

    @requires(Right.OWN, query="name")
    def pause(self, name: str) -> QueryRecord:
        """Exclude a query from ticks until ``resume``.  Raise NotFound.  Raise Conflict if the query is not active."""
        return standing.pause(self.opened, name)

    @requires(Right.OWN, query="name")
    def resume(self, name: str, *, skip: bool = False) -> QueryRecord:
        """Resume a paused or failed query, and retry its failed channels at once.

        The query continues after its last tick.  With ``skip``, the query omits all answers that started before the
        home's current instant.  Raises NotFound.  Raises Conflict if neither the query nor a channel was stopped.
        Raises PlanMismatch if ``skip`` is true and the query no longer fits its tables.
        """
        return standing.resume(self.opened, name, skip=skip)

    @requires(Right.OWN, query="name")
    def remove(self, name: str, *, purge: bool = False, now: bool = False) -> QueryRecord:
        """Remove a query.  With ``purge``, also delete its answers.  Afterwards, the name can be used again.

        Raises NotFound.  Raises Conflict if other queries read the results of the query.
        """
        return standing.remove(self.opened, name, purge=purge, now=now)

    @requires(Right.ADMIN)
    def tick(self, names: str | Sequence[str] = (), *, now: AnyInstant | None = None) -> Ticked:
        """Tick the named queries (default: all active ones) and the queries that they read, and deliver the answers.

        The default of ``now`` is the time of the home's clock.  Only replay homes allow another instant.  Spark starts
        only if the tick needs Spark.  The field ``delivered`` of the result is None if another process holds the
        delivery lease.  Raises Conflict if a named query is not active.  Also raises ClockError, NotFound, LeaseBusy,
        StorageError and ExecutionError.
        """
        from weft.schedule.ticking import bring_up_to_date, tick

        t = None if now is None else micros(now)
        self._check_clock(t)
        chosen = tuple(self._active(name).query_id for name in texts(names))
        bring_up_to_date(self.opened, t)
        ticked = tick(self.opened, Choice(chosen or None), t=t, wait_us=LEASE_WAIT_US)
        try:
            return replace(ticked, delivered=tuple(self._deliver(_DELIVERY_WAIT_US)))
        except LeaseBusy:
            return replace(ticked, delivered=None)

    @requires(Right.ADMIN)
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
        """Tick the queries at their intervals until ``stop`` is set.  See ``schedule.runner``.

        Without ``stop``, SIGINT (Ctrl-C, or Interrupt in a notebook) or SIGTERM ends the method after the current tick.
        A second SIGINT raises KeyboardInterrupt immediately.  Signals reach only the main thread, so other threads must
        pass a ``stop``.

        The method calls ``ticked``, ``delivered``, ``maintained`` and ``polled`` after the events of the same names.  A
        separate thread calls ``delivered``.  The function ``troubled`` receives each error that leads to a retry.  By
        default, ``troubled`` logs the error to the logger ``weft``.
        """
        from weft.schedule.runner import PACE_US, Runner, stopped_by_signals

        pace = PACE_US if pace_us is None else pace_us
        runner = Runner(self.opened, ticked, delivered, troubled, maintained, polled, pace)
        with nullcontext(stop) if stop is not None else stopped_by_signals() as stopping:
            runner.run(stopping)

    @requires(Right.ADMIN)
    def deliver(self) -> list[Delivered]:
        """Deliver the waiting answers without starting Spark, and return the deliveries.  Raise LeaseBusy."""
        return self._deliver(LEASE_WAIT_US)

    @requires(Right.READ)
    def time_driven(self, queries: Iterable[QueryRecord]) -> Mapping[int, bool | None]:
        """Map each query ID to True, False or None.

        A value is True if time alone can add rows to the result of the query, or of a query that it reads.  A value is
        None if the query, or a query that it reads, no longer fits its tables.
        """
        return standing.time_driven(self.opened, self.opened.seen().among(queries))

    def __enter__(self) -> Weft:
        _ = self.opened  # raises HomeClosed
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _deliver(self, wait_us: int) -> list[Delivered]:
        from weft.delivery.outbox import deliver

        home = self.opened
        return deliver(home.catalog, home.folder, home.clock(), clock=home.clock, wait_us=wait_us)

    def _active(self, name: str) -> QueryRecord:
        query = self.catalog.queries.named(name)
        if query.state != "active":
            raise Conflict(f"{query.name} is {query.state}", hint=f"Resume the query with `weft resume {query.name}`.")
        return query

    def _check_clock(self, t: int | None) -> None:
        home = self.catalog.home()
        if t is None:
            return
        if t < home.watermark:
            raise ClockError(
                f"{format_instant(t)} is before {format_instant(home.watermark)}, the home's last tick",
                hint="A clock never goes back: tick at a later instant.",
            )
        if home.clock == "wall" and t > self.clock():
            raise ClockError(
                f"{format_instant(t)} is in the future, and this home has the wall clock",
                hint="Only a home made with `weft init --clock replay` can be ticked at an instant of your choice.",
            )
