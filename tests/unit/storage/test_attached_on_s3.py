"""A table in a bucket that another program writes, read in place by a home on a local disk."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from s3_server import new_bucket
from weft.api import Weft
from weft.store import S3Access


@pytest.fixture
def environment(s3_access: S3Access, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's usual variables, by which a home finds the server."""
    assert s3_access.endpoint is not None and s3_access.key is not None and s3_access.secret is not None
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_access.endpoint)
    monkeypatch.setenv("AWS_REGION", s3_access.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_access.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_access.secret)


def test_versions_in_a_bucket_are_taken_once(s3_access: S3Access, environment: None, tmp_path: Path) -> None:
    other = new_bucket(s3_access) / "the-other"

    def append(*ids: int) -> None:
        rows = pa.table({"id": pa.array(ids, pa.int64()), "part": [str(each % 2) for each in ids]})
        write_deltalake(other.uri, rows, mode="append", partition_by=["part"], storage_options=other.options)

    append(1, 2, 3)
    with Weft.open(tmp_path / "home", create=True) as weft:
        assert weft.attach_table("orders", other.uri).rows == 3
        append(4)
        DeltaTable(other.uri, storage_options=other.options).optimize.compact()
        append(5)
        assert (weft.poll_source("orders").began, weft.poll_source("orders").began) == (2, 0)
        samples = weft.describe("orders", 9).samples
        assert sorted((row[0], row[1]) for row in samples) == [  # type: ignore[index, union-attr]
            (1, "1"),
            (2, "0"),
            (3, "1"),
            (4, "0"),
            (5, "1"),
        ]
        assert len({row[2] for row in samples}) == 3  # type: ignore[index, union-attr]
        assert all(check.ok for check in weft.doctor() if check.name in ("home", "attached"))
