"""Describe how the next tick of one query would read the query's input (``weft explain --tick``), without Spark.

The tick's own code makes all decisions, but nothing is written. The description names outdated arrangements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from weft.algebra.access import Access, DeltaScan, KeyScan, Lookup
from weft.algebra.relation import StateSchema
from weft.algebra.traverse import range_variables
from weft.arrangement.state_store import StateStore
from weft.catalog import CatalogParts, layout
from weft.catalog.records import QueryRecord
from weft.derivation.stateful import states
from weft.execution import driver_reader
from weft.execution.driver_reader import DriverReader, count_text
from weft.execution.duckdb_answers import goes_to_duckdb, is_same
from weft.execution.engines.choosing import Choice
from weft.execution.groups import Group, Member, grouped, shape_of, window_start
from weft.execution.look_ups import ANSWER, LookUps
from weft.execution.new_answers import known_answers
from weft.execution.reader import files_of, removals_reported, stored_files
from weft.execution.relations import relations
from weft.execution.synopsis.standing import rows_stored, taken_together
from weft.execution.synopsis.taking_in import SynopsisMember
from weft.execution.ticks import due
from weft.execution.ticks.state_forecast import StateForecast
from weft.execution.ticks.tick import tick_instant
from weft.execution.windows import slices_of
from weft.instants import MIN_INSTANT, format_instant
from weft.planning.plan import PARAMETER_TABLE, Branch, columns_read
from weft.planning.state_causes import all_states
from weft.planning.state_engine import same_in_duckdb
from weft.planning.synopsis_plan import SynopsisPlan
from weft.planning.words import length, state_words
from weft.printable import Brief, counted
from weft.storage.delta_log import DeltaSnapshot

Way = Literal["nothing", "duckdb", "rows", "files"]
"""The input of Spark in a tick.
- ``nothing``: nothing is computed
- ``duckdb``: DuckDB computes the answers in this process, and Spark does not run
- ``rows``: Spark runs one job over rows from the driver's memory
- ``files``: Spark reads files
"""


@dataclass(frozen=True)
class RelationRead:
    """A description of how a tick reads one relation.

    ``view`` is the relation's name in the SQL of branches. ``what`` describes the relation, ``by`` names the reader,
    and ``how`` describes the method. ``rows`` is the number of rows in the driver's memory. ``rows`` is None if the
    number is unknown or if Spark reads the rows.
    """

    view: str
    what: str
    by: str
    how: str
    rows: int | None


@dataclass(frozen=True, repr=False)
class Forecast(Brief):
    """The next tick of ``query``, over the window [tau, t) in microseconds UTC.

    ``tau`` is None for the first tick of the query. ``known`` describes how the tick finds the answers in the ledger.
    If the tick can skip the query, ``quiet`` explains the reason. ``lower`` names the queries whose results ``query``
    reads. ``engine`` is the engine that computes a synopsis, or None for other queries.
    """

    query: QueryRecord
    tau: int | None
    t: int
    relations: tuple[RelationRead, ...]
    known: RelationRead
    way: Way
    quiet: str | None
    lower: tuple[str, ...]
    engine: Choice | None = None

    def _brief(self) -> str:
        text = self.quiet or f"reads {counted(len(self.relations), 'relation')}"
        return f"next tick of {self.query.name}, at {format_instant(self.t)}: {text}"


def forecast(catalog: CatalogParts, name: str, at: int) -> Forecast:
    """Describe the next tick of a query. ``at`` is the wall clock time (µs UTC).

    Raise NotFound, ClockError or StorageError. Raise PlanMismatch if the plan does not match the tables.
    """
    query = catalog.queries.named(name)
    tables = relations(catalog, query.reads)
    record = catalog.queries.plan(query.plan_id)
    shape = shape_of(record, {key: table.schema for key, table in tables.items()})
    t = tick_instant(catalog, _replay_instant(catalog), at)
    member = Member(query, window_start(query, query.tau), t)
    if isinstance(shape, SynopsisPlan):
        return _of_synopsis(catalog, member, shape)
    look_ups = LookUps(layout.arrangements_folder(catalog.path), catching_up=False)
    snapshots: dict[str, DeltaSnapshot | None] = {}
    driver = DriverReader(
        tables, lambda name: files_of(catalog.data, tables[name], snapshots), driver_reader.BOUNDS, look_ups
    )
    with_answers = [query.query_id] if query.rows else []
    with removals_reported(catalog.data, snapshots):
        of_states = StateForecast(driver, StateStore(layout.states_folder(catalog.path), catalog.revisions.earliest))
        groups = [each for window in grouped([member], {query.plan_id: shape}, catalog.home().t0) for each in window]
        read, way = _relations(of_states, [(group, group.branches()) for group in groups])
        ledger = stored_files(catalog.data, layout.LEDGER, snapshots)
        look_up = known_answers(ledger, with_answers, ANSWER.empty_table(), driver_reader.BOUNDS, look_ups)
    known = RelationRead("ledger", "known answers", look_up.by, look_up.how, None)
    quiet = None
    if due.is_quiet(member, shape, tables, catalog.home().t0):
        quiet = due.reason(member, shape, tables)
    way = "nothing" if quiet is not None else way
    lower = tuple(each.name for each in catalog.queries.by_ids(query.reads))
    return Forecast(query, member.tau, t, read, known, way, quiet, lower)


def _of_synopsis(catalog: CatalogParts, member: Member, plan: SynopsisPlan) -> Forecast:
    query, tables = member.query, {table.table_id: table for table in catalog.tables.all()}
    together = taken_together(catalog.data, [SynopsisMember(member, plan)], tables, 0)
    choice, sizes = together.choice(), together.news.sizes()
    reads = tuple(
        RelationRead(name, f"new rows of {name}", choice.by, f"up to {count_text(rows)}", None) for name, rows in sizes
    )
    stored = rows_stored(catalog.data, plan, member.tau)
    how = f"{counted(len(stored), 'stored relation')} with {count_text(sum(stored.values()))}"
    known = RelationRead("synopsis", "stored relations", choice.by, how, None)
    arrived = any(rows for _, rows in sizes)
    quiet = None if arrived else f"no rows have arrived in {' or '.join(name for name, _ in sizes)}"
    return Forecast(query, member.tau, member.t, reads, known, "files" if arrived else "nothing", quiet, (), choice)


def _replay_instant(catalog: CatalogParts) -> int | None:
    """Return the first instant after all loaded rows of a replay home, or None."""
    home = catalog.home()
    if home.clock == "wall" or home.last_ts == MIN_INSTANT:
        return None
    return max(home.last_ts + 1, home.watermark)


def _relations(
    forecast: StateForecast, work: Sequence[tuple[Group, Sequence[Branch]]]
) -> tuple[tuple[RelationRead, ...], Way]:
    branches: list[Branch] = [branch for _, reads in work for branch in reads]
    paths = [
        path for branch in branches for path in branch.paths.values() if not path.table.startswith(PARAMETER_TABLE)
    ]
    own = [state for branch in branches for state in states(branch.event.relation)]
    for group, reading in forecast.readings(columns_read(branches), paths, slices_of(work), own):
        forecast.read.append(("", group, reading))
    in_spark = any(reading.by == "Spark" for suffix, _, reading in forecast.read if suffix)
    whole = not in_spark and all(goes_to_duckdb(forecast.driver, group) for group, _ in work)
    reads: dict[str, RelationRead] = {}
    for suffix, same, reading in forecast.read:
        for view in dict.fromkeys(path.view for path in same):
            what = ", ".join(dict.fromkeys(_words(path, forecast.schemas) for path in same if path.view == view))
            computed = reading.rows is None or same[0].table not in forecast.driver.tables
            rows = None if computed or reading.rows is None else reading.rows.data.num_rows
            by = ("DuckDB", "its files") if whole and reading.by == "Spark" else (reading.by, reading.how)
            reads.setdefault(view + suffix, RelationRead(view + suffix, what, *by, rows))
    if any(reading.by == "Spark" for _, _, reading in forecast.read):
        return tuple(reads.values()), "duckdb" if whole else "files"
    every = {state for branch in branches for state in all_states(branch.event.relation)}
    alike = all(is_same(*each) for each in work) and all(map(same_in_duckdb, every))
    return tuple(reads.values()), "duckdb" if alike else "rows"


def _words(path: Access, schemas: Mapping[str, StateSchema]) -> str:
    if path.table in schemas:
        state = schemas[path.table]
        return state_words(replace(state, names=range_variables(state.operator)))
    if isinstance(path, KeyScan):
        return "keys of groups"
    if isinstance(path, Lookup):
        return f"look-up of {path.table} by {path.key.name}"
    if isinstance(path, DeltaScan):
        # The planner turned NOW > c into NOW >= c + 1 µs. Remove the microsecond.
        micros = path.shift.micros // 1_000 * 1_000
        shift = f" {'+' if micros > 0 else '-'} {length(abs(micros), weeks=False)}" if micros else ""
        own = " + an interval" if path.shift.intervals else ""
        return f"new rows of {path.table} by {path.column}{shift}{own}"
    return f"all of {path.table}"
