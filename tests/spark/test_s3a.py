"""Spark writes and reads ``s3a://`` with the jars of the list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from s3_server import KEY, SECRET, s3_server

ROUND_TRIP = """
import json, sys
from pathlib import Path
from weft.runtime.jars import S3_JARS, fetch_jars
from weft.runtime.session import spark_session, stop_session
spark = spark_session(Path(sys.argv[1]), jars=fetch_jars(S3_JARS), conf=json.loads(sys.argv[2]))
rows = spark.range(100_000, numPartitions=2).selectExpr("id", "id % 7 AS g", "sha2(string(id), 512) AS text")
rows.write.parquet("s3a://weft-test/made/by-spark")
found = spark.read.schema("id BIGINT, g BIGINT").parquet("s3a://weft-test/made/by-spark", "s3a://weft-test/made/by-arrow")
print(json.dumps([list(row) for row in found.groupBy("g").count().orderBy("g").collect()]))
stop_session()
"""


def test_rows_are_written_to_and_read_from_an_s3_server(tmp_path: Path) -> None:
    """Spark's files are larger than one part of an upload, and Spark's committer renames them."""
    with s3_server("weft-test") as port:
        store = pa.fs.S3FileSystem(
            access_key=KEY, secret_key=SECRET, endpoint_override=f"127.0.0.1:{port}", scheme="http", region="us-east-1"
        )
        pq.write_table(pa.table({"id": [1, 2], "g": [7, 7]}), "weft-test/made/by-arrow/file.parquet", filesystem=store)
        conf = {
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.multipart.size": "5M",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
        }
        command = [sys.executable, "-c", ROUND_TRIP, str(tmp_path), json.dumps(conf)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=os.environ)
        assert done.returncode == 0, done.stdout + done.stderr
        counts = dict(json.loads(done.stdout))
        made = pq.read_table("weft-test/made/by-spark", columns=["id"], filesystem=store)
        files = store.get_file_info(pa.fs.FileSelector("weft-test/made/by-spark"))
    assert counts == {**{g: (100_000 - g + 6) // 7 for g in range(7)}, 7: 2}
    assert sorted(made["id"].to_pylist()) == list(range(100_000))
    assert max(file.size for file in files) > 5 << 20
