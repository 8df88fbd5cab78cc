"""A view's change, computed in this process: the delta over what was recorded, and what the view's log gains of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.algebra.scalar import CHANGED_FROM, REFRESHED, Literal
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.algebra.temporal import VALID_FROM, VALID_TO, Base, Deleted, Semijoin, Temporal, attributes, inputs, over
from weft.catalog.records import TableRecord
from weft.derivation.temporal.plan import Derived
from weft.derivation.temporal.propagation import Kind
from weft.execution.look_ups import LookUps
from weft.execution.temporal.logs import Logs
from weft.execution.temporal.states import Among, LoggedTable, change_of, first_difference
from weft.planning.upkeep import Upkeep
from weft.sql import render
from weft.sql.sweeping import coalesced, columns_of, listed, without
from weft.sql.value import Asked, Chain, Leaf
from weft.storage.columns import conformed, stored_schema
from weft.storage.delta_log import DataFile
from weft.storage.periods import TS
from weft.storage.temporal_sql import TemporalSql, temporal_sql


@dataclass(frozen=True)
class Reading:
    """What a maintenance reads: tables by id as they are stored, their files, and those of the view itself.

    ``since`` is t0, ``tau`` the instant of the last maintenance (None: never), ``t`` that of this one, µs UTC.
    """

    tables: Mapping[int, TableRecord]
    files: Mapping[int, tuple[DataFile, ...]]
    since: int
    tau: int | None
    t: int


@dataclass(frozen=True)
class Gained:
    """What the log of a view gains: its rows, in any order, and the first instant that they change.

    ``begins`` is None where nothing is changed, or nobody asked.
    """

    rows: pa.Table
    begins: int | None = None


def gained(upkeep: Upkeep, view: TableRecord, reading: Reading, look_ups: LookUps, *, dated: bool) -> Gained:
    """What the log of the view gains by a maintenance, ``dated`` with its ``begins``; by whoever holds the lease.

    Raises StorageError for what cannot be read, ExecutionError for what cannot be computed.
    """
    with temporal_sql() as sql:
        work = _Work(sql, upkeep, reading, Logs(sql, reading.files, look_ups))
        found = work.whole(view) if reading.tau is None else work.maintained(view, reading.tau)
        if found is None:
            return Gained(stored_schema(view.stored).empty_table())
        rows = sql.rows(change_of(*found, len(upkeep.columns)))
        begins = sql.one(first_difference(*found, len(upkeep.columns))) if dated and rows.num_rows else None
    return Gained(_as_log(rows, view, reading.t), begins)


def _as_log(rows: pa.Table, view: TableRecord, t: int) -> pa.Table:
    """Rows ``c1 … cn, valid_from, valid_to`` as rows of the view's log, recorded at ``t``."""
    schema = stored_schema(view.stored)
    values = [name for name in schema.names if name not in (VALID_FROM, VALID_TO, TS)]
    named = rows.rename_columns([*values, VALID_FROM, VALID_TO])
    stamped = named.append_column(TS, pa.repeat(pa.scalar(t, schema.field(TS).type), rows.num_rows))
    return conformed(stamped, schema)


@dataclass
class _Work:
    """One maintenance in a DuckDB."""

    sql: TemporalSql
    upkeep: Upkeep
    reading: Reading
    logs: Logs
    made: dict[tuple[str, int], str] = field(default_factory=dict)
    known: int = 0
    """The instant as of which the tables are read."""
    tables: dict[str, str] = field(default_factory=dict)
    """By the name that stands for it in an expression: some of the tuples of a table."""
    looked_up: dict[Temporal, Temporal] = field(default_factory=dict)
    done: int = 0

    def whole(self, view: TableRecord) -> tuple[str, str]:
        """The view before its first maintenance and after it."""
        (value,) = self.computed((self.upkeep.plan.view,), self.reading.t, {})
        return self._own(view, f"SELECT {listed(columns_of(self.width))} FROM {value}"), value

    def maintained(self, view: TableRecord, tau: int) -> tuple[str, str] | None:
        """The rows of the view that its delta touches, before it and after it; None where it surely touches none."""
        parameters = {REFRESHED.name: Literal(tau, TIMESTAMP)}
        changed = [table for table in self.upkeep.tables if self._changed(table, tau)]
        if changed:
            parameters[CHANGED_FROM.name] = Literal(self._begin(changed), TIMESTAMP)
        plan = self.upkeep.plan
        deltas = [plan.refresh, *([plan.change(changed, self._kinds(changed))] if changed else [])]
        parts = [part for delta in deltas for part in (delta.deleted, delta.inserted) if part is not None]
        if not parts:
            return None
        names = dict(zip(parts, self.computed(parts, tau, parameters), strict=True))
        rows = listed(columns_of(self.width))
        kept = self._own(view, " UNION ".join(f"SELECT {rows} FROM {name}" for name in names.values()))
        new = kept
        for delta in deltas:
            new = self._applied(new, delta, names)
        return kept, new

    def _applied(self, old: str, delta: Derived, names: Mapping[Temporal, str]) -> str:
        """The table of V − ∇V ∪ ΔV."""
        if delta.deleted is not None:
            old = self._table(f"{old}_left", without(old, names[delta.deleted], self.width))
        if delta.inserted is not None:
            heads = listed(columns_of(self.width), VALID_FROM, VALID_TO)
            both = " UNION ALL ".join(f"SELECT {heads} FROM {name}" for name in (old, names[delta.inserted]))
            old = self._table(f"{old}_more", coalesced(both, self.width))
        return old

    @property
    def width(self) -> int:
        """How many columns the view has."""
        return len(self.upkeep.columns)

    def _own(self, view: TableRecord, touched: str) -> str:
        """The view's own periods, of the rows of a query ``c1 … cn``."""
        log = self.logs.of(view, view.schema)
        among = log.all_of(self._table("touched", touched))
        return self._table("kept", self.logs.near(log, among).known(self.reading.t, among))

    def _changed(self, table: TableSchema, tau: int) -> bool:
        """Whether anything came into a table after the last maintenance; its ∇ and Δ are made then."""
        record = self.reading.tables[table.id]
        if record.last_ts is None or record.last_ts <= tau:
            return False
        log, name = self._log(table), f"change_{table.id}"
        touched = self._table(f"{name}_touched", self.logs.news(log, tau).rows(tau, self.reading.t))
        gone, come = self.logs.near(log, log.all_of(touched)).make_change(name, touched, tau, self.reading.t)
        self.made |= {("deleted", table.id): gone, ("inserted", table.id): come}
        return self._any(gone) or self._any(come)

    def _any(self, name: str) -> bool:
        return bool(self.sql.one(f"SELECT COUNT(*) FROM (SELECT 1 FROM {name} LIMIT 1) AS found"))

    def _kinds(self, changed: list[TableSchema]) -> list[Kind]:
        """Whether anything was deleted, and inserted."""
        kinds: tuple[tuple[str, Kind], ...] = (("deleted", "deletions"), ("inserted", "insertions"))
        return [kind for key, kind in kinds if any(self._any(self.made[key, table.id]) for table in changed)]

    def _begin(self, changed: list[TableSchema]) -> int:
        """The first instant that a change of these tables touches."""
        names = [self.made[kind, table.id] for table in changed for kind in ("deleted", "inserted")]
        every = " UNION ALL ".join(f"SELECT {VALID_FROM} FROM {name}" for name in names)
        return int(self.sql.one(f"SELECT UNIX_MICROS(MIN({VALID_FROM})) FROM ({every}) AS given"))

    def computed(self, relations: Sequence[Temporal], known: int, parameters: Mapping[str, Literal]) -> list[str]:
        """Tables with the values of relations at t, the tables below being as known at ``known``."""
        self.known = known
        chain = Chain(self._leaf, Asked(self.reading.t, self.reading.since, parameters), "step")
        names = [self._step(chain, self._looked_up(chain, relation)) for relation in relations]
        typed = {name: self._typed(name) for name in dict.fromkeys(names)}
        return [typed[name] for name in names]

    def _step(self, chain: Chain, relation: Temporal) -> str:
        """The table of a relation's value, made with all that it needs."""
        name = chain.step(relation)
        for step in chain.steps[self.done :]:
            self.sql.table(step.name, step.sql)
        self.done = len(chain.steps)
        return name

    def _looked_up(self, chain: Chain, relation: Temporal) -> Temporal:
        """The same with tables of their own in the place of the tuples of tables that some others ask for (⋉)."""
        known = self.looked_up.get(relation)
        if known is None:
            parts = tuple(self._looked_up(chain, part) for part in inputs(relation))
            known = over(relation, parts)
            if isinstance(known, Semijoin) and isinstance(known.left, Base) and known.on:
                known = self._some(known.left, self._step(chain, known.right), known)
            self.looked_up[relation] = known
        return known

    def _some(self, base: Base, given: str, asked: Semijoin) -> Base:
        """The tuples of a table that agree with some of the relation ``given``."""
        places = {ref: f"c{number}" for number, ref in enumerate(attributes(asked.right), 1)}
        among = Among(given, tuple((own.column, places[other]) for own, other in asked.on))
        log = self._log(base.table)
        name = f"some_{len(self.tables) + 1}"
        self.tables[name] = self._table(name, log.named(self.logs.near(log, among).known(self.known, among)))
        return replace(base, table=replace(base.table, name=name))

    def _typed(self, name: str) -> str:
        """A value in the types of the view's columns."""
        types = enumerate((type for _, type in self.upkeep.columns), 1)
        heads = (f"CAST(c{number} AS {render.spelled(type)}) AS c{number}" for number, type in types)
        return self._table(f"{name}_typed", f"SELECT {listed(heads, VALID_FROM, VALID_TO)} FROM {name}")

    def _leaf(self, leaf: Leaf) -> str:
        """The table of a leaf, its columns by their names."""
        table = leaf.table if isinstance(leaf, Base) else leaf.base.table
        if table.name in self.tables:
            return self.tables[table.name]
        kind = "base" if isinstance(leaf, Base) else "deleted" if isinstance(leaf, Deleted) else "inserted"
        name = f"{kind}_{table.id}"
        if ("leaf " + kind, table.id) not in self.made:
            log = self._log(table)
            text = log.known(self.known) if kind == "base" else f"SELECT * FROM {self.made[kind, table.id]}"
            self.made["leaf " + kind, table.id] = self._table(name, log.named(text))
        return name

    def _log(self, table: TableSchema) -> LoggedTable:
        return self.logs.of(self.reading.tables[table.id], table)

    def _table(self, name: str, text: str) -> str:
        self.sql.table(name, text)
        return name
