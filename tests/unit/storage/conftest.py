"""The tests of tables run over the local store and over an S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from s3_server import access_to, new_bucket, s3_server
from weft.store import S3Access, Store, local_store


@pytest.fixture(scope="session")
def s3_access() -> Iterator[S3Access]:
    with s3_server("weft-tests") as port:
        yield access_to(port)


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store."""
    if request.param == "local":
        return local_store(tmp_path)
    return new_bucket(request.getfixturevalue("s3_access"))
