"""The other side of the laws: what Weft derives, run branch by branch on an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oracle.engines import GRID, Engine, Row
from oracle.grammar import COLUMNS, TABLES, History
from weft.algebra.access import Access, DeltaScan, FullScan, Lookup
from weft.algebra.event import Event
from weft.algebra.scalar import Literal
from weft.algebra.schema import Column, DataType, TableSchema
from weft.derivation.access_paths import access_paths
from weft.planning.plan import PARAMETERS, Branch, Plan, for_many, for_one, parameter_table
from weft.sql import render
from weft.sql.branch import branch_sql

Delivered = dict[Row, int]
EXTRA = ("FALSE", "TRUE", "n = 1", "x IS NULL", "k = 0")
"""What the views of access paths hold beyond what they must: nothing, everything, something."""


def schemas(history: History) -> dict[str, TableSchema]:
    """The grammar's tables as Weft sees them; the end is a column only where rows end."""
    found = {}
    for number, name in enumerate(TABLES, 1):
        kinds = {**COLUMNS, **({"te": "TIMESTAMP"} if name in history.ending else {})}
        columns = tuple(Column(n, label, DataType.parse(kind)) for n, (label, kind) in enumerate(kinds.items(), 1))
        found[name] = TableSchema(number, name, columns, "ts", "te" if name in history.ending else None)
    return found


def instant(micros: int) -> Literal:
    """An instant of the grid, as the tick gives it."""
    return Literal(GRID + micros, DataType("TIMESTAMP"), fixed=True)


START = {"t0": instant(0)}
"""Time begins at the grid's 0."""


def union(plan: Plan, events: Iterable[Event], *, extra: str | None = None, null_safe: bool = False) -> str:
    """All branches as one statement over :tau and :t; with ``extra`` through their access paths, else whole tables."""
    found = [for_one(event, plan.values, START, whole=extra is None) for event in events]
    texts = [_through(null_safely(branch) if null_safe else branch, extra) for branch in found]
    return _union(texts, len(plan.lifted.outputs))


def null_safely(branch: Branch) -> Branch:
    """The branch read through paths that may look up by <=>."""
    paths = access_paths(branch.event, null_safe=True)
    views = {alias: path.view for alias, path in paths.items()}
    return replace(branch, paths=paths, sql=branch_sql(branch.event, views))


def union_many(plan: Plan, events: Iterable[Event], *, extra: str | None = None) -> str:
    """All branches for all rows of the parameter table, over :t."""
    table = parameter_table(1, plan)
    found = [for_many(event, table, START, whole=extra is None) for event in events]
    return _union([_through(branch, extra, table) for branch in found], len(plan.lifted.outputs) + 1)


def _union(texts: list[str], width: int) -> str:
    if not texts:
        return f"SELECT {', '.join(['NULL'] * (width + 1))} WHERE 1 = 0"
    return " UNION ALL ".join(f"SELECT * FROM ({text}) AS branch_{n}" for n, text in enumerate(texts))


def _through(branch: Branch, extra: str | None, parameters: TableSchema | None = None) -> str:
    """The branch's SQL with its views defined before it, each as small as its access path allows, or larger."""
    if extra is None:
        return branch.sql
    views: dict[str, list[str]] = {}
    for path in _ordered(branch.paths):
        if not isinstance(path, FullScan):
            definition = f"SELECT * FROM {path.table} WHERE {_restricted(path, parameters)}"
            views.setdefault(path.view, [f"SELECT * FROM {path.table} WHERE {extra}"]).append(definition)
    if not views:
        return branch.sql
    # UNION would merge duplicates of a row: a view holds each row of the table as often as the table does.
    shown = ", ".join(f"{name} AS ({_either(parts)})" for name, parts in views.items())
    return f"WITH {shown} {branch.sql}"


def _either(parts: list[str]) -> str:
    table = parts[0].split(" WHERE ")[0]
    conditions = dict.fromkeys(part.split(" WHERE ", 1)[1] for part in parts)
    return f"{table} WHERE {' OR '.join(f'({condition})' for condition in conditions)}"


def _ordered(paths: Mapping[str, Access]) -> list[Access]:
    """Delta scans, then look-ups, each after what it looks up through."""
    found: dict[Access, None] = {}

    def visit(path: Access) -> None:
        if isinstance(path, Lookup):
            visit(path.via)
        found[path] = None

    for path in paths.values():
        visit(path)
    return list(found)


def _restricted(path: Access, parameters: TableSchema | None) -> str:
    if isinstance(path, DeltaScan):
        shifted = f"{path.column}"
        for interval, count in path.shift.intervals:
            shifted += f" + {count} * {render.scalar(interval)}"
        shifted += f" + INTERVAL '{path.shift.micros}' MICROSECOND" if path.shift.micros else ""
        if parameters is None:
            return f":tau <= {shifted} AND {shifted} < :t"
        window = f"{PARAMETERS}.tau <= {shifted} AND {shifted} < :t"
        return f"EXISTS (SELECT 1 FROM {parameters.name} AS {PARAMETERS} WHERE {window})"
    assert isinstance(path, Lookup)
    same = f"via_row.{path.via_column} {'<=>' if path.null_safe else '='} {path.table}.{path.column}"
    return f"EXISTS (SELECT 1 FROM {path.via.view} AS via_row WHERE {same})"


def run(engine: Engine, text: str, tau: int, t: int) -> list[tuple[Row, int]]:
    """(row, instant) pairs of the branches over a window."""
    return [(row[:-1], row[-1]) for row in engine.run(text, tau=tau, t=t)]


def earliest(pairs: Iterable[tuple[Row, int]]) -> Delivered:
    """The least instant of each row."""
    found: Delivered = {}
    for row, s in pairs:
        found[row] = min(s, found.get(row, s))
    return found
