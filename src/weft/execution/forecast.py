"""What the next tick of one query would read, and how, as things are now (``weft explain --tick``); no Spark.

What is chosen here is what the tick chooses, by the same code.  Nothing is written: an arrangement that is behind is
told as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.algebra.access import Access, DeltaScan, Lookup
from weft.catalog import CatalogParts, layout
from weft.catalog.records import QueryRecord
from weft.errors import Refused
from weft.execution import driver_reader, due
from weft.execution.answers import columns_by_table
from weft.execution.choice import readings
from weft.execution.driver_reader import DriverReader
from weft.execution.groups import Member, compiled, grouped, tau_of
from weft.execution.known import known_answers
from weft.execution.look_ups import ANSWER, LookUps
from weft.execution.reader import files_of, held, stored_files
from weft.execution.relations import relations
from weft.execution.tick import tick_instant
from weft.execution.windows import slices_of
from weft.instants import MIN_INSTANT, format_instant
from weft.planning.plan import Branch, Plan
from weft.planning.synopsis_plan import is_synopsis
from weft.planning.words import length
from weft.printable import Brief, counted
from weft.storage.delta_log import DeltaSnapshot

Way = Literal["nothing", "rows", "files"]
"""What Spark is given: it is not asked at all; rows of the driver's memory, in one job; files to read."""


@dataclass(frozen=True)
class RelationRead:
    """One relation: its name in the SQL of branches, what it is in words, ``by`` what and ``how`` it is read.

    ``rows`` is how many the driver has of it (None: it is Spark's, or not known before the tick).
    """

    view: str
    what: str
    by: str
    how: str
    rows: int | None


@dataclass(frozen=True, repr=False)
class Forecast(Brief):
    """The next tick of ``query``, over [tau, t) (microseconds UTC; tau None: its first).

    ``known`` says how the answers that it has already are found.  ``quiet`` says why nothing is to be done (None: there
    is something).  ``lower`` are the queries that it reads, which are run first.
    """

    query: QueryRecord
    tau: int | None
    t: int
    relations: tuple[RelationRead, ...]
    known: RelationRead
    way: Way
    quiet: str | None
    lower: tuple[str, ...]

    def _brief(self) -> str:
        told = self.quiet or f"reads {counted(len(self.relations), 'relation')}"
        return f"next tick of {self.query.name}, at {format_instant(self.t)}: {told}"


def forecast(catalog: CatalogParts, name: str, at: int) -> Forecast:
    """The next tick of the query ``name`` at the wall's instant ``at``.

    Raises NotFound, ClockError, PlanMismatch where the plan fits the tables no more, StorageError; Refused for a query
    that is kept as a synopsis.
    """
    query = catalog.queries.named(name)
    tables = relations(catalog, query.reads)
    record = catalog.queries.plan(query.plan_id)
    if is_synopsis(record.body):
        raise Refused(
            f"{query.name} is kept as a synopsis: its tick reads the rows that arrived, and what is stored",
            hint=f"See what that is: weft show {query.name}",
        )
    shape = compiled(record, {key: table.schema for key, table in tables.items()})
    t = tick_instant(catalog, _asked(catalog), at)
    member = Member(query, tau_of(query, query.tau), t)
    look_ups = LookUps(layout.arrangements_folder(catalog.path), catching_up=False)
    snapshots: dict[str, DeltaSnapshot | None] = {}
    driver = DriverReader(
        tables, lambda name: files_of(catalog.data, tables[name], snapshots), driver_reader.BOUNDS, look_ups
    )
    asked = [query.query_id] if query.rows else []
    with held(catalog.data, [layout.LEDGER, *(table.path for table in tables.values())]):
        read, small = _relations(driver, member, shape, catalog.home().t0)
        ledger = stored_files(catalog.data, layout.LEDGER, snapshots)
        found = known_answers(ledger, asked, ANSWER.empty_table(), driver_reader.BOUNDS, look_ups)
    known = RelationRead("ledger", "what is known", found.by, found.how, None)
    quiet = None
    if due.is_quiet(member, shape, tables, catalog.home().t0):
        quiet = due.reason(member, shape, tables)
    way: Way = "nothing" if quiet is not None else "rows" if small else "files"
    lower = tuple(each.name for each in catalog.queries.by_ids(query.reads))
    return Forecast(query, member.tau, t, read, known, way, quiet, lower)


def _asked(catalog: CatalogParts) -> int | None:
    """A replay home's clock stands until it is set: its next tick is taken to be after everything that was loaded."""
    home = catalog.home()
    if home.clock == "wall" or home.last_ts == MIN_INSTANT:
        return None
    return max(home.last_ts + 1, home.watermark)


def _relations(
    driver: DriverReader, member: Member, shape: Plan, t0: int | None
) -> tuple[tuple[RelationRead, ...], bool]:
    """What its branches read, and whether all of it is the driver's."""
    windows = grouped([member], {member.query.plan_id: shape}, t0)
    work = [(group, group.branches()) for window in windows for group in window]
    branches: list[Branch] = [branch for _, found in work for branch in found]
    paths = [path for branch in branches for path in branch.paths.values() if path.table in driver.tables]
    found, small = [], True
    for same, reading in readings(driver, columns_by_table(branches), paths, slices_of(work)):
        small = small and reading.by != "Spark"
        rows = None if reading.rows is None else reading.rows.data.num_rows
        for view in dict.fromkeys(path.view for path in same):
            what = ", ".join(dict.fromkeys(_words(path) for path in same if path.view == view))
            found.append(RelationRead(view, what, reading.by, reading.how, rows))
    return tuple(found), small


def _words(path: Access) -> str:
    if isinstance(path, Lookup):
        return f"look-up of {path.table} by {path.column}"
    if isinstance(path, DeltaScan):
        # NOW > c is NOW >= c + 1 µs
        micros = path.shift.micros // 1_000 * 1_000
        shift = f" {'+' if micros > 0 else '-'} {length(abs(micros), weeks=False)}" if micros else ""
        own = " + an interval" if path.shift.intervals else ""
        return f"news of {path.table} by {path.column}{shift}{own}"
    return f"all of {path.table}"
