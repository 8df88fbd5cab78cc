"""The other side of the laws: what Weft derives, run branch by branch on an engine.

A query goes the way of an installed one: its stored form is what is run (``planning.form``), grouped as a tick groups
it (``execution.groups``), over the news that a tick would read (``execution.windows``).  Only what reads files is not
there: views over the engine's tables stand for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from oracle.engines import GRID, Engine, Row
from oracle.grammar import TABLES
from oracle.histories import COLUMNS, History
from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.algebra.scalar import Literal
from weft.algebra.schema import Column, DataType, TableSchema
from weft.catalog.records import QueryRecord
from weft.execution.groups import Group, Member
from weft.execution.windows import slices_of
from weft.planning.form import StoredForm, restored_plan, stored_form, stored_parameter
from weft.planning.plan import Branch, Plan, parameter_table, plan
from weft.sql import render
from weft.storage.slices import Slice

Delivered = dict[Row, int]
Pair = tuple[Row, int, int]
"""A row, its instant, the branch that gave it."""
EXTRA = ("FALSE", "TRUE", "n = 1", "x IS NULL", "k = 0")
"""What the views of access paths hold beyond what they must: nothing, everything, something."""
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
    """An installed query: what was compiled, what is kept of it, and what that reads back as."""

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


def rows_of(group: Group, extra: str | None, branches: Sequence[Branch] | None = None) -> str:
    """All branches of a group as one statement: query_id where they are several, the row, its instant, the branch's
    number; with ``extra`` through views that hold more than they must."""
    branches = group.branches() if branches is None else branches
    news = slices_of([(group, tuple(branches))])
    return united([through(branch, news, extra or "FALSE") for branch in branches], len(group.shape.query.outputs))


def united(texts: Sequence[str], width: int) -> str:
    """The branches' rows, their instant and the number of the branch."""
    if not texts:
        return f"SELECT {', '.join(['NULL'] * (width + 2))} WHERE 1 = 0"
    return " UNION ALL ".join(f"SELECT *, {n} FROM ({text}) AS branch_{n}" for n, text in enumerate(texts))


def through(branch: Branch, news: Mapping[str, Sequence[Slice]], extra: str) -> str:
    """The branch's SQL with its views defined before it, each as small as its access path allows, or larger."""
    views: dict[str, tuple[str, dict[str, None]]] = {}
    for path in _ordered(branch.paths):
        if not isinstance(path, FullScan):
            views.setdefault(path.view, (path.table, {}))[1][_restricted(path, news)] = None
    if not views:
        return branch.sql
    # One pass over the table, since UNION would merge duplicates of a row.
    shown = ", ".join(
        f"{name} AS (SELECT * FROM {table} WHERE {' OR '.join(f'({c})' for c in (*conditions, extra))})"
        for name, (table, conditions) in views.items()
    )
    return f"WITH {shown} {branch.sql}"


def _ordered(paths: Mapping[str, Access]) -> list[Access]:
    """Each path after what it looks up through."""
    found: dict[Access, None] = {}

    def visit(path: Access) -> None:
        if isinstance(path, Lookup):
            visit(path.via)
        found[path] = None

    for path in paths.values():
        visit(path)
    return list(found)


def _restricted(path: DeltaScan | Lookup, news: Mapping[str, Sequence[Slice]]) -> str:
    """Which rows a view must hold."""
    if isinstance(path, Lookup):
        same = f"via_row.{path.via_column} {'<=>' if path.null_safe else '='} {path.table}.{path.column}"
        return f"EXISTS (SELECT 1 FROM {path.via.view} AS via_row WHERE {same})"
    return " OR ".join(
        (f"{render.timestamp(part.low)} <= {part.column} AND " if part.low is not None else "")
        + f"{part.column} < {render.timestamp(part.high)}"
        for part in news[path.table]
    )


def run(engine: Engine, text: str) -> list[Pair]:
    """What a statement of ``united`` gives."""
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
