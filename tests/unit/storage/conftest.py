"""The tests of tables run over the local store and over an S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from s3_server import new_bucket
from weft.store import Store, local_store


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store."""
    if request.param == "local":
        return local_store(tmp_path)
    return new_bucket(request.getfixturevalue("s3_access"))
