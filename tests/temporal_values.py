"""Temporal views in DuckDB: recorded histories as tables, and the value of a view at an instant."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from weft.algebra.relation import Scan
from weft.algebra.schema import TIMESTAMP, VALID_FROM, VALID_TO, Column, DataType, TableSchema
from weft.algebra.temporal import Temporal
from weft.derivation.temporal.sequenced import sequenced
from weft.sql.dialects.duckdb_dialect import MACROS, local_text
from weft.sql.lower.query import bind_view
from weft.sql.rendering.render import spelled
from weft.sql.rendering.render_temporal import Evaluation, Leaf, value_sql

EPOCH = dt.datetime(1970, 1, 1)
Period = tuple[int, "int | None"]
"""[from, to) in microseconds. The end of an open period is None."""
Value = dict[tuple[Any, ...], list[Period]]
"""Map each row to its periods, in order."""


def tracked(number: int, name: str, /, **columns: str) -> TableSchema:
    """Return a tracked table with these columns and types."""
    given = [*((column, DataType.parse(type)) for column, type in columns.items())]
    named = [*given, (VALID_FROM, TIMESTAMP), (VALID_TO, TIMESTAMP)]
    return TableSchema(
        number, name, tuple(Column(place, *each) for place, each in enumerate(named, 1)), VALID_FROM, VALID_TO
    )


def day(text: str) -> int:
    """Return the first instant of a day in the paper's notation (``10/01/97``)."""
    return (dt.datetime.strptime(text, "%m/%d/%y") - EPOCH) // dt.timedelta(microseconds=1)


def moment(instant: int | None) -> dt.datetime | None:
    return None if instant is None else EPOCH + dt.timedelta(microseconds=instant)


def leaf_name(leaf: Leaf) -> str:
    """Return the view that a leaf of an expression reads: a table, or the deleted or inserted rows of a change."""
    return leaf.table.name if isinstance(leaf, Scan) else f"{type(leaf).__name__.lower()}_{leaf.base.table.name}"


class Histories:
    """Recorded histories as tables in DuckDB."""

    def __init__(self, tables: Iterable[TableSchema]) -> None:
        self.tables = {table.name: table for table in tables}
        self.connection = duckdb.connect(config={"threads": 1})
        for name, meaning in MACROS.items():
            self.connection.execute(f"CREATE MACRO {name} AS {meaning}")
        for name, table in self.tables.items():
            self.create(name, table)

    def create(self, name: str, table: TableSchema) -> None:
        """Create an empty table with this schema."""
        heads = ", ".join(f"{column.name} {spelled(column.type)}" for column in table.columns)
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} ({heads})")

    def load(self, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
        """Replace the rows of tables. A row is (values, from, to), with instants in microseconds."""
        script = []
        for name, given in rows.items():
            types = [column.type for column in self.tables[name].columns]
            shown = (", ".join(map(_constant, row, types)) for row in given)
            script.append(f"TRUNCATE {name}")
            if given:
                script.append(f"INSERT INTO {name} VALUES ({'), ('.join(shown)})")
        self.connection.execute("; ".join(script))

    def view(self, text: str, now: int, since: int = 0) -> Value:
        """Return the value of a view's query at ``now``."""
        return self.value(sequenced(bind_view(text, self.tables)), now, since)

    def value(self, relation: Temporal, now: int, since: int = 0) -> Value:
        """Return the value of a temporal relation at ``now``."""
        return self.read(value_sql(relation, leaf_name, Evaluation(now, since)))

    def read(self, sql: str) -> Value:
        found: Value = defaultdict(list)
        for row in self.connection.execute(local_text(sql)).fetchall():
            *values, start, end = (_micros(each) if isinstance(each, dt.datetime) else each for each in row)
            found[tuple(values)].append((start, end))
        return {row: sorted(periods, key=lambda each: each[0]) for row, periods in found.items()}


def _constant(value: Any, type: DataType) -> str:
    if value is None:
        return "NULL"
    return (
        f"TIMESTAMP '{moment(value)}'" if type == TIMESTAMP else repr(value) if isinstance(value, str) else str(value)
    )


def _micros(instant: dt.datetime) -> int:
    return (instant - EPOCH) // dt.timedelta(microseconds=1)
