"""Generate a directory of employees with a history. The size alone determines the contents.

The directory has four tables and 1,000 changes a day, in proportion to the row counts of the tables. Each day, 475
changes concern employees, 475 concern assignments, 49 concern projects, and one concerns a department. Every key of a
table changes once before any key changes again. The order of these changes is unrelated to the key values. A change
ends the open row of a key and starts the next row of the key. In a table of ``n`` rows, change number ``j`` therefore
starts version ``j // n + 1`` of a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from weft.algebra.schema import VALID_FROM, VALID_TO, DataType, TableSchema
from weft.storage.changes import OP, ORDER, OWN
from weft.storage.columns import conformed, stored_schema
from weft.storage.local_sql import connect
from weft.storage.periods import TS

DAY: Final = 86_400_000_000
BEGIN: Final = 631_152_000_000_000
"""1990-01-01 00:00 UTC, when the first rows of every table start."""
CHANGES: Final = 1_000
"""The number of changes a day. The changes of a day form one batch."""
MIN_EMPLOYEES: Final = 1_000
"""The minimum number of employees. With fewer employees, some key would change twice a day."""
_STRIDE: Final = 15_485_863
"""A prime number, because every key must change once before any key changes again."""


@dataclass(frozen=True)
class DirectoryTable:
    """A table of the directory.

    The columns are SQL expressions over the key ``k`` and the version ``v``. The first column is the key. The table
    always has ``rows`` open rows. The number of open rows that change every day is ``daily``.
    """

    name: str
    rows: int
    daily: int
    columns: tuple[tuple[str, str, str], ...]

    @property
    def typed(self) -> tuple[tuple[str, DataType], ...]:
        """The columns with their types."""
        return tuple((name, DataType.parse(kind)) for name, kind, _ in self.columns)

    @property
    def key(self) -> str:
        """The name of the key column."""
        return self.columns[0][0]

    def first(self, log: TableSchema) -> pa.Table:
        """Return the log rows of the first day."""
        rows = (
            f"SELECT i AS k, 0 AS v, {BEGIN} AS since, NULL AS until, {BEGIN} AS stamp FROM range({self.rows}) AS t(i)"
        )
        return conformed(_arrow(self._logged(rows)), stored_schema(log))

    def days(self, first: int, last: int, log: TableSchema) -> pa.Table:
        """Return the log rows for the changes of the days in [``first``, ``last``).

        Day 1 is the day after the first rows. Recording each day separately would give the same log rows.
        """
        before = self._day(f"j - {self.rows}")
        text = f"""WITH changes AS ({self._changes(first, last)})
            SELECT k, v, stamp AS since, NULL AS until, stamp FROM changes
            UNION ALL SELECT k, v - 1 AS v, {before} AS since, stamp AS until, stamp FROM changes"""
        return conformed(_arrow(self._logged(text)), stored_schema(log))

    def changes(self, day: int) -> pa.Table:
        """Return the changes of one day, in the form of a source's changes (``storage.changes``)."""
        text = f"SELECT {self._values}, 'U' AS {OP}, stamp AS {OWN}, j AS {ORDER} FROM ({self._changes(day, day + 1)})"
        return _arrow(text)

    @property
    def _values(self) -> str:
        return ", ".join(f"CAST({value} AS {_DUCK[kind]}) AS {name}" for name, kind, value in self.columns)

    def _changes(self, first: int, last: int) -> str:
        """The query returns the number ``j``, the instant, the key and the new version of each change."""
        numbers = f"range({(first - 1) * self.daily}, {(last - 1) * self.daily}) AS t(j)"
        key = f"(j * {_STRIDE}) % {self.rows}"
        return f"SELECT j, {key} AS k, j // {self.rows} + 1 AS v, {self._day('j')} AS stamp FROM {numbers}"

    def _day(self, number: str) -> str:
        """Return SQL for the instant of the change with this number. Rows of the first day have negative numbers."""
        return f"{BEGIN} + CASE WHEN {number} < 0 THEN 0 ELSE ({number}) // {self.daily} + 1 END * {DAY}"

    def _logged(self, rows: str) -> str:
        instants = f"make_timestamptz(since) AS {VALID_FROM}, make_timestamptz(until) AS {VALID_TO}"
        return f"SELECT {self._values}, {instants}, make_timestamptz(stamp) AS {TS} FROM ({rows})"


_DUCK: Final = {"BIGINT": "BIGINT", "STRING": "VARCHAR"}
_LASTING: Final = "hash(k, v - hash(k, v) % 2)"
"""An SQL expression for a number that changes only with every second version of a row."""


def tables(employees: int) -> tuple[DirectoryTable, ...]:
    """Return the four tables of a directory with ``employees`` employees."""
    projects, departments = employees // 10, max(employees // 1_000, 2)
    dept = "CASE WHEN {0} = 0 THEN 'Development' ELSE 'Department ' || {0} END".format
    id_, title = ("id", "BIGINT", "k"), ("title", "STRING", "'Project ' || k")
    of_project = (("project", "BIGINT", "k"), title, ("lead", "BIGINT", "k + v"))
    return (
        DirectoryTable(
            "employees",
            employees,
            475,
            (
                id_,
                ("dept", "STRING", dept(f"({_LASTING} % {departments})")),
                ("name", "STRING", "'Employee ' || k"),
                ("office", "STRING", "'room ' || hash(k, v, 'office') % 1000"),
                ("phone", "STRING", "(k * 100 + v % 100)::VARCHAR"),
            ),
        ),
        DirectoryTable(
            "assignments",
            employees,
            475,
            (
                id_,
                ("project", "BIGINT", f"{_LASTING} % {projects}"),
                ("supervisor", "BIGINT", f"(k + v) % {employees}"),
            ),
        ),
        DirectoryTable("projects", projects, 49, of_project),
        DirectoryTable(
            "departments",
            departments,
            1,
            (
                ("dept", "STRING", dept("k")),
                ("building", "STRING", "'building ' || hash(k) % 10"),
                ("head", "BIGINT", "k + v"),
            ),
        ),
    )


def days_of(periods: int, employees: int) -> int:
    """Return the number of days after which the directory has about ``periods`` periods."""
    return (periods - sum(table.rows for table in tables(employees))) // CHANGES


def _arrow(sql: str) -> pa.Table:
    with connect() as connection:
        return connection.sql(sql).to_arrow_table()
