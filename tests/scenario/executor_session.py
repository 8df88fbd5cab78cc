"""Write the files of a Delta table by the executors of the cluster that the environment names.

    python executor_session.py FOLDER

The first attempt to write partition 0 fails after it has written its file. The first attempt to write partition 1 does
not end, so that Spark starts a second one. The process prints one line of JSON: the rows of the table, and the names of
the committed files and of all files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from weft.execution.executor_files import write_files
from weft.runtime.session import spark_session, stop_session
from weft.storage.data_files import FileForm, NewFile
from weft.storage.table import Fence, Table
from weft.store import store_of

PARTITIONS = 4
ROWS = 1_000
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


class Faulty(FileForm):
    """A form whose first attempts fail or hang after they have written a file."""

    def write(self, pieces: Iterable[pa.Table], name: str | None = None) -> NewFile:
        from pyspark import TaskContext

        new = FileForm.write(self, pieces, name)
        task = TaskContext.get()
        assert task is not None
        with suppress(ImportError):
            import pandas

            raise AssertionError(f"{pandas} is there, although this test hides it")
        if task.attemptNumber() == 0 and task.partitionId() == 0:
            raise OSError("the connection was lost")
        if task.attemptNumber() == 0 and task.partitionId() == 1:
            time.sleep(600)
        return new


def main(folder: Path) -> None:
    """Write, commit, and print what is there."""
    without = folder / "without-pandas"
    without.mkdir()
    (without / "pandas.py").write_text("raise ImportError('Weft does not require pandas')")
    sys.path.insert(0, str(without))
    spark = spark_session(
        folder, conf={**SPECULATION, "spark.executorEnv.PYTHONPATH": f"{without}:{os.environ.get('PYTHONPATH', '')}"}
    )
    table = Table(store_of(folder / "table"))
    table.ensure(pa.schema([("id", pa.int64())]), {})
    rows = spark.range(0, ROWS, numPartitions=PARTITIONS)
    form = table.form()
    new = write_files(rows, Faulty(form.folder, form.schema, form.with_statistics))
    table.append(new, Fence("test", 1))
    stored = [value for batch in table.scan(form.schema) for value in batch.column("id").to_pylist()]
    committed = [file.name for file in table.files()]
    print(json.dumps({"rows": stored, "committed": committed, "there": table.place.names()}), flush=True)
    stop_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
