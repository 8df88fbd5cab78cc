"""Spark with Delta Lake in a process of its own: another program that reads and extends the tables that Weft wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa


@dataclass
class DeltaSpark:
    """The process. Tables go to and from the process as files in ``folder``."""

    requests: IO[str]
    replies: Iterator[str]
    folder: Path

    def read(self, table: str, *columns: str, where: str = "true") -> pa.Table:
        """Return the rows of a Delta table for which ``where`` is true. ``columns`` are SQL expressions."""
        self._ask(act="read", table=table, columns=columns or ["*"], where=where)
        with pa.ipc.open_file(self.folder / "rows.arrow") as file:
            return file.read_all()

    def types(self, table: str) -> list[str]:
        """Return the types of a table's columns in Spark's notation."""
        found: list[str] = self._ask(act="types", table=table)
        return found

    def append(self, table: str, rows: pa.Table, options: Mapping[str, str] = {}) -> None:
        """Append rows to a Delta table in one commit."""
        with pa.ipc.new_file(self.folder / "rows.arrow", rows.schema) as file:
            file.write_table(rows)
        self._ask(act="append", table=table, options=dict(options))

    def sql(self, text: str) -> None:
        """Run a statement, such as CREATE TABLE, OPTIMIZE or VACUUM."""
        self._ask(act="sql", text=text)

    def _ask(self, **request: Any) -> Any:
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        return json.loads(next(self.replies))


@contextmanager
def delta_spark(folder: Path) -> Iterator[DeltaSpark]:
    """Start Spark with Delta Lake, and stop the process after the ``with`` block."""
    command = [sys.executable, __file__, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield DeltaSpark(process.stdin, iter(process.stdout), folder)
        process.stdin.close()


def answer_requests(folder: Path) -> None:
    """Answer each line of standard input with one line of JSON."""
    from weft.bench.delta_session import delta_session
    from weft.runtime.session import stop_session

    spark, exchanged = delta_session(folder), folder / "rows.arrow"
    spark.conf.set("spark.sql.runSQLOnFiles", "true")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for line in sys.stdin:
        request, reply = json.loads(line), None
        match request["act"]:
            case "append":
                with pa.ipc.open_file(exchanged) as file:
                    rows = spark.createDataFrame(file.read_all()).coalesce(1)
                rows.write.format("delta").mode("append").options(**request["options"]).save(request["table"])
            case "sql":
                spark.sql(request["text"])
            case "types":
                fields = spark.read.format("delta").load(request["table"]).schema.fields
                reply = [field.dataType.simpleString().upper() for field in fields]
            case "read":
                frame = spark.read.format("delta").load(request["table"])
                found = frame.where(request["where"]).selectExpr(*request["columns"]).toArrow()
                with pa.ipc.new_file(exchanged, found.schema) as file:
                    file.write_table(found)
        print(json.dumps(reply), flush=True)
    stop_session()


if __name__ == "__main__":
    answer_requests(Path(sys.argv[1]))
