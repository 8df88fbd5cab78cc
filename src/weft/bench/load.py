"""``weft bench load``: compare loading a large file with Weft and with Spark and Delta Lake.

    weft bench load --rows 10000000 --rounds 3

Weft loads the file into a table of a new home (``weft ingest file``). Spark loads the file into a Delta table, with a
given schema. For CSV, Spark also runs with an inferred schema, because Weft infers a schema. The methods
alternate in one process with a warm Spark session. The report gives medians.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from weft.api.weft import Weft
from weft.bench.delta_session import delta_session
from weft.bench.times import folder_for_tables, write_figures
from weft.errors import ExecutionError, Refused
from weft.runtime.session import stop_session
from weft.storage.local_sql import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: Final = ("parquet", "csv")
WEFT: Final = "Weft"
GIVEN: Final = "Spark, schema given"
INFERRED: Final = "Spark, schema inferred"
_WARM_ROWS: Final = 200_000
_SCHEMA: Final = "id BIGINT, at TIMESTAMP, name STRING, amount DOUBLE, count INT"
_ROWS: Final = """SELECT i AS id, make_timestamp(1577836800000000 + i * 1000000 + (hash(i) % 900000)::BIGINT) AS "at",
    'name of ' || (hash(i) % 1000000) || ' x' AS name, (hash(i + 7) % 100000000) / 100.0 AS amount,
    (hash(i + 3) % 1000)::INTEGER AS count FROM range({rows}) AS numbers(i)"""


@dataclass
class LoadTimes:
    """The wall seconds of one method for one file, with one entry per round."""

    rows: int
    format: str
    bytes: int
    way: str
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median duration of the rounds in seconds."""
        return statistics.median(self.seconds)


def compare(
    rows: int,
    formats: Sequence[str],
    rounds: int,
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Measure each method for each format, print the results, and write the figures to ``out`` as JSON.

    Raise Refused for a format not in FORMATS. Raise ExecutionError if a method did not store every row.
    """
    other = next((kind for kind in formats if kind not in FORMATS), None)
    if other is not None:
        raise Refused(
            f"{other!r} is not a format of this benchmark", hint=f"Use one of the formats {', '.join(FORMATS)}."
        )
    times: list[LoadTimes] = []
    with folder_for_tables(folder) as place:
        spark = delta_session(place / "session")
        for kind in formats:
            small = write_file(place, _WARM_ROWS, kind)
            for way in ways(kind):
                load(place, small, _WARM_ROWS, kind, way, spark)
            file = write_file(place, rows, kind)
            measured = [LoadTimes(rows, kind, file.stat().st_size, way) for way in ways(kind)]
            for number in range(rounds):
                for each in measured:
                    each.seconds.append(load(place, file, rows, kind, each.way, spark))
                    progress(f"  {number + 1}: {kind}, {each.way}: {each.seconds[-1]:.1f} s")
            file.unlink()
            times += measured
        stop_session()
    progress(report(times))
    figures = [{**asdict(each), "median": each.median, "rows_a_second": each.rows / each.median} for each in times]
    write_figures(out, json.dumps(figures, indent=2) + "\n", progress)


def ways(kind: str) -> list[str]:
    """Return the names of the methods for loading a file of this format."""
    return [WEFT, GIVEN, INFERRED] if kind == "csv" else [WEFT, GIVEN]


def write_file(place: Path, rows: int, kind: str) -> Path:
    """Write a file of ``rows`` rows with five columns, and return the path."""
    file = place / f"{rows}.{kind}"
    options = "FORMAT csv, HEADER" if kind == "csv" else "FORMAT parquet, COMPRESSION snappy"
    with connect() as connection:
        connection.execute(f"COPY ({_ROWS.format(rows=rows)}) TO '{file}' ({options})")
    return file


def load(place: Path, file: Path, rows: int, kind: str, way: str, spark: SparkSession) -> float:
    """Load the file into a temporary folder with one method, and return the elapsed seconds."""
    with TemporaryDirectory(prefix="loaded-", dir=place) as text:
        target = Path(text) / "target"
        before = time.perf_counter()
        if way == WEFT:
            with Weft.open(target, clock="wall", create=True) as weft:
                stored = weft.ingest_file(file, "loaded").stored
            seconds = time.perf_counter() - before
        else:
            reading = spark.read.option("header", True)
            reading = reading.option("inferSchema", True) if way == INFERRED else reading.schema(_SCHEMA)
            read = reading.csv(str(file)) if kind == "csv" else reading.parquet(str(file))
            read.write.format("delta").save(str(target))
            seconds = time.perf_counter() - before
            stored = spark.read.format("delta").load(str(target)).where("at IS NOT NULL").count()
    if stored != rows:
        raise ExecutionError(f"{way} stored {stored:,} of {rows:,} rows")
    return seconds


def report(times: Sequence[LoadTimes]) -> str:
    """Return a table with one row per method. The last column is the time of Weft divided by the time of the method.

    >>> print(report([LoadTimes(4000000, "csv", 1, WEFT, [3.0, 4.0, 9.0]), LoadTimes(4000000, "csv", 1, GIVEN, [5.0])]))
    file      way                       seconds  rows a second  Weft / it
    csv       Weft                          4.0      1,000,000
    csv       Spark, schema given           5.0        800,000       0.80
    """
    lines = [f"{'file':<10}{'way':<24}{'seconds':>9}{'rows a second':>15}{'Weft / it':>11}"]
    own = {each.format: each.median for each in times if each.way == WEFT}
    for each in times:
        line = f"{each.format:<10}{each.way:<24}{each.median:9.1f}{each.rows / each.median:15,.0f}"
        lines.append(line if each.way == WEFT else f"{line}{own[each.format] / each.median:11.2f}")
    return "\n".join(lines)
