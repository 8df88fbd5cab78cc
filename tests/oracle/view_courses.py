"""A view over random courses of its tables, maintained as in a home, over files of log rows.

A course is the known content of the tables at each instant of the grid: rows begin, end and begin again, in several
tables at one instant, and the past is sometimes corrected. Views are refreshed at some of the instants.

The planning of the SQL takes most of the time of a maintenance. Most views are therefore maintained for several courses
at once. Each table has one more column, ``course``, which joins compare (``apart``), and each course is checked alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oracle.view_grammar import DRAWN, LAST, TABLES, history, state_at
from oracle.view_terms import (
    Among,
    Combined,
    Compared,
    Condition,
    From,
    Grouped,
    Item,
    Joined,
    Negated,
    Query,
    Row,
    Select,
    State,
    There,
    periods,
)
from oracle.view_terms import (
    Column as Named,
)
from temporal_values import Value
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.catalog.records import TableRecord, table_schema
from weft.derivation.temporal.delta_propagation import Kind
from weft.execution.engines.duckdb import duckdb_engine
from weft.execution.engines.engine import Engine, Rows
from weft.execution.look_ups import LookUps
from weft.execution.temporal.computing import RefreshInput, view_change
from weft.period_sql.notation import DUCKDB
from weft.planning.view_plan import ViewPlan, bound_view
from weft.storage.columns import stored_schema
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DataFile
from weft.storage.periods import TS
from weft.storage.temporal_sql import TemporalSql
from weft.store import store_of

SHARDS = 8
TRIED = 2
"""From how many of them `make test` tries views."""
WORDS = (
    "EXISTS", "NOT EXISTS", "UNION", "EXCEPT", "OR", "JOIN", "NOW()", "PERIOD_START", "PERIOD_END", "PERIOD_LENGTH",
    "PERIOD_CONTAINS", "PERIOD_OVERLAPS", "MOVING_WINDOW", "COUNT(*)", "SUM(", "AVG(", "MIN(", "MAX(",
)  # fmt: skip
EQUATIONS = (*(f"c.{number}" for number in range(1, 21)), "r.6", "r.7", "r.9")
COURSE = "course"
"""The column that says which course a row is of."""
Held = dict[Row, set[int]]
"""Row -> the instants at which it holds, up to the one as of which that is known."""
LogRows = list[tuple[Any, ...]]
"""Log rows: values, from, to, ts."""


@dataclass(frozen=True)
class Course:
    """The known content of each table by instant, and the number of corrections."""

    known: Sequence[Mapping[str, Held]]
    corrections: int

    def state(self, now: int, more: Row = ()) -> State:
        """For the definitions; with ``more``, the number of the course, at the end of each row."""
        tables = {
            name: {(*row, *more): frozenset(at) for row, at in held.items()} for name, held in self.known[now].items()
        }
        return State(now, tables, {name: (*columns, *[COURSE][: len(more)]) for name, columns in TABLES.items()})

    def log_rows(self, table: str, after: int, until: int) -> LogRows:
        """The log rows that were recorded in (after, until]."""
        found: LogRows = []
        for now in range(after + 1, until + 1):
            old = _periods(self.known[now - 1][table], now - 1) if now else {}
            new = _periods(self.known[now][table], now)
            gone = ((*key, key[-1], now) for key in old.keys() - new.keys())
            come = ((*key, end, now) for key, end in new.items() if key not in old or old[key] != end)
            found += [*gone, *come]
        return found

    def changes(self, table: str, after: int, until: int) -> tuple[bool, bool]:
        """Whether anything was deleted from, and inserted into, what was known: what was open lasted until changed."""
        old, new = self.known[after][table], self.known[until][table]
        lasting = {row: at | ({*range(after, until + 1)} if after in at else set()) for row, at in old.items()}
        gone = any(at - new.get(row, set()) for row, at in lasting.items())
        return gone, any(at - lasting.get(row, set()) for row, at in new.items())


def informative_course(query: Query, chance: random.Random, instants: Sequence[int]) -> Course:
    """A course along which a view changes, if such a one is soon found."""
    for _ in range(TRIES):
        found = course(chance)
        values = [found.state(t).temporal(query) for t in instants]
        if any(value.keys() != values[-1].keys() for value in values) and any(values):
            break
    return found


def course(chance: random.Random) -> Course:
    """A random one."""
    full, corrections = history(chance), 0
    known: list[dict[str, Held]] = []
    for now in range(LAST + 1):
        there = state_at(now, full).tables
        before = known[-1] if known else {name: {} for name in TABLES}
        tables: dict[str, Held] = {}
        for name in TABLES:
            held = {row: set(at) for row, at in before[name].items()}
            for row, at in there[name].items():
                held.setdefault(row, set()).update(at & {now})
            corrections += now > 1 and chance.random() < 0.06 and _corrected(chance, name, held, now)
            tables[name] = {row: at for row, at in held.items() if at}
        known.append(tables)
    return Course(known, corrections)


def _corrected(chance: random.Random, table: str, held: Held, now: int) -> bool:
    """A row is said to have held, or not to have, in a stretch of the past; whether that changes anything."""
    drawn = tuple(chance.choice(DRAWN[type]) for type in TABLES[table].values())
    row = chance.choice(sorted(held, key=repr)) if held and chance.random() < 0.7 else drawn
    begin = chance.randrange(now)
    stretch = {*range(begin, chance.randint(begin + 1, now))}
    before = set(held.setdefault(row, set()))
    held[row] = before | stretch if chance.random() < 0.5 else before - stretch
    return held[row] != before


def _periods(held: Held, now: int) -> dict[tuple[Any, ...], int | None]:
    """By row and first instant, the end of each period; None: open."""
    return {(*row, start): end for row, at in held.items() for start, end in periods(at, now)}


def one_for_all(query: Query | Condition | Item | None) -> bool:
    """Whether there is an aggregate without GROUP BY, which several courses would have in common."""
    match query:
        case Grouped(keys=()):
            return True
        case Select(over=over) | Grouped(over=over):
            return any(map(one_for_all, (*over.items, over.where, over.on)))
        case Combined(left=left, right=right):
            return one_for_all(left) or one_for_all(right)
        case Item(given=Select() | Combined() | Grouped() as inner) | There(query=inner) | Among(query=inner):
            return one_for_all(inner)
        case Joined(parts=parts):
            return any(map(one_for_all, parts))
        case Negated(part=part):
            return one_for_all(part)
        case _:
            return False


def apart(query: Query, courses: int, outer: str | None = None) -> Query:
    """The query for several courses: it gives ``course``, or inside of another one agrees with that of ``outer``."""
    if isinstance(query, Combined):
        return replace(query, left=apart(query.left, courses, outer), right=apart(query.right, courses, outer))
    first = query.over.items[0].alias
    over = _from(query.over, courses, outer)
    if isinstance(query, Grouped):
        return replace(query, over=over, keys=(*query.keys, (Named(first, COURSE), COURSE)))
    outputs = query.outputs if outer else (*query.outputs, (Named(first, COURSE), COURSE))
    return replace(query, over=over, outputs=outputs)


def _from(over: From, courses: int, outer: str | None) -> From:
    items = tuple(_item(item, courses) for item in over.items)
    first = items[0].alias
    meeting = [*(item.alias for item in items[1:]), *([outer] if outer else [])]
    same = [Compared("=", Named(each, COURSE), Named(first, COURSE)) for each in meeting]
    where = [] if over.where is None else [_condition(over.where, courses, first)]
    on = None if over.on is None else _condition(over.on, courses, first)
    every = (*same, *where)
    return From(items, Joined("AND", every) if len(every) > 1 else every[0] if every else None, on)


def _item(item: Item, courses: int) -> Item:
    if isinstance(item.given, str):
        return replace(item, columns=(*item.columns, COURSE))
    if isinstance(item.given, tuple):
        rows = tuple((*row, number) for row in item.given for number in range(courses))
        return replace(item, given=rows, columns=(*item.columns, COURSE))
    given = apart(item.given, courses)
    return replace(item, given=given, columns=given.names)


def _condition(condition: Condition, courses: int, first: str) -> Condition:
    match condition:
        case There(query=query) | Among(query=query):
            return replace(condition, query=apart(query, courses, first))
        case Joined(parts=parts):
            return replace(condition, parts=tuple(_condition(part, courses, first) for part in parts))
        case Negated(part=part):
            return Negated(_condition(part, courses, first))
        case _:
            return condition


def record(number: int, name: str, columns: Iterable[tuple[str, DataType]]) -> TableRecord:
    """A tracked table as a catalog has it."""
    given = [*columns, (VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP), (TS, TIMESTAMP)]
    stored = tuple(Column(place, *each) for place, each in enumerate(given, 1))
    schema = table_schema(number, name, stored, tracked=True)
    return TableRecord(
        schema, name, tuple(TABLES.get(name, ())), None, 0, 0, None, None, TableSchema(number, name, stored)
    )


def records(columns: Mapping[str, Mapping[str, str]]) -> dict[str, TableRecord]:
    """The tables by name."""
    return {
        name: record(number, name, ((column, DataType.parse(type)) for column, type in given.items()))
        for number, (name, given) in enumerate(columns.items(), 1)
    }


ALONE = records(TABLES)
SEVERAL = records({name: {**columns, COURSE: "INT"} for name, columns in TABLES.items()})
TRIES = 4
KEPT = 10
"""The id of the view's own table."""


@dataclass
class Keeping:
    """A view's log and its tables' along some courses, in a folder."""

    query: Query
    courses: Sequence[Course]
    folder: Path
    engine: Callable[[], AbstractContextManager[Engine]] = lambda: duckdb_engine(1)
    tau: int | None = None
    files: dict[int, list[DataFile]] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    kept: dict[tuple[Any, ...], int | None] = field(default_factory=dict)
    """The end of each period in the view's log, by row and first instant."""

    def __post_init__(self) -> None:
        self.several = len(self.courses) > 1
        self.asked = apart(self.query, len(self.courses)) if self.several else self.query
        self.tables = SEVERAL if self.several else ALONE
        self.view_plan: ViewPlan = bound_view(
            self.asked.text(), {name: each.schema for name, each in self.tables.items()}
        )
        self.own = record(KEPT, "kept", self.view_plan.columns)

    def expected(self, number: int, t: int) -> Value:
        """The value of the view at t in one course, by the definitions."""
        state = self.courses[number].state(t, (number,) if self.several else ())
        found = state.temporal(self.asked)
        return {row: periods(at, t) for row, at in found.items() if not self.several or row[self._place] == number}

    @property
    def _place(self) -> int:
        return self.asked.names.index(COURSE)

    def value(self, number: int) -> Value:
        """The content of the view's log for one course."""
        found: Value = {}
        for (*row, start), end in sorted(self.kept.items(), key=lambda period: period[0][-1]):
            if not self.several or row[self._place] == number:
                found.setdefault(tuple(row), []).append((start, end))
        return found

    def refresh(self, t: int, *, from_scratch: bool = False) -> None:
        """Maintains the view at t, or computes it from scratch."""
        for name, table in self.tables.items():
            self._add(table, self._log_rows(name, -1 if self.tau is None else self.tau, t))
        records = (*self.tables.values(), self.own)
        tables = {each.table_id: replace(each, last_ts=self.last.get(each.table_id)) for each in records}
        files = {key: tuple(self.files.get(key, ())) for key in tables}
        reading = RefreshInput(tables, files, 0, self.tau, t)
        with self.engine() as engine:
            form = partial(FileForm, store_of(self.folder), stored_schema(tables[KEPT].stored), ())
            look_ups = LookUps(self.folder) if engine.dialect == DUCKDB else None
            change = view_change(
                engine,
                self.view_plan,
                tables[KEPT],
                reading,
                look_ups,
                from_scratch=from_scratch,
                dated=False,
                form=form,
            )
        log_rows = [] if change is None else [tuple(row.values()) for row in _whole(_read(change.rows)).to_pylist()]
        self._add(self.own, log_rows)
        for *key, end, _ in log_rows:
            self.kept[tuple(key)] = end
            if end == key[-1]:
                del self.kept[tuple(key)]
        self.tau = t

    def _log_rows(self, name: str, after: int, until: int) -> LogRows:
        """The log rows of all courses."""
        return [
            (*row[:-3], *([number] if self.several else []), *row[-3:])
            for number, each in enumerate(self.courses)
            for row in each.log_rows(name, after, until)
        ]

    def _add(self, table: TableRecord, log_rows: LogRows) -> None:
        """A file of these log rows, with its statistics."""
        if not log_rows:
            return
        key, schema = table.table_id, stored_schema(table.stored)
        place = self.folder / f"{key}-{len(self.files.get(key, ()))}.parquet"
        columns = zip(zip(*log_rows, strict=True), schema, strict=True)
        arrays = [pa.array(values, _plain(each.type)).cast(each.type) for values, each in columns]
        pq.write_table(pa.table(arrays, schema=schema), place)
        instants = [row[-1] for row in log_rows]
        least, greatest = {TS: min(instants)}, {TS: max(instants)}
        file = DataFile(store_of(place), place.stat().st_size, len(log_rows), least, greatest)
        self.files.setdefault(key, []).append(file)
        self.last[key] = max(instants)

    def ran(self, after: int, t: int) -> set[str]:
        """The equations of a maintenance, and the rules by which terms were dropped."""
        plan, kinds, changed = self.view_plan.plan, set[Kind](), []
        for table in self.view_plan.tables:
            found = [each.changes(table.name, after, t) for each in self.courses]
            gone, come = any(one for one, _ in found), any(other for _, other in found)
            kinds |= {"deletions"} if gone else set()
            kinds |= {"insertions"} if come else set()
            changed += [table] if gone or come else []
        derived = [plan.refresh, *([plan.change(changed, kinds)] if changed else [])]
        dropped = {f"dropped {each.rule}" for one in derived for each in one.dropped}
        return dropped | {step.rule for one in derived for step in one.trace}


def optimize(sql: TemporalSql, *, wanted: bool) -> None:
    """Turn DuckDB's optimizer on or off. Small queries are planned sooner without it."""
    every = sql.connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    disabled = "" if wanted else ",".join(name for (name,) in every)
    sql.connection.execute(f"SET GLOBAL disabled_optimizers = '{disabled}'")


def _read(rows: Rows) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.concat_tables(pq.read_table(file.location.path) for file in rows)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _whole(rows: pa.Table) -> pa.Table:
    """Instants as microseconds."""
    return rows.cast(pa.schema([each.with_type(_plain(each.type)) for each in rows.schema]))
