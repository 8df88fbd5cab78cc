"""The tested side of the laws: run Weft's derived branches on an engine, one after another.

A query takes the path of an installed query. Its stored form runs (``planning.form``), grouped as in a tick
(``execution.groups``), over the new rows that a tick would read (``execution.windows``). Views over the engine's tables
replace the readers of files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from oracle.engines import GRID, DuckDb, Engine, Row
from oracle.grammar import TABLES
from oracle.histories import COLUMNS, History
from weft.algebra.access import Access, DeltaScan, FullScan, KeyScan, Lookup
from weft.algebra.relation import Recursive, StateSchema
from weft.algebra.scalar import Literal
from weft.algebra.schema import Column, DataType, TableSchema
from weft.catalog.records import QueryRecord
from weft.derivation import stateful
from weft.derivation.recursion import ROUND
from weft.derivation.stateful import key_columns
from weft.execution import recursion
from weft.execution.groups import Group, Member, instant
from weft.execution.recursion import Found, fixpoint, with_periods
from weft.execution.windows import slices_between, slices_of
from weft.period_sql.notation import DUCKDB, Dialect
from weft.planning.form import StoredForm, restored_plan, stored_form, stored_parameter
from weft.planning.plan import Branch, Plan, parameter_table, plan
from weft.planning.recursion_plan import Derived, RecursionPlan, continued_recursion, recursion_plan, tables_read
from weft.planning.state_plan import (
    Keys,
    asked,
    changed_sql,
    is_due,
    is_partitioned,
    keys_sql,
    keys_view,
    may_continue,
    since,
    state_deltas,
    state_rows,
    suffix,
    timeless,
    touched_keys,
    window_of,
)
from weft.sql.rendering import render
from weft.storage.slices import Slice

Delivered = dict[Row, int]
Pair = tuple[Row, int, int]
"""A row, its instant, the branch that gave it."""
EXTRA = ("FALSE", "TRUE", "n = 1", "x IS NULL", "k = 0")
"""The further rows in the views of access paths: none, all, or some."""
DEEPEST = 20
"""The most steps of a recursion."""
START = GRID
"""Time begins at the grid's 0."""


def schemas(history: History) -> dict[str, TableSchema]:
    """The grammar's tables as Weft sees them; the end is a column only where rows end."""
    found = {}
    for number, name in enumerate(TABLES, 1):
        kinds = {**COLUMNS, **({"te": "TIMESTAMP"} if name in history.ending else {})}
        columns = tuple(Column(n, label, DataType.parse(kind)) for n, (label, kind) in enumerate(kinds.items(), 1))
        found[name] = TableSchema(number, name, columns, "ts", "te" if name in history.ending else None)
    return found


@dataclass(frozen=True)
class Standing:
    """An installed query: the compiled plan, its stored form, and the plan that is read back."""

    compiled: Plan
    form: StoredForm
    shape: Plan

    @classmethod
    def of(cls, text: str, tables: Mapping[str, TableSchema], *, from_now: bool = False) -> Standing:
        """Compiles, stores and restores; raises SqlError as ``plan`` does."""
        found = plan(text, tables, from_now=from_now)
        form = stored_form(found)
        return cls(found, form, restored_plan(form.body, form.signature, tables.values()))

    @cached_property
    def values(self) -> tuple[Literal, ...]:
        """The query's constants as they were stored."""
        return self.member(1, None).values

    def member(self, query_id: int, tau: int | None, values: Sequence[Literal] | None = None) -> Member:
        """The query in a tick, with constants of its own or others; ``tau`` on the grid."""
        stored = self.form.parameters if values is None else tuple(map(stored_parameter, values))
        record = QueryRecord(
            query_id, f"q{query_id}", "", "", 1, stored, (), None, "start", None, None, 1, "active", None, 0, None,
            self.form.names,
        )  # fmt: skip
        return Member(record, None if tau is None else GRID + tau, GRID)

    def group(self, members: Sequence[Member], t: int, *, time_driven_only: bool = False) -> Group:
        """The queries in a tick at ``t`` on the grid."""
        ticked = tuple(replace(member, t=GRID + t) for member in members)
        return Group(1, self.shape, ticked, GRID + t, START, time_driven_only)


def rows_of(
    group: Group, extra: str | None, branches: Sequence[Branch] | None = None, states: StateTables | None = None
) -> str:
    """All branches of a group as one statement: query_id where they are several, the row, its instant, the branch's
    number; with ``extra`` through views that hold more than they must."""
    branches = group.branches() if branches is None else branches
    news = slices_of([(group, tuple(branches))])
    texts = [through(branch, news, extra or "FALSE", states) for branch in branches]
    return united(texts, len(group.shape.query.outputs))


def united(texts: Sequence[str], width: int) -> str:
    """The branches' rows, their instant and the number of the branch."""
    if not texts:
        return f"SELECT {', '.join(['NULL'] * (width + 2))} WHERE 1 = 0"
    return " UNION ALL ".join(f"SELECT *, {n} FROM ({text}) AS branch_{n}" for n, text in enumerate(texts))


def through(branch: Branch, news: Mapping[str, Sequence[Slice]], extra: str, states: StateTables | None = None) -> str:
    """The branch's SQL with its views defined before it, each as small as its access path allows, or larger."""
    known = {state.name: state for state in stateful.states(branch.event.relation)}
    return with_views(definitions(branch.paths.values(), news, extra, known, states), branch.sql)


def with_views(views: Sequence[str], text: str) -> str:
    """A query after the definitions of its views."""
    return f"WITH {', '.join(views)} {text}" if views else text


def definitions(
    paths: Iterable[Access],
    news: Mapping[str, Sequence[Slice]],
    extra: str,
    known: Mapping[str, StateSchema],
    states: StateTables | None,
    suffix: str = "",
) -> list[str]:
    """The views of access paths.  ``known`` are the states among their tables, whose rows ``states`` computes."""
    by_view: dict[str, list[Access]] = {}
    for path in sorted(_ordered(paths), key=lambda path: path.step if isinstance(path, Lookup) else 0):
        by_view.setdefault(path.view, []).append(path)
    found: list[str] = []
    for view, same in by_view.items():
        name, table = view + suffix, same[0].table
        if table in known:
            assert states is not None, "a law that runs branches over states prepares them"
            rows = states.read(known[table], same, found, suffix)
            if any(map(is_due, same)) and all(isinstance(path, DeltaScan) for path in same):
                rows += f" WHERE {_restricted(same[0], news, suffix)}"
            found.append(f"{name} AS (SELECT * FROM {rows})")
        elif isinstance(same[0], (FullScan, KeyScan)):
            found += [f"{name} AS (SELECT * FROM {table})"] if suffix else []
        else:
            # One pass over the table, since UNION would merge duplicates of a row.
            more = "FALSE" if table == ROUND else extra
            conditions = dict.fromkeys((*(_restricted(path, news, suffix) for path in same), more))
            found.append(f"{name} AS (SELECT * FROM {table} WHERE {' OR '.join(f'({c})' for c in conditions)})")
    return found


def _ordered(paths: Iterable[Access]) -> list[Access]:
    """Return the paths, each after the path whose keys it looks up."""
    found: dict[Access, None] = {}

    def visit(path: Access) -> None:
        if isinstance(path, Lookup):
            visit(path.via)
        found[path] = None

    for path in paths:
        visit(path)
    return list(found)


def _restricted(path: Access, news: Mapping[str, Sequence[Slice]], suffix: str) -> str:
    """Which rows a view must hold."""
    if isinstance(path, Lookup):
        equal = "IS NOT DISTINCT FROM" if path.null_safe else "="
        assert not path.via_key.fields and not path.key.fields
        same = f"via_row.{path.via_key.column} {equal} {path.table}.{path.key.column}"
        return f"EXISTS (SELECT 1 FROM {path.via.view}{suffix} AS via_row WHERE {same})"
    assert isinstance(path, DeltaScan)
    return " OR ".join(
        (f"{render.timestamp(part.low)} <= {part.column} AND " if part.low is not None else "")
        + f"{part.column} < {render.timestamp(part.high)}"
        for part in news[path.table]
    )


@dataclass
class StateTables:
    """Compute the rows of states on DuckDB, as ``execution.states`` does: all groups, the groups that change in the
    window, or the groups that a look-up names."""

    engine: DuckDb
    extra: str = "FALSE"
    made: dict[tuple[str, str], str] = field(default_factory=dict)
    read_by: Counter[str] = field(default_factory=Counter)
    """How often states were read, by the way of reading."""
    stored: dict[str, tuple[int, str]] | None = None
    """Where the last tick stored the rows of recursions: its end and a table, by the name of ``timeless``."""

    def fill(self, branches: Iterable[Branch]) -> None:
        """Make the tables of states for branches that read whole tables."""
        for branch in branches:
            for state in stateful.states(branch.event.relation):
                self._once(state, "whole")

    def read(self, state: StateSchema, same: Sequence[Access], before: Sequence[str], suffix: str) -> str:
        """The table with the rows that the paths need; ``before`` defines the views of earlier paths."""
        if self.stored is not None and continued_recursion(state) is not None:
            news = all(isinstance(path, DeltaScan) and not is_due(path) for path in same)
            return self.continued(state)[0 if news else 1]
        groups = asked(state, same)
        if not isinstance(groups, int):
            return self._once(state, groups)
        look_ups = [path for path in same if isinstance(path, Lookup)]
        keys = Keys((groups,), (key_columns(state)[groups][1],), (any(path.null_safe for path in look_ups),))
        (name,) = keys.columns
        assert not any(path.via_key.fields for path in look_ups)
        vias = (
            f"SELECT {path.via_key.column} AS {name} FROM {path.via.view}{suffix}"
            + ("" if path.null_safe else f" WHERE {path.via_key.column} IS NOT NULL")
            for path in look_ups
        )
        text = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(vias)}) AS vias"
        self.read_by["look-up"] += 1
        return self._rows(f"{state.name}_{len(self.made)}", state, keys, with_views(before, text))

    def _once(self, state: StateSchema, what: str) -> str:
        if (state.name, what) not in self.made:
            self.read_by[what] += 1
            name = state.name if what == "whole" else f"{state.name}_{what}"
            self.made[state.name, what] = self._rows(name, state, None) if what == "whole" else self._news(name, state)
        return self.made[state.name, what]

    def _news(self, name: str, state: StateSchema) -> str:
        (tau, t), begins = window_of(state), state.window[2]
        branches, kinds = touched_keys(state), tuple(kind for _, kind in key_columns(state))
        begun = isinstance(begins, Literal) and isinstance(begins.value, int) and tau is not None and tau > begins.value
        if tau is None or not (kinds or begun):  # a group without keys begins at t0, also without rows
            return self._once(state, "whole")
        if not branches:
            return self._nothing(name, state)
        known = {each.name: each for branch in branches for each in stateful.states(branch.event.relation)}
        paths = [path for branch in branches for path in branch.paths.values()]
        views = definitions(paths, slices_between(paths, tau, t), self.extra, known, self, suffix(state))
        touched = f"touched_{state.name}"
        if not self.engine.table(touched, with_views(views, keys_sql(branches, len(kinds)))):
            return self._nothing(name, state)
        if not kinds:
            return self._once(state, "whole")
        places = tuple(range(len(kinds)))
        nulls = ", ".join(f"COUNT(*) FILTER (WHERE k{n + 1} IS NULL) > 0" for n in places)
        (null,) = self.engine.run(f"SELECT {nulls} FROM {touched}")
        keys = Keys(places, kinds, null)
        named = ", ".join(f"k{n + 1} AS {column}" for n, column in zip(places, keys.columns, strict=True))
        return self._rows(name, state, keys, f"SELECT {named} FROM {touched}", changed=True)

    def _nothing(self, name: str, state: StateSchema) -> str:
        if isinstance(state.operator, Recursive):
            self._rows(name, state, None)
            self.engine.table(name, f"SELECT * FROM {name} WHERE FALSE")
            return name
        return self._rows(name, state, None, empty=True)

    def _rows(
        self,
        name: str,
        state: StateSchema,
        keys: Keys | None,
        given: str = "",
        *,
        changed: bool = False,
        empty: bool = False,
    ) -> str:
        if given:
            self.engine.table(keys_view(state), given)
        if isinstance(state.operator, Recursive):
            return self._recursion(name, state)
        plan_ = state_rows(state, keys)
        known = {each.name: each for each in plan_.reads}
        views = definitions(plan_.paths.values(), {}, self.extra, known, self, suffix(state))
        text = changed_sql(plan_, DUCKDB) if changed else plan_.sql(DUCKDB)
        self.engine.table(name, with_views(views, f"SELECT * FROM ({text}) AS none LIMIT 0" if empty else text))
        self.made.setdefault((state.name, name), name)
        return name

    def _recursion(self, name: str, state: StateSchema) -> str:
        """The rounds of a recursion, over tables in place of the views of its inputs."""
        plan_ = recursion_plan(state)
        self._inputs(plan_, tables_read((*plan_.first, *plan_.steps)), {})
        found = fixpoint(Rounds(self.engine), plan_, DEEPEST)
        self.engine.table(name, found.rows)
        if self.stored is not None and continued_recursion(state) is not None:
            self._store(state, found, [])
        return name

    def _inputs(self, plan_: RecursionPlan, paths: Sequence[Access], news: Mapping[str, Sequence[Slice]]) -> None:
        known = {each.name: each for each in plan_.reads}
        before: list[str] = []
        for view in definitions(paths, news, self.extra, known, self, suffix(plan_.state)):
            read = view.split(" AS ", 1)[0]
            if read == plan_.last_round:
                before.append(view)  # its table has the rows of the round
            else:
                self.engine.table(read, with_views([*before, view], f"SELECT * FROM {read}"))

    def whole(self, state: StateSchema) -> str:
        """The table with all rows of a state."""
        return self._once(state, "whole")

    def off(self, state: StateSchema, times: Iterable[int]) -> list[Row] | None:
        """Where the rows of a state's input just before its window, and the exact deltas, are not the rows at one of
        the instants ``times`` in the window: the instant, the row and by how much.  None if it has no exact deltas."""
        deltas, (tau, t) = state_deltas(state), window_of(state)
        if deltas is None or tau is None:
            return None
        whole = state_rows(state, None)
        for name, text, plan_, paths, slices in (
            ("lives_", whole.lives(DUCKDB), whole, whole.paths.values(), {}),
            ("deltas_", deltas.sql, deltas, deltas.paths, slices_between(deltas.paths, tau, t)),
        ):
            known = {each.name: each for each in plan_.reads}
            views = definitions(paths, slices, self.extra, known, self, suffix(state))
            self.engine.table(name, with_views(views, text or "SELECT *, 1 AS sign FROM lives_ LIMIT 0"))
        self.read_by["deltas"] += 1
        self.read_by["deltas of subqueries"] += any(map(is_partitioned, deltas.reads))
        names = [name for name, *_ in self.engine.connection.execute("DESCRIBE lives_").fetchall()][:-2]
        listed = "".join(f", {name}" for name in names)
        within = [GRID + each for each in times if tau <= GRID + each < t]
        if not within:
            return []
        at = ", ".join(f"({render.timestamp(each)})" for each in within)
        alive = "valid_from <= {0} AND (valid_to IS NULL OR {0} < valid_to)"
        before = alive.format(render.timestamp(tau - 1))
        return self.engine.run(
            f"SELECT s{listed}, SUM(n) FROM ("
            f"SELECT s{listed}, 1 AS n FROM lives_, (VALUES {at}) AS v(s) WHERE {before} "
            f"UNION ALL SELECT s{listed}, sign FROM deltas_, (VALUES {at}) AS v(s) WHERE {alive.format('s')} "
            f"UNION ALL SELECT s{listed}, -1 FROM lives_, (VALUES {at}) AS v(s) WHERE {alive.format('s')}) AS every "
            f"GROUP BY ALL HAVING SUM(n) <> 0"
        )

    def continued(self, state: StateSchema) -> tuple[str, str]:
        """The tables with the new rows of a recursion and with all its rows."""
        assert self.stored is not None
        (tau, t), known = window_of(state), self.stored.get(timeless(state).name)
        if known is None or tau is None or known[0] > tau or not may_continue(state, known[0]):
            return self.whole(state), self.whole(state)
        news, every = f"{state.name}_news", f"{state.name}_with_stored"
        if (state.name, news) in self.made:
            return news, every
        self.made[state.name, news] = news
        at, before = known
        plan_ = continued_recursion(since(state, instant(at)))
        assert plan_ is not None
        self.read_by["stored rows"] += 1
        engine = Rounds(self.engine)
        engine.table(plan_.stored, with_periods(plan_, before))

        def read(parts: Sequence[Derived], keys: Mapping[str, pa.Table]) -> None:
            engine.table(ROUND, f"SELECT * FROM {plan_.stored}")
            for view, rows in keys.items():
                self.engine.connection.register("given_keys", rows)
                engine.table(view, "SELECT * FROM given_keys")
            paths = tables_read(parts)
            self._inputs(plan_, paths, slices_between(paths, at, t))

        found = recursion.continued(engine, plan_, DEEPEST, read)
        engine.table(news, found.rows)
        kept = f"SELECT * EXCLUDE (depth) FROM {plan_.kept}"
        self.read_by["touched rows"] += bool(self.engine.run(f"SELECT 1 FROM {plan_.touched} LIMIT 1"))
        self._store(state, found, [f"SELECT * EXCLUDE (valid_from, valid_to) FROM {plan_.kept}"])
        engine.table(every, f"SELECT * FROM {news} UNION ALL {kept}")
        return news, every

    def _store(self, state: StateSchema, found: Found, before: Sequence[str]) -> None:
        assert self.stored is not None
        table, (_, t) = f"last_of_{state.name}", window_of(state)
        self.engine.table(table, " UNION ALL ".join([*before, found.last]))
        self.stored[timeless(state).name] = t, table


@dataclass
class Rounds:
    """The part of an engine that computes the rounds of a recursion."""

    engine: DuckDb
    dialect: Dialect = DUCKDB

    def size(self, _: str) -> None:
        """The number of rows is unknown, so a tick never derives all rows because many are touched."""

    def table(self, name: str, sql: str) -> bool:
        """Replaces a table; whether it has rows."""
        return self.engine.table(name, sql) > 0

    def view(self, name: str, sql: str) -> None:
        """Replace a table that is used in place of a view."""
        self.engine.table(name, sql)

    def rows(self, sql: str) -> pa.Table:
        """The rows of a query."""
        return self.engine.connection.sql(sql).to_arrow_table()


def run(engine: Engine, text: str) -> list[Pair]:
    """The rows of a statement of ``united``."""
    return [(row[:-2], row[-2], row[-1]) for row in engine.run(text)]


def in_table(engine: Engine, standing: Standing, members: Sequence[Member]) -> None:
    """Fills the parameter table of a group of several queries."""
    table = parameter_table(1, standing.shape)
    rows = [
        (
            member.query.query_id,
            None if member.tau is None else member.tau - GRID,
            *(_on_grid(value) for value in member.values),
        )
        for member in members
    ]
    engine.parameters(table.name, {column.name: str(column.type) for column in table.columns}, rows)


def _on_grid(value: Literal) -> object:
    is_instant = value.type.name == "TIMESTAMP" and isinstance(value.value, int)
    return value.value - GRID if is_instant and isinstance(value.value, int) else value.value


def earliest(pairs: Iterable[Pair]) -> Delivered:
    """The least instant of each row."""
    found: Delivered = {}
    for row, s, _ in pairs:
        found[row] = min(s, found.get(row, s))
    return found
