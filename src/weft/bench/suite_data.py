"""The data of TPC-H and Nexmark in batches: the rows of each table that arrive together, as Parquet files.

TPC-H's data come from the program ``tpchgen-cli`` (PyPI). The rows of each table are divided in their order, and the
rows of a batch have one ts. Nexmark's data are divided by the numbers of the events, and each row has its own time.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from weft.bench import nexmark_texts, tpch_texts
from weft.errors import ExecutionError, Refused
from weft.storage.local_sql import connect

_PROGRAM: Final = "tpchgen-cli"
_FIRST: Final = 1_577_836_800_000_000
"""The ts of TPC-H's first batch: 2020-01-01 00:00:00 UTC."""
_APART: Final = 60_000_000
"""The microseconds for each 0.0001 of the rows, the smallest batch."""


class SuiteData(Protocol):
    """The tables and the queries of a suite."""

    @property
    def queries(self) -> Mapping[str, str]:
        """Map names to texts."""
        ...

    def batch(self, low: float, high: float) -> Iterator[tuple[str, str]]:
        """Yield each table and DuckDB's query for those of its rows that lie between two shares of all rows.

        The query has the column ts.
        """
        ...

    def instant(self, high: float) -> int:
        """Return an instant in microseconds UTC at which all rows below the share have arrived."""
        ...


@dataclass(frozen=True)
class Tpch:
    """The tables of TPC-H at a scale factor, in ``folder``."""

    folder: Path
    scale: float

    @property
    def queries(self) -> Mapping[str, str]:
        """The 22 queries."""
        return tpch_texts.queries(self.scale)

    def generate(self) -> None:
        """Write the tables. Raise Refused without the program, and ExecutionError if the program fails."""
        program = shutil.which(_PROGRAM, path=str(Path(sys.executable).parent)) or shutil.which(_PROGRAM)
        if program is None:
            raise Refused(f"{_PROGRAM} is not installed", hint=f"Install it: pip install {_PROGRAM}.")
        command = [program, "-s", str(self.scale), "--format=parquet", "--output-dir", str(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ExecutionError(f"{_PROGRAM} failed: {done.stderr.strip()}")

    def batch(self, low: float, high: float) -> Iterator[tuple[str, str]]:
        """Yield each table and the query for its rows between two shares."""
        at = f"make_timestamp({self.instant(high)})"
        for table in tpch_texts.TABLES:
            file = f"read_parquet('{self.folder / table}.parquet', file_row_number = true)"
            count = f"(SELECT COUNT(*) FROM {file})"
            yield (
                table,
                (
                    f"SELECT * EXCLUDE (file_row_number), {at} AS ts FROM {file} "
                    f"WHERE file_row_number >= FLOOR({low} * {count}) AND file_row_number < FLOOR({high} * {count})"
                ),
            )

    def instant(self, high: float) -> int:
        """Return the instant of the last batch below the share."""
        return _FIRST + round(high * 10_000) * _APART


@dataclass(frozen=True)
class Nexmark:
    """The tables of Nexmark."""

    events: nexmark_texts.Events

    @property
    def queries(self) -> Mapping[str, str]:
        """The queries that stand."""
        return nexmark_texts.QUERIES

    def batch(self, low: float, high: float) -> Iterator[tuple[str, str]]:
        """Yield each table and the query for its rows between two shares."""
        first, last = (round(share * self.events.count) for share in (low, high))
        for table in nexmark_texts.COLUMNS:
            if table != "side_input":
                yield table, f'SELECT *, "dateTime" AS ts FROM ({self.events.sql(table, first, last)}) AS given'
            elif not first:
                rows = self.events.sql(table)
                yield table, f"SELECT *, make_timestamp({self.events.begin}) AS ts FROM ({rows}) AS given"

    def instant(self, high: float) -> int:
        """Return the instant of the last event below the share."""
        return self.events.begin + max(0, round(high * self.events.count) - 1) * self.events.step


def write(data: SuiteData, low: float, high: float, folder: Path) -> Iterator[tuple[str, Path]]:
    """Write the rows of a batch, and yield each table with rows and its file."""
    folder.mkdir(parents=True, exist_ok=True)
    with connect() as connection:
        for table, query in data.batch(low, high):
            file = folder / f"{table}.parquet"
            connection.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
            found = connection.execute(f"SELECT COUNT(*) FROM '{file}'").fetchone()
            if found and found[0]:
                yield table, file
