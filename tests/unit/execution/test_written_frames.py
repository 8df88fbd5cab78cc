"""The files that Spark writes of a DataFrame: what others left behind beside them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft.execution.tabular import spark_rows
from weft.store import store_of


class _Frame:
    """Writes as a DataFrame of Spark does, into one file."""

    write: Any

    def __init__(self) -> None:
        self.write = self

    def parquet(self, path: str, compression: str) -> None:
        folder = Path(path.removeprefix("file:"))
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), folder / "part-0.parquet", compression=compression)


def test_a_folder_that_goes_away_meanwhile_is_no_failure(tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "old").mkdir(parents=True)
    os.utime(given / "old", (0, 0))
    (given / "gone").symlink_to(tmp_path / "nowhere")  # listed, and not there when it is looked at
    with spark_rows(_Frame(), store_of(tmp_path), 10**15) as pieces:  # type: ignore[arg-type]
        assert [row for piece in pieces for row in piece.to_pylist()] == [{"x": 1}]
    assert [each.name for each in given.iterdir()] == ["gone"]
