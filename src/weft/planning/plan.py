"""From a query's text to its plan: the whole of Weft's compiling, in one screen, pure.

    text -> bind -> normalize -> lift -> branches of Q^I, closed form of Q^M

A plan belongs to a shape: the query without its constants (design section 5).  ``bound`` gives the SQL of its branches
for one query, its constants written in, or for many, joined with a table of their parameters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Final

from weft.algebra.access import Access
from weft.algebra.event import Event
from weft.algebra.relation import (
    Output,
    Query,
    Scan,
    all_scans,
    block,
    domain_columns,
    map_scalars,
    mentioned,
    rename_relation,
    rename_scalar,
    scalars,
)
from weft.algebra.scalar import Literal, Param, Scalar, columns, params
from weft.algebra.schema import BIGINT, TIMESTAMP, Column, DataType, TableSchema
from weft.derivation.access import access_paths, whole_tables
from weft.derivation.incremental import incremental, snapshot
from weft.derivation.lift import bind_params, lift
from weft.derivation.localize import localize
from weft.derivation.monotone import Verdict, minimum_bounding, verdict
from weft.derivation.normalize import normalize
from weft.sql import render
from weft.sql.branch import branch_sql, query_sql
from weft.sql.lower import bind

PARAMETERS: Final = "p"
"""The range variable of the parameter table."""
BEGINNING: Final = Literal(-(2**62), TIMESTAMP, fixed=True)
"""Where a window that is open at its beginning begins, where a branch asks for it."""


@dataclass(frozen=True)
class Branch:
    """One branch ready to run: its event, how it reaches its tables, and its SQL."""

    event: Event
    outputs: tuple[Output, ...]
    paths: Mapping[str, Access]
    sql: str


@dataclass(frozen=True)
class Plan:
    """A query's shape, and this query's constants.

    ``from_now`` marks a query that delivers only rows that were not in the answer just before (``--from now``).
    """

    query: Query
    lifted: Query
    values: tuple[Literal, ...]
    from_now: bool = False

    @cached_property
    def branches(self) -> tuple[Event, ...]:
        """The branches of Q^I, over parameters."""
        return incremental(self.lifted, from_now=self.from_now)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether Q^M has the closed form."""
        return verdict(self.lifted)

    @cached_property
    def first(self) -> tuple[Event, ...]:
        """Q^M over parameters: what the first tick of a query from the start runs."""
        return minimum_bounding(self.lifted) if self.verdict.closed and not self.from_now else self.branches

    @cached_property
    def time_driven(self) -> bool:
        """Whether rows can appear with no new data."""
        return any(event.driver.kind in ("now_from", "now_before") for event in self.branches)

    @cached_property
    def tables(self) -> tuple[TableSchema, ...]:
        """The tables read."""
        return tuple({scan.table.id: scan.table for scan in all_scans(self.lifted.input)}.values())

    @cached_property
    def parameters(self) -> tuple[Param, ...]:
        """The parameters by number."""
        found = {p for scalar in scalars(self.lifted.input) for p in params(scalar)}
        return tuple(sorted(found, key=lambda p: int(p.name[1:])))

    @cached_property
    def signature(self) -> str:
        """The same for two queries exactly if they differ in constants and names of aliases and columns only."""
        names = {scan.alias: f"t{number}" for number, scan in enumerate(all_scans(self.lifted.input), 1)}
        outputs = tuple(
            Output(f"c{number}", rename_scalar(output.value, names))
            for number, output in enumerate(self.lifted.outputs, 1)
        )
        shape = query_sql(Query(rename_relation(self.lifted.input, names), outputs))
        signs = [(p.name, str(p.type), p.sign) for p in self.parameters]
        tables = sorted((table.id, table.name) for table in self.tables)
        whole = repr((shape, signs, tables, [str(type) for type in self.lifted.types], self.from_now))
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The normalized query as SQL."""
        return query_sql(self.query)


def plan(text: str, tables: Mapping[str, TableSchema], *, from_now: bool = False) -> Plan:
    """Compiles a query's text over ``tables`` (by name).  Raises SqlError for what cannot stand."""
    query = normalize(bind(text, tables))
    lifted = lift(query)
    return Plan(query, lifted.query, lifted.values, from_now)


def for_one(
    event: Event, outputs: tuple[Output, ...], values: tuple[Literal, ...], window: Mapping[str, Scalar], whole: bool
) -> Branch:
    """A branch for one query: its constants written in.  ``window`` gives tau and t (left out: kept as :tau, :t)."""
    known = {f"p{number}": value for number, value in enumerate(values, 1)} | dict(window)
    return _ready(_bound(event, known), outputs, whole)


def parameter_table(plan_id: int, shape: Plan) -> TableSchema:
    """The schema of a plan's parameter table: query_id, tau, p1 …"""
    fields = [("query_id", BIGINT), ("tau", TIMESTAMP), *((p.name, p.type) for p in shape.parameters)]
    return TableSchema(
        0, f"parameters__{plan_id}", tuple(Column(n, label, type) for n, (label, type) in enumerate(fields, 1)), "tau"
    )


def for_many(
    event: Event, outputs: tuple[Output, ...], table: TableSchema, window: Mapping[str, Scalar], whole: bool
) -> Branch:
    """A branch for all queries of a plan: joined with the table of their parameters (NiagaraCQ; design section 5)."""
    scan = Scan(table, PARAMETERS)
    known: dict[str, Scalar] = {column.name: scan.ref(column.name) for column in table.columns} | dict(window)
    joined = _bound(replace(event, sources=(*event.sources, scan)), known)
    return _ready(joined, (Output("_query_id", scan.ref("query_id")), *outputs), whole)


def at_instant(query: Query, s: Scalar) -> Branch:
    """Q(s) as one SELECT (``weft try``)."""
    return _ready(snapshot(query, s), query.outputs, whole=True)


def _bound(event: Event, known: Mapping[str, Scalar]) -> Event:
    def change(scalar: Scalar) -> Scalar:
        return bind_params(scalar, known)

    driver = replace(event.driver, instant=change(event.driver.instant))
    return replace(event, driver=driver, condition=map_scalars(event.condition, change))


def _ready(event: Event, outputs: tuple[Output, ...], whole: bool) -> Branch:
    local = localize(event)
    paths = whole_tables(local) if whole else access_paths(local)
    return Branch(
        local, outputs, paths, branch_sql(local, outputs, {alias: path.view for alias, path in paths.items()})
    )


def encoded(value: Scalar) -> str:
    """SQL of a value's stored form, a string, lossless for every type (``storage.ledger.decode`` is its inverse)."""
    text = render.scalar(value)
    match value.type.name:
        case "STRING":
            return text
        case "TIMESTAMP":
            return f"CAST(UNIX_MICROS({text}) AS STRING)"
        case "DATE":
            return f"CAST(UNIX_DATE({text}) AS STRING)"
        case "BINARY":
            return f"BASE64({text})"
        case _:
            return f"CAST(CAST({text} AS {value.type}) AS STRING)"


def columns_of(query: Query) -> tuple[tuple[str, DataType], ...]:
    """The answer's columns."""
    return tuple((output.name, output.value.type) for output in query.outputs)


def columns_read(branch: Branch) -> dict[str, set[str]]:
    """By table, the names of the columns that a branch reads."""
    relation = block(branch.event.sources, branch.event.condition)
    refs = mentioned(relation) | columns(branch.event.instant) | domain_columns(relation)
    refs = refs.union(*(columns(output.value) for output in branch.outputs))
    read: dict[str, set[str]] = {}
    for scan in all_scans(relation):
        read.setdefault(scan.table.name, set()).update(ref.column for ref in refs if ref.scan == scan.alias)
    return read


def stored_parameter(value: Literal) -> tuple[str, str | int | float | bool | None]:
    """A constant as the catalog keeps it; ``restored_parameter`` is the inverse."""
    raw = value.value
    if isinstance(raw, bytes):
        return str(value.type), raw.hex()
    return str(value.type), str(raw) if isinstance(raw, (Decimal, float)) else raw


def restored_parameter(type_name: str, raw: str | int | float | bool | None) -> Literal:
    """A constant as it was when it was lifted."""
    type = DataType.parse(type_name)
    if raw is None or type.name not in ("DECIMAL", "DOUBLE", "FLOAT", "BINARY"):
        return Literal(raw, type)
    if type.name == "BINARY":
        return Literal(bytes.fromhex(str(raw)), type)
    return Literal(Decimal(str(raw)) if type.name == "DECIMAL" else float(str(raw)), type)
