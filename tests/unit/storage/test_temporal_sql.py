"""One DuckDB serves all maintenances of a process: each has what it makes to itself, and all are in UTC."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from weft.algebra.schema import BIGINT, Column, TableSchema
from weft.configuration import spill_folder
from weft.errors import ExecutionError, LimitExceeded
from weft.storage.columns import stored_schema
from weft.storage.data_files import FileForm
from weft.storage.delta_log import DataFile
from weft.storage.local_sql import _started, connect
from weft.storage.temporal_sql import _PREPARED, temporal_sql
from weft.storage.time_limit import time_limit
from weft.store import store_of

ASKED = """
from weft.storage.temporal_sql import temporal_sql
for _ in range(2):
    with temporal_sql() as sql:
        print(sql.one("SELECT current_setting('TimeZone')"))
"""


def test_it_is_in_utc_wherever_the_machine_is() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["UTC", "UTC"]


def test_tables_of_a_connection_are_private_and_end_with_the_block() -> None:
    with temporal_sql() as one, temporal_sql(1) as other:
        assert (one.table("made", "SELECT 1 AS c1"), other.table("made", "SELECT 1 AS c1 LIMIT 0")) == (1, 0)
        assert (one.one("SELECT COUNT(*) FROM made"), other.one("SELECT COUNT(*) FROM made")) == (1, 0)
    with temporal_sql() as later, pytest.raises(ExecutionError, match="made"):
        later.one("SELECT COUNT(*) FROM made")


@pytest.mark.parametrize("text", ["2147483647::INTEGER + 1::INTEGER", "'1e9'::DOUBLE::SMALLINT", "nothing"])
def test_a_failed_computation_is_one_error(text: str) -> None:
    with temporal_sql() as sql, pytest.raises(ExecutionError, match="the rows cannot be computed"):
        sql.one(f"SELECT {text}")


def test_a_result_may_fail_in_the_middle() -> None:
    """pyarrow hides the class of DuckDB's errors after the first piece of a result."""
    with temporal_sql() as sql:
        sql.table("numbers", "SELECT range::INTEGER AS n FROM range(300000)")
        text = "SELECT CASE WHEN n < 299999 THEN n ELSE 2147483647 END + 1::INTEGER AS n FROM numbers"
        with pytest.raises(ExecutionError, match="the rows cannot be computed: Out of Range Error"):
            list(sql.batches(text))


def test_a_result_ends_at_the_time_limit() -> None:
    endless = "SELECT a.range * b.range AS n FROM range(100000000) AS a, range(100000000) AS b"
    with pytest.raises(LimitExceeded), time_limit(0.3), temporal_sql() as sql:
        for _ in sql.batches(endless):
            pass


def test_one_that_cannot_be_used_any_more_is_replaced() -> None:
    with temporal_sql() as sql:
        assert sql.one("SELECT 1") == 1
    _started[str(spill_folder()), 2, _PREPARED].close()
    with temporal_sql() as sql:
        assert sql.one("SELECT current_setting('TimeZone')") == "UTC"


def test_two_threads_read_stored_tables_under_one_name(tmp_path: Path) -> None:
    """A view that is not temporary belongs to all connections: the second thread meets that of the first."""
    tables = {name: TableSchema(1, name, (Column(1, name, BIGINT),)) for name in ("a", "b")}
    files = {}
    for number, (name, table) in enumerate(tables.items()):
        place = store_of(tmp_path / name)
        place.make()
        new = FileForm(place, stored_schema(table), ()).write([pa.table({name: [number]})])
        files[name] = DataFile(new.location, new.size, new.rows, {}, {})

    def read(name: str) -> list[str]:
        found = []
        for _ in range(50):
            with temporal_sql() as sql:
                sql.stored("rows_1", [files[name]], tables[name])
                found.append(str(sql.rows("SELECT * FROM rows_1").to_pydict()))
        return found

    with ThreadPoolExecutor(2) as pool:
        assert list(map(set, pool.map(read, tables))) == [{"{'a': [0]}"}, {"{'b': [1]}"}]


def test_the_macros_do_not_hide_functions_from_other_connections() -> None:
    with temporal_sql() as sql, connect() as plain:
        assert sql.one("SELECT ltrim('  x')") == "x"
        assert plain.execute("SELECT ltrim('--x', '-')").fetchall() == [("x",)]


@pytest.mark.timeout(60)
def test_an_interrupt_during_a_statement_stays_an_interrupt() -> None:
    """No query is at fault, so the tick ends instead of looking for one that fails."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest-xdist ignores the signal
    send = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with temporal_sql(1) as sql, pytest.raises(KeyboardInterrupt):
        send.start()
        try:
            sql.one("SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b WHERE a.range * b.range % 7 = 3")
        finally:
            send.cancel()
            signal.signal(signal.SIGINT, before)
