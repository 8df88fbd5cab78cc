"""Compile the plans of installed queries, and group the queries of a tick.

Each process compiles a plan once. Queries of one plan run together if the lengths of their windows are similar. A query
with a long window therefore never widens the window of another query (design section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, overload

from weft.algebra.event import Event
from weft.algebra.scalar import Literal, Scalar, shifted
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.algebra.traverse import mentioned, params
from weft.catalog.records import PlanRecord, QueryRecord
from weft.derivation.lift import bind_params
from weft.errors import PlanMismatch
from weft.instants import MIN_INSTANT
from weft.planning.form import StoredForm, restored_parameter, restored_plan, stored_form
from weft.planning.plan import BEGINNING, Branch, Plan, for_many, for_one, is_time_driven, parameter_table
from weft.planning.stored_synopsis import is_synopsis
from weft.planning.synopsis_plan import SynopsisPlan, restored_synopsis

if TYPE_CHECKING:
    import pyarrow as pa

Shape: TypeAlias = "Plan | SynopsisPlan"
"""The plan of a query, either for Spark or for a synopsis."""
_compiled: dict[tuple[str, str, tuple[TableSchema, ...]], Shape] = {}


def from_now_form(record: PlanRecord, tables: Mapping[str, TableSchema]) -> StoredForm:
    """Return the stored form of the plan with ``--from now``. Raise PlanMismatch in the same cases as ``compiled``."""
    return stored_form(replace(compiled(record, tables), from_now=True))


def compiled(record: PlanRecord, tables: Mapping[str, TableSchema]) -> Plan:
    """Compile the plan of a query that Spark runs.

    Raise PlanMismatch if the plan differs from the installed plan or belongs to a synopsis.
    """
    shape = shape_of(record, tables)
    if not isinstance(shape, Plan):
        raise PlanMismatch(f"the plan {record.signature} belongs to a synopsis")
    return shape


def synopsis_of(record: PlanRecord, tables: Mapping[str, TableSchema]) -> SynopsisPlan:
    """Compile the plan of a query that runs as a synopsis.

    Raise PlanMismatch if the plan differs from the installed plan or belongs to a query that Spark runs.
    """
    shape = shape_of(record, tables)
    if not isinstance(shape, SynopsisPlan):
        raise PlanMismatch(f"the plan {record.signature} belongs to a query that Spark runs")
    return shape


def shape_of(record: PlanRecord, tables: Mapping[str, TableSchema]) -> Shape:
    """Compile the plan of any query. Raise PlanMismatch if the plan differs from the installed plan."""
    key = (record.signature, record.body, tuple(table for table in tables.values() if table.source == "table"))
    known = _compiled.get(key)
    if known is not None and all(tables.get(each.name) == each for each in known.tables if each.source == "results"):
        return known  # results are not part of the key: many come and go, and another home has others
    restore = restored_synopsis if is_synopsis(record.body) else restored_plan
    shape = restore(record.body, record.signature, tables.values())
    _compiled[key] = shape
    return shape


def window_start(query: QueryRecord, tau: int | None) -> int | None:
    """Return the instant at which a query's window begins, or None for the start of time.

    If ``tau`` is None, the window of a query with ``--from now`` begins at the installation.
    """
    return query.from_instant if tau is None and query.from_mode == "now" else tau


@dataclass(frozen=True)
class Member:
    """A query in a tick, with the query's window [tau, t).

    If the window ends before the end of the tick, ``waits`` explains the reason.
    """

    query: QueryRecord
    tau: int | None
    t: int
    waits: str | None = None

    @property
    def empty(self) -> bool:
        """Whether the window contains no instant."""
        return self.t <= (MIN_INSTANT if self.tau is None else self.tau)

    @property
    def values(self) -> tuple[Literal, ...]:
        """The query's constants, ordered by parameter number."""
        return tuple(restored_parameter(kind, raw) for kind, raw in self.query.parameters)


@dataclass(frozen=True, eq=False)
class Crowd(Sequence[Member]):
    """Many queries of one plan with the same window [tau, t), as columns.

    ``constants`` has the columns query_id, p1, p2 … of the parameter table, ordered by query ID. ``read`` returns the
    records of queries. A tick reads only the records of queries that have new answers.
    """

    plan_id: int
    tau: int
    t: int
    constants: pa.Table
    read: Callable[[Iterable[int]], Sequence[QueryRecord]]
    _known: dict[int, Member] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.constants.num_rows)

    @overload
    def __getitem__(self, place: int) -> Member: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Member, ...]: ...
    def __getitem__(self, place: int | slice) -> Member | tuple[Member, ...]:
        ids = self.constants.column("query_id")
        if isinstance(place, int):
            return self._members([ids[place].as_py()])[0]
        return self._members(ids.to_pylist()[place])

    def __iter__(self) -> Iterator[Member]:
        return iter(self[:])

    @cached_property
    def sample(self) -> Member:
        """The first of the queries."""
        return self[0]

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest ID of the queries."""
        ids = self.constants.column("query_id")
        return ids[0].as_py(), ids[-1].as_py()

    def those(self, query_ids: Iterable[int]) -> tuple[Member, ...]:
        """Return the queries of the crowd among ``query_ids``."""
        return self._members(self.among(query_ids))

    def among(self, query_ids: Iterable[int]) -> list[int]:
        """Return the IDs of the queries of the crowd among ``query_ids``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(sorted(set(query_ids)), pa.int64())
        found = pc.index_in(wanted, value_set=self.constants.column("query_id").combine_chunks())
        present: list[int] = wanted.filter(pc.is_valid(found)).to_pylist()
        return present

    def _members(self, query_ids: Sequence[int]) -> tuple[Member, ...]:
        missing = [each for each in query_ids if each not in self._known]
        if missing:
            self._known.update((each.query_id, Member(each, self.tau, self.t)) for each in self.read(missing))
        return tuple(self._known[each] for each in query_ids)


@dataclass(frozen=True)
class Group:
    """Queries of one plan that run together.

    ``t0`` is the start of time, or None if time does not start before ``t``. Constant answers begin at ``t0``. With
    ``time_driven_only``, a branch runs only if its driver is a threshold.
    """

    plan_id: int
    shape: Plan
    members: Sequence[Member]
    t: int
    t0: int | None = None
    time_driven_only: bool = False

    @property
    def first(self) -> bool:
        """Whether the group runs the first delivery (Q^M), because its windows begin at the start of time."""
        return self.of_each_window[0].tau is None

    @cached_property
    def of_each_window(self) -> tuple[Member, ...]:
        """One member for each start of a window."""
        if isinstance(self.members, Crowd):
            return (self.members.sample,)
        return tuple({member.tau: member for member in self.members}.values())

    @property
    def table(self) -> TableSchema:
        """The schema of the parameter table. A crowd and other queries of its plan may run at once."""
        shared = isinstance(self.members, Crowd)
        return parameter_table(f"{self.plan_id}_shared" if shared else self.plan_id, self.shape)

    @property
    def with_answers(self) -> list[int]:
        """The IDs of queries that have answers. For a crowd, the bounds of the IDs."""
        if isinstance(self.members, Crowd):
            return [*self.members.bounds]
        return [member.query.query_id for member in self.members if member.query.rows]

    def branches(self) -> tuple[Branch, ...]:
        """Return the branches to run. Only the SQL for several queries reads a parameter table."""
        events = self.shape.first if self.first else self.shape.branches
        if self.time_driven_only:
            events = tuple(filter(is_time_driven, events))
        begun = self.t if self.t0 is None else self.t0
        window: dict[str, Scalar] = {"t": instant(self.t), "t0": instant(begun)}
        if self.first:
            # Constant answers begin at the start of time, even if NOW reached a threshold earlier.
            window["tau"] = instant(begun) if self.shape.has_constants else BEGINNING
        events = tuple(event for event in events if self._may_fire(event, window))
        if len(self.members) == 1:
            member = self.members[0]
            if member.tau is not None:
                window["tau"] = instant(member.tau)
            names = member.query.names or None
            return tuple(for_one(event, member.values, window, self.first, names) for event in events)
        taus = [member.tau for member in self.of_each_window if member.tau is not None]
        window["since"] = instant(min(taus)) if taus else window["tau"]
        return tuple(for_many(event, self.table, window, self.first) for event in events)

    def _may_fire(self, event: Event, window: Mapping[str, Scalar]) -> bool:
        """Return False if the branch cannot yield a row.

        Law: a branch with the instant s requires tau <= s < t, besides other conditions (``derivation.incremental``).
        The branch cannot yield a row if s is the same constant for all rows and lies outside every member's window. If
        s is NULL, the branch yields no row. Return True for the closed form, because the instant of the closed form is
        the greatest of several instants.
        """
        if event.driver.kind == "greatest":
            return True
        at = bind_params(event.instant, {"t0": window["t0"]})
        if mentioned(at):
            return True
        begins = window.get("tau")
        since = begins.value if isinstance(begins, Literal) and isinstance(begins.value, int) else None
        own = bool(params(at))
        for member in self.members if own else self.of_each_window:
            known = {f"p{number}": value for number, value in enumerate(member.values, 1)} if own else {}
            parts = shifted(bind_params(at, known))
            if parts.intervals or not isinstance(parts.base, Literal):
                return True
            low = since if member.tau is None else member.tau
            if isinstance(parts.base.value, int):
                s = parts.base.value + parts.micros
                if (low is None or low <= s) and s < self.t:
                    return True
        return False


def instant(micros: int) -> Literal:
    """Return an instant (microseconds UTC) as an SQL literal."""
    return Literal(micros, TIMESTAMP, fixed=True)


def grouped(
    members: Iterable[Member], plans: Mapping[int, Plan], t0: int | None, crowds: Iterable[Crowd] = ()
) -> tuple[tuple[Group, ...], ...]:
    """Group the members of a tick by plan and window. Return one tuple of groups for each kind of window.

    Each crowd is a group.

    Windows of one kind have the same end and similar lengths. Windows from the start of time come last.
    """
    sorted_in: dict[tuple[bool, int, int], dict[int, list[Member]]] = {}
    for member in members:
        sorted_in.setdefault(_kind(member), {}).setdefault(member.query.plan_id, []).append(member)
    by_window = {
        window: [
            Group(key, plans[key], some, window[2], t0)
            for key, in_group in plans_in.items()
            for some in computed_together(in_group, plans[key])
        ]
        for window, plans_in in sorted_in.items()
    }
    for crowd in crowds:
        by_window.setdefault(_kind(crowd), []).append(Group(crowd.plan_id, plans[crowd.plan_id], crowd, crowd.t, t0))
    return tuple(tuple(by_window[window]) for window in sorted(by_window))


def _kind(windowed: Member | Crowd) -> tuple[bool, int, int]:
    length = 0 if windowed.tau is None else max(0, windowed.t - windowed.tau).bit_length()
    return windowed.tau is None, length, windowed.t


def computed_together(members: Sequence[Member], plan: Plan) -> tuple[tuple[Member, ...], ...]:
    """Divide queries of one plan into groups. A query is a group by itself if its states depend on its constants."""
    return tuple((member,) for member in members) if plan.has_own_states else (tuple(members),)
