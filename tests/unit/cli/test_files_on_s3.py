"""Files on S3 are loaded as local files are: objects, folders and patterns."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from s3_server import SECRET
from weft.store import S3Store

Output = Any
FILES = {
    "in/a.csv": b"id,name\n1,x\n2,y,and more\n3,z\n",
    "in/deep/b.csv.gz": gzip.compress(b"id,name\n4,x\n"),
    "in/c d%20[1].csv": b"id,name\n5,x\n",
    "in/.hidden.csv": b"id,name\n6,x\n",
    "in/readme.txt": b"no table",
}


@pytest.fixture
def bucket(bucket: S3Store, tmp_path: Path) -> S3Store:
    """A bucket, which AWS's variables reach, and a folder with the same files."""
    for name, raw in FILES.items():
        for place in (bucket.path, str(tmp_path)):
            filesystem = bucket.filesystem if place == bucket.path else pa.fs.LocalFileSystem()
            filesystem.create_dir(f"{place}/{name}".rpartition("/")[0])
            with filesystem.open_output_stream(f"{place}/{name}", compression=None) as stream:
                stream.write(raw)
    return bucket


@pytest.mark.parametrize("what", ["in", "in/a.csv", "in/*.csv", "in/**/*.csv*", "in/c d%20[1].csv", "in/[a-b].csv"])
def test_objects_load_as_local_files_do(weft: Callable[..., Output], bucket: S3Store, what: str) -> None:
    command = ("--table", "t", "--json")
    output = [weft("ingest", "file", f"{place}/{what}", *command, "--home", home) for place, home in PLACES(bucket)]
    assert [each.err for each in output if each.code] == []
    assert {**output[0].json, "first_ts": 0, "last_ts": 0} == {**output[1].json, "first_ts": 0, "last_ts": 0}
    shown = [rejected(weft("quarantine", "list", "--json", "--home", home).json) for _, home in PLACES(bucket)]
    assert [each[1:] for each in shown[0]] == [each[1:] for each in shown[1]]
    assert [each[0] for each in shown[0]] == [f"{bucket}/in/a.csv"] * len(shown[1])
    again = weft("ingest", "file", f"{bucket}/{what}", *command, "--home", "there")
    assert again.json["already_loaded"]
    assert SECRET not in "".join(each.out + each.err for each in (*output, again))


def rejected(shown: Any) -> list[tuple[str, ...]]:
    return [tuple(each[name] for name in ("source", "position", "reason")) for each in shown]


def PLACES(bucket: S3Store) -> tuple[tuple[str, str], ...]:
    """The bucket and the folder with the same files, each with a home."""
    return (str(bucket), "there"), (".", "here")


def test_parquet_objects_of_a_pattern_are_one_load(weft: Callable[..., Output], bucket: S3Store) -> None:
    for number in range(3):
        pq.write_table(pa.table({"n": [number]}), f"{bucket.path}/p/{number}.parquet", filesystem=bucket.filesystem)
    output = weft("ingest", "file", f"{bucket}/p/*.parquet", "--table", "t", "--json")
    assert (output.json["stored"], output.json["quarantined"]) == (3, 0)


def test_objects_other_than_files_on_s3_are_refused_with_the_reason(
    weft: Callable[..., Output], bucket: S3Store
) -> None:
    def refused(place: str) -> str:
        output = weft("ingest", "file", place, "--table", "t")
        assert output.code in (1, 2) and SECRET not in output.err
        return output.err

    assert f"no such object or folder: {bucket}/absent" in refused(f"{bucket}/absent")
    assert f"no file matches the pattern: {bucket}/in/x*" in refused(f"{bucket}/in/x*")
    assert "no such object or folder: s3://weft-no-such-bucket" in refused("s3://weft-no-such-bucket/a.csv")
    assert "Name a local path or s3://BUCKET/PATH." in refused("gs://bucket/a.csv")
    with bucket.filesystem.open_output_stream(f"{bucket.path}/d/_delta_log/0.json") as stream:
        stream.write(b"{}")
    assert "is a Delta table" in refused(f"{bucket}/d")
