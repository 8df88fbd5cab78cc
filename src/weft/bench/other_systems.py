"""Other systems that answer the paper's queries over the same messages, for ``weft bench paper``.

DuckDB computes each query in full and subtracts the rows that it already knows. PostgreSQL runs the paper's incremental
queries over a table with indexes, and maintains the result of each query with triggers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import csv

from weft.bench.bench_home import COLUMNS
from weft.errors import Refused
from weft.storage.local_sql import connect

_INDEXES: Final = ("ts", "msgid", "sender", "date", "newsgroup", "inreplyto")
"""The columns with an index in the paper (section 6.2.1). The rows arrive in the order of ``ts``."""


def with_ts(messages: pa.Table) -> pa.Table:
    """Return generated messages with the columns of the table, and ``ts``."""
    rows = messages.select([name for name, _ in COLUMNS])
    return rows.append_column("ts", rows.column("date"))


class DuckdbQueries:
    """The queries in full over Parquet files, with DuckDB in this process."""

    def __init__(self) -> None:
        self._connection = connect()

    def over(self, files: Sequence[str]) -> None:
        """Let ``msgs`` be the rows of these files."""
        listed = ", ".join("'{}'".format(file.replace("'", "''")) for file in files)
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW msgs AS SELECT * FROM read_parquet([{listed}])")

    def count(self, text: str) -> int:
        """Run a query and return the number of its rows."""
        return int(self._connection.execute(f"SELECT count(*) FROM ({text})").fetchall()[0][0])

    def new_rows(self, name: str, text: str) -> int:
        """Run the query, keep its rows as the known rows of ``name``, and return the number of rows that are new."""
        run = self._connection.execute
        run(f"CREATE TEMP TABLE IF NOT EXISTS known_{name} (msgid VARCHAR)")
        run(f"CREATE OR REPLACE TEMP TABLE new AS {text} EXCEPT SELECT msgid FROM known_{name}")
        run(f"INSERT INTO known_{name} SELECT msgid FROM new")
        return self.count("SELECT * FROM new")

    def close(self) -> None:
        """Drop the tables."""
        self._connection.close()


class PostgresQueries:
    """The queries in a schema of a PostgreSQL server on this machine. The schema is dropped at the end."""

    def __init__(self, uri: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise Refused("psycopg is not installed", hint="Run pip install 'weft[postgres]'.") from None
        self._connection = psycopg.connect(uri, autocommit=True)
        self._pid = self._connection.info.backend_pid
        if not Path(f"/proc/{self._pid}").exists():
            raise Refused("weft bench paper measures the processor time of PostgreSQL, which must run on this machine")
        self._run("DROP SCHEMA IF EXISTS weft_bench CASCADE; CREATE SCHEMA weft_bench; SET search_path = weft_bench")
        # The processor time is that of one process.
        self._run("SET TimeZone = 'UTC'; SET max_parallel_workers_per_gather = 0")
        columns = [f"{name} {'timestamptz' if name == 'date' else 'text'}" for name, _ in COLUMNS]
        self._run(f"CREATE TABLE msgs ({', '.join(columns)}, ts timestamptz)")
        self._run("CREATE TEMP TABLE arrived (LIKE msgs)")

    @property
    def processor(self) -> float:
        """The processor seconds of the server's process for this connection, which has one thread."""
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / 1e9

    def load(self, rows: pa.Table) -> None:
        """Insert the rows into ``msgs``."""
        self._copy("msgs", rows)

    def index(self) -> None:
        """Create the indexes of the paper, and count the rows for the planner."""
        for name in _INDEXES:
            self._run(f"CREATE INDEX msgs_{name} ON msgs ({name})")
        self._run("ANALYZE msgs")

    def index_together(self) -> None:
        """Replace the index of the newsgroup by one of the newsgroup and ts (figure 9)."""
        self._run("DROP INDEX msgs_newsgroup; CREATE INDEX msgs_newsgroup ON msgs (newsgroup, ts); ANALYZE msgs")

    def count(self, text: str) -> int:
        """Run a query and return the number of its rows."""
        return int(self._run(f"SELECT count(*) FROM ({text}) AS counted").fetchone()[0])

    def maintain(self, texts: Mapping[str, str]) -> None:
        """Store the result of each query, and let a trigger of each insertion extend it."""
        for name, text in texts.items():
            self._run(
                f"CREATE TABLE {name} (msgid text PRIMARY KEY); INSERT INTO {name} SELECT DISTINCT * FROM ({text}) q"
            )
            changes = " UNION ".join(deltas(text))
            self._run(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                f"INSERT INTO {name} {changes} ON CONFLICT DO NOTHING; RETURN NULL; END $$"
            )
            self._run(
                f"CREATE TRIGGER {name} AFTER INSERT ON msgs REFERENCING NEW TABLE AS added "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
            )

    def arrive(self, rows: pa.Table) -> dict[str, tuple[float, float]]:
        """Insert the rows with one statement. Return the seconds and processor seconds of each trigger.

        The server measures the seconds of each trigger, and the processor seconds of the statement are divided by them.
        """
        self._run("TRUNCATE arrived")
        self._copy("arrived", rows)
        before = self.processor
        [plan] = self._run("EXPLAIN (ANALYZE, FORMAT JSON) INSERT INTO msgs SELECT * FROM arrived").fetchone()[0]
        used, took = self.processor - before, plan["Execution Time"]
        return {
            each["Trigger Name"].upper(): (each["Time"] / 1000, used * each["Time"] / took) for each in plan["Triggers"]
        }

    def close(self) -> None:
        """Drop the schema and disconnect."""
        self._run("DROP SCHEMA weft_bench CASCADE")
        self._connection.close()

    def _copy(self, table: str, rows: pa.Table) -> None:
        text = BytesIO()
        csv.write_csv(rows, text, csv.WriteOptions(include_header=False))
        with self._connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.getbuffer())

    def _run(self, sql: str) -> Any:
        run: Callable[[Any], Any] = self._connection.execute
        return run(sql)


def deltas(text: str) -> list[str]:
    """Return the query once for each of its tables, with the inserted rows (``added``) in place of that table.

    >>> deltas("SELECT m.msgid FROM msgs m, msgs m1 WHERE m1.inreplyto = m.msgid")[1]
    'SELECT m.msgid FROM msgs m, added m1 WHERE m1.inreplyto = m.msgid'
    >>> deltas("SELECT msgid FROM msgs WHERE newsgroup = 'x'")
    ["SELECT msgid FROM added WHERE newsgroup = 'x'"]
    """
    places = [found.start() for found in re.finditer(r"\bmsgs\b", text)]
    return [f"{text[:place]}added{text[place + len('msgs') :]}" for place in places]
