"""Define the catalog's records as frozen dataclasses.

Instants are microseconds since 1970-01-01 UTC.  ``instants.MIN_INSTANT`` is before all other instants.  The watermark
is MIN_INSTANT before the first tick, and the home's last ``ts`` is MIN_INSTANT before the first row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from weft.algebra.schema import BIGINT, TIMESTAMP, VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.catalog.naming import distinct
from weft.instants import MIN_INSTANT, format_instant
from weft.printable import Brief, counted

TS: Final = "ts"
"""The name of the column that stores the start time of a row."""
BY: Final = "_by"
"""The name of the column that stores which user appended a row."""
ATTACHED: Final = "attached"
"""The kind of the source of a table whose rows are in another program's Delta table."""
Clock = Literal["wall", "replay"]
LeaseName = Literal["write", "deliver"]
QueryState = Literal["active", "paused", "removed", "failed"]
FromMode = Literal["start", "now"]
TickState = Literal["planned", "committed", "abandoned"]
ReservationState = Literal["open", "committed", "abandoned"]
QuarantineState = Literal["open", "retried", "dropped"]
OutputState = Literal["open", "written"]
JsonValue = str | int | float | bool | list[str | int] | None
Parameter = tuple[str, JsonValue]


@dataclass(frozen=True)
class HomeRecord:
    """A home with its clock and its watermark.

    ``watermark`` is the latest instant of a tick.  New rows may have any ``ts`` from the watermark on, in any order.
    ``last_ts`` is the largest ``ts`` of a row.  ``now`` is the time of a replay clock.  With a wall clock, and before
    the first tick, ``now`` is None.

    ``t0`` is the beginning of time, at which constant rows start.  With a wall clock, ``t0`` is the creation time of
    the home.  With a replay clock, ``t0`` is the instant of the first tick.  Loading a row before the first tick sets
    ``t0`` to the ``ts`` of the row if ``t0`` is later or None.

    ``place`` is the folder of a home whose catalog is on a server, or None.
    """

    home_id: str
    format: int
    clock: Clock
    created_at: int
    place: str | None
    watermark: int
    last_ts: int
    now: int | None
    t0: int | None

    def now_at(self, wall: int) -> int | None:
        """Return the time of the home's clock.  Return None if a replay clock has no time yet.

        The time of a wall clock is ``wall``.  The time of a replay clock is ``now``, or ``last_ts`` if ``now`` is None.
        """
        if self.clock == "wall":
            return wall
        known = self.now if self.now is not None else self.last_ts
        return None if known == MIN_INSTANT else known


@dataclass(frozen=True, repr=False)
class TableRecord(Brief):
    """A table and the last recorded state of its Delta table.

    ``path`` is relative to the home.  ``version`` is the version of the Delta table, or -1 before the first rows.
    ``first_ts`` and ``last_ts`` are None while the table is empty.  ``ts_from`` is the column that provides ``ts``, or
    None.

    For a tracked table, ``log`` is the schema of the history log, which has one row per change (``storage.periods``).
    For a tracked table, ``rows`` is the number of log rows, and ``keys`` are the key columns of the source.
    ``auxiliary`` is true for an auxiliary view, which only other views read.  ``is_view`` is true for any other view.
    ``attached`` is true for a table whose rows are in the files of another program's Delta table.
    """

    schema: TableSchema
    path: str
    keys: tuple[str, ...]
    ts_from: str | None
    rows: int
    version: int
    first_ts: int | None
    last_ts: int | None
    log: TableSchema | None = None
    auxiliary: bool = False
    is_view: bool = False
    attached: bool = False

    @property
    def tracked(self) -> bool:
        """Whether the table records the history of a source.  Rows of such a table have periods that can end."""
        return self.log is not None

    @property
    def stored(self) -> TableSchema:
        """The schema of the append-only Delta table.  The column ``ts`` of this schema is the instant of the change."""
        return self.log or self.schema

    @property
    def table_id(self) -> int:
        """The ID of the table in plans.  IDs are never reused."""
        return self.schema.id

    @property
    def name(self) -> str:
        """The table's name as the user wrote it."""
        return self.schema.name

    def _brief(self) -> str:
        columns = ", ".join(f"{column.name} {column.type.declared}" for column in self.schema.columns)
        return f"table {self.name}, {counted(self.rows, 'row')}: {columns}"


@dataclass(frozen=True, repr=False)
class LoadRecord(Brief):
    """A load of one source.  ``finished_at`` is None for an unfinished load.

    ``state`` is ``kept``, ``undoing`` (during an undo) or ``undone``.
    """

    load_id: int
    table_id: int
    source: str
    kind: str
    digest: str | None
    started_at: int
    finished_at: int | None
    stored: int
    known: int
    quarantined: int
    late: int
    state: str = "kept"

    def _brief(self) -> str:
        return f"load {self.load_id} of {self.source}: {self.stored:,} stored, {self.known:,} known"


@dataclass(frozen=True, repr=False)
class QuarantineRecord(Brief):
    """An unreadable record.  The quarantine file ``sha256`` contains the bytes of the record.

    ``size`` is in bytes.  ``options`` are the options of the load as JSON, for a retry.
    """

    quarantine_id: int
    load_id: int
    table_id: int
    source: str
    position: str
    reason: str
    sha256: str
    size: int
    options: str
    at: int
    state: QuarantineState

    def _brief(self) -> str:
        return f"record {self.quarantine_id} in quarantine, {self.source} {self.position}: {self.reason}"


@dataclass(frozen=True)
class Lease:
    """The right of a process to write or to deliver.  An expired lease stays valid until another process takes it."""

    name: LeaseName
    token: int
    purpose: str
    holder: str
    acquired_at: int
    expires_at: int

    @property
    def key(self) -> tuple[LeaseName, int, str]:
        """What distinguishes the lease from all others.  The token alone does not, if an acquisition failed."""
        return self.name, self.token, self.holder


@dataclass(frozen=True)
class Reservation:
    """A writer's announcement of rows with ts >= ``floor``.  No tick passes ``floor`` until the writer is done."""

    reservation_id: int
    table_id: int
    load_id: int
    floor: int
    token: int
    state: ReservationState


@dataclass(frozen=True)
class StoredVersion:
    """The last recorded version of a Delta table.  ``path`` is relative to the home."""

    path: str
    version: int
    rows: int


@dataclass(frozen=True)
class PlanRecord:
    """A plan that queries share.  ``signature`` identifies the plan, and ``body`` is its stored form."""

    plan_id: int
    signature: str
    body: str


@dataclass(frozen=True)
class QueryDefinition:
    """A query to install, with its owner, text, plan, constants and channels.

    ``signature`` and ``plan_body`` belong to the plan.  ``names`` are the range variables in the order of the plan.
    ``every_us`` has the same meaning as in ``QueryRecord``.  ``from_instant`` is the start of the answers with ``--from
    now``, or None without this option.  ``channels`` does not contain the cursor.  ``digest`` and ``zone`` have the
    same meaning as in ``Subscription`` and apply to each channel.  ``reads`` are the IDs of the queries whose results
    this query reads.  ``definitions`` are the IDs of the views in the plan.  ``needs`` are the IDs of the tables and
    views that the text names, which the owner must be allowed to read.  ``saved_id`` is the ID of the saved query whose
    parameters were filled in.
    """

    name: str
    user: str
    sql: str
    signature: str
    plan_body: str
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, DataType], ...]
    names: tuple[str, ...] = ()
    every_us: int | None = None
    from_instant: int | None = None
    channels: tuple[str, ...] = ()
    digest: str | None = None
    zone: str | None = None
    reads: tuple[int, ...] = ()
    definitions: tuple[int, ...] = ()
    needs: tuple[int, ...] = ()
    saved_id: int | None = None


RESULTS: Final = "results"
"""The prefix of result tables.  The table ``results.NAME`` contains the answers of the query NAME."""
SAVED: Final = "saved"
"""The prefix with which the name of a saved query is written where a right is granted."""
FIRST_AT: Final = "_first_at"
ORDINAL: Final = "_ordinal"


def table_schema(
    table_id: int,
    name: str,
    stored: Iterable[Column],
    *,
    tracked: bool,
    depends_on_now: bool | None = None,
    key: tuple[str, ...] = (),
) -> TableSchema:
    """Return the schema that queries see for a table whose stored columns are ``stored``.

    ``depends_on_now`` is None for a table that is not a view.
    """
    from weft.algebra.relation import ViewSchema

    if not tracked:
        return TableSchema(table_id, name, tuple(stored), key=key)
    shown = tuple(column for column in stored if column.name != TS)
    if depends_on_now is None:
        return TableSchema(table_id, name, shown, start=VALID_FROM, end=VALID_TO, key=key)
    return ViewSchema(table_id, name, shown, start=VALID_FROM, end=VALID_TO, depends_on_now=depends_on_now)


def results_schema(query_id: int, name: str, columns: Sequence[tuple[str, DataType]]) -> TableSchema:
    """Return the schema of the table that contains a query's results.

    Besides the columns of the query, a result table has ``_first_at`` (the start time of an answer) and ``_ordinal``.
    Duplicate column names get numbers, as in deliveries.  The comparison of column names ignores case.
    """
    labels = distinct([column for column, _ in columns], (FIRST_AT, ORDINAL))
    typed = zip(labels, (kind for _, kind in columns), strict=True)
    all_columns = [*typed, (FIRST_AT, TIMESTAMP), (ORDINAL, BIGINT)]
    numbered = tuple(Column(number, label, type_) for number, (label, type_) in enumerate(all_columns, 1))
    return TableSchema(query_id, f"{RESULTS}.{name}", numbered, start=FIRST_AT, source="results")


@dataclass(frozen=True, repr=False)
class QueryRecord(Brief):
    """A standing query.

    ``tau`` is the instant of the last tick.  If ``tau`` is None, the next tick evaluates all instants.
    ``next_ordinal`` is the ordinal of the next answer, and the first ordinal is 1.  ``next_due`` is the next instant at
    which the passage of time alone can add an answer (None: unknown).  ``every_us`` is the time between two runs in
    microseconds (None: the query runs at each tick).

    ``reads`` are the IDs of the queries whose results this query reads.  ``stratum`` is one more than the greatest
    stratum of a query in ``reads``, or 0 if ``reads`` is empty.  ``last_first_at`` is the latest start time of an
    answer (None: no answers).  ``replaced_at`` is the time of the last replacement of the text (None: never).
    ``definitions`` are the IDs of the views in the plan.  ``needs`` are the IDs of the tables and views that the owner
    must be allowed to read.  ``saved_id`` is the ID of the saved query that was filled in (None: none).
    """

    query_id: int
    name: str
    user: str
    sql: str
    plan_id: int
    parameters: tuple[Parameter, ...]
    columns: tuple[tuple[str, DataType], ...]
    every_us: int | None
    from_mode: FromMode
    from_instant: int | None
    tau: int | None
    next_ordinal: int
    state: QueryState
    reason: str | None
    installed_at: int
    next_due: int | None
    names: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    stratum: int = 0
    last_first_at: int | None = None
    replaced_at: int | None = None
    definitions: tuple[int, ...] = ()
    needs: tuple[int, ...] = ()
    saved_id: int | None = None

    @property
    def text_since(self) -> int:
        """The instant since which the query has its text, in microseconds UTC."""
        return self.installed_at if self.replaced_at is None else self.replaced_at

    @property
    def is_barred(self) -> bool:
        """Whether the query is paused because its owner has lost a right.  ``weft pause`` records no reason."""
        return self.state == "paused" and self.reason is not None

    @property
    def rows(self) -> int:
        """The number of answers so far."""
        return self.next_ordinal - 1

    @property
    def types(self) -> tuple[DataType, ...]:
        """The types of the query's columns."""
        return tuple(type_ for _, type_ in self.columns)

    @property
    def results(self) -> TableSchema:
        """The schema of the table that contains the answers."""
        return results_schema(self.query_id, self.name, self.columns)

    def _brief(self) -> str:
        until = "all to be gone through" if self.tau is None else f"up to {format_instant(self.tau)}"
        return f"query {self.name} of {self.user}, {self.state}, {counted(self.rows, 'answer')}, {until}: {self.sql}"


@dataclass(frozen=True)
class Choice:
    """The active queries that a tick runs.

    If ``query_ids`` is set, the tick runs only these queries.  If ``due_at`` is set, the tick runs only queries that
    must run at ``due_at``.  A query that runs before its due time gets the same answers (law 2).

    A *first delivery* is the first tick of a query whose window begins at the start of time.  If ``first_of`` is set,
    the tick runs only the first deliveries of these plans.  The tick runs no first delivery of a plan in
    ``but_first_of``.
    """

    query_ids: tuple[int, ...] | None = None
    due_at: int | None = None
    first_of: tuple[int, ...] | None = None
    but_first_of: tuple[int, ...] = ()


@dataclass(frozen=True)
class DuePlan:
    """Those active queries of one plan that must run at an instant.

    The window of a query is the time since its last tick.  ``unbounded`` is the number of queries whose window has no
    start.  ``since`` is the earliest start of a window, or None.  ``undated`` is the number of queries whose window has
    a start but whose due instant is unknown.  ``next_due`` is the first known due instant.
    """

    plan_id: int
    unbounded: int
    since: int | None
    undated: int
    next_due: int | None


@dataclass(frozen=True, repr=False)
class TickRecord(Brief):
    """A tick and its clock.  ``Ticks.members`` returns the queries of the tick."""

    tick_id: int
    t: int
    state: TickState
    planned_at: int
    committed_at: int | None

    def _brief(self) -> str:
        return f"tick {self.tick_id} at {format_instant(self.t)}, {self.state}"


@dataclass(frozen=True)
class SharedPlan:
    """A plan in a tick, with the ``tau`` that some queries share.

    ``queries`` is the number of these queries, and ``version`` counts the changes of their set.
    """

    plan_id: int
    tau: int
    queries: int
    version: int


@dataclass(frozen=True)
class TickOutput:
    """A Delta table to which a tick adds rows.

    ``path`` is relative to the home, and ``name`` is unique within the tick.  The rows of an ``open`` output may or may
    not be in Delta.  For a ``written`` output, ``version`` is the version of the commit with the rows.
    """

    tick_id: int
    name: str
    path: str
    state: OutputState
    version: int | None
    rows: int | None


@dataclass(frozen=True)
class Count:
    """The outcome of a tick for one query.

    If ``rows`` is 0, ``reason`` says why.  ``until`` is the end of the query's window and becomes the query's tau
    (None: tau does not change).  ``last_first_at`` is the latest start time of the new answers.
    """

    rows: int
    reason: str | None
    next_due: int | None
    until: int | None
    last_first_at: int | None = None


@dataclass(frozen=True)
class TickQuery:
    """The outcome of a tick for one query, whose window ended at ``t``.  ``rows`` is None until the tick commits."""

    tick_id: int
    query_id: int
    t: int
    tau: int | None
    state: TickState
    rows: int | None
    reason: str | None
