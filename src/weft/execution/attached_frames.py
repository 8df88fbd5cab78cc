"""Read the files of attached tables with Spark (``storage.attached``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.catalog.records import TS
from weft.execution.driver_reader import local_frame
from weft.runtime.session import grant_access
from weft.sql.rendering.render import quoted
from weft.storage.attached import Attached
from weft.storage.columns import INSTANT
from weft.storage.delta_log import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_SCHEME: Final = re.compile(r"^[a-z0-9]+:/+")
_PATH = "_path"
_ROW = "_row"


def attached_frame(
    spark: SparkSession, files: Sequence[DataFile], every: StructType, wanted: Sequence[str]
) -> DataFrame:
    """Return the columns ``wanted`` of the files. ``every`` are all columns of the table.

    Spark joins each row with the description of its file, which is small, and, if rows have instants of their own, with
    these instants.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    described = [(file, file.attached) for file in files if file.attached is not None]
    for folder in {file.location.parent for file, _ in described}:
        grant_access(spark, folder)
    columns = {_own_name(attached.column) for _, attached in described if attached.column is not None}
    values = {name for _, attached in described for name in attached.values}
    stored = StructType([each for each in every.fields if each.name not in values and each.name not in {TS} - columns])
    # Spark encodes the path as in a URI, but keeps a + that a decoder reads as a space. It writes file:/ and file:///.
    path = "regexp_replace(url_decode(replace(_metadata.file_path, '+', '%2B')), '^[a-z0-9]+:/+', '/')"
    rows = spark.read.schema(stored).parquet(*(file.location.spark for file in files))
    rows = rows.selectExpr(*_renamed(stored), f"{path} AS {_PATH}", f"_metadata.row_index AS {_ROW}")
    rows = rows.join(F.broadcast(local_frame(spark, _facts(described, stored, sorted(values)))), _PATH, "left")
    own = [f"WHEN _column = {n} THEN _s_{n}" for n, name in enumerate(stored.names) if name in columns]
    instant = f"coalesce(_at, CASE {' '.join(own)} END)" if own else "_at"
    unknown = "CAST(raise_error('a file of an attached table has no description') AS TIMESTAMP)"
    dated = [place.spark for _, attached in described if (place := attached.instants_file) is not None]
    if dated:
        instants = spark.read.schema("entry STRING, row BIGINT, ts TIMESTAMP").parquet(*dated)
        instants = instants.selectExpr("entry AS _entry", f"row AS {_ROW}", "ts AS _own")
        rows, instant = rows.join(instants, ["_entry", _ROW], "left"), f"coalesce(_own, {instant})"
    rows = rows.selectExpr("*", f"CASE WHEN _entry IS NULL THEN {unknown} ELSE {instant} END AS _ts")
    if dated:
        rows = rows.where("_ts IS NOT NULL")
    return rows.selectExpr(*(f"{_source(name, every, stored, sorted(values))} AS {quoted(name)}" for name in wanted))


def _own_name(column: str) -> str:
    """Return the name in the home for the column with the instants. Spark finds a column in any spelling."""
    return TS if column.lower() == TS else column


def _renamed(stored: StructType) -> list[str]:
    """Name the stored columns by number, so that they differ from the columns of this module."""
    return [f"{quoted(name)} AS _s_{number}" for number, name in enumerate(stored.names)]


def _source(name: str, every: StructType, stored: StructType, values: Sequence[str]) -> str:
    if name == TS:
        return "_ts"
    if name in values:
        return f"CAST(_v_{values.index(name)} AS {every[name].dataType.simpleString()})"
    return f"_s_{stored.names.index(name)}"


def _facts(described: Sequence[tuple[DataFile, Attached]], stored: StructType, values: Sequence[str]) -> pa.Table:
    """Return a row for each file: its path, entry, instant, the number of its column of instants, and its values."""
    names, attached = list(stored.names), [each for _, each in described]
    facts = {
        _PATH: pa.array([_SCHEME.sub("/", file.location.spark) for file, _ in described], pa.string()),
        "_entry": pa.array([each.entry for each in attached], pa.string()),
        "_at": pa.array([each.at for each in attached], pa.int64()).cast(INSTANT),
        "_column": pa.array([each.column and names.index(_own_name(each.column)) for each in attached], pa.int32()),
    }
    for number, name in enumerate(values):
        facts[f"_v_{number}"] = pa.array([each.values.get(name) for each in attached], pa.string())
    return pa.table(facts)
